"""What a task declares: its data, its model, its shift and its split, and what the paper printed for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opcal.core.method import BoolArray, FloatArray, IntArray
from opcal.errors import PoolError
from opcal.experiments.settings import Settings

Inputs = NDArray[Any]


@dataclass(frozen=True)
class Examples:
    """Labelled inputs: images [N, H, W(, 3)] uint8, tokens [N, T], counts or features [N, d]."""

    inputs: Inputs
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: IntArray | BoolArray) -> Examples:
        return Examples(self.inputs[rows], self.labels[rows])


@dataclass(frozen=True)
class Domains:
    train: Examples
    origin: Examples  # tested at home
    field: Examples  # the operation domain
    classes: tuple[str, ...]
    masked: Examples | None = None
    """The origin's test items with a part of each missing."""
    groups: dict[str, BoolArray] = dataclasses.field(default_factory=dict)


class Model(Protocol):
    """A trained classifier."""

    @property
    def head(self) -> tuple[FloatArray, FloatArray]:
        """Weight [K, d] and bias [K] of the last layer."""

    def outputs(self, inputs: Inputs) -> tuple[FloatArray, FloatArray]:
        """Features [N, d] and logits [N, K]."""

    def with_dropout(self, inputs: Inputs, passes: int, seed: int) -> FloatArray | None:
        """Mean probability of the prediction over passes with dropout [N]; None where the network has none."""

    def fine_tuned(self, examples: Examples, seed: int, *, whole: bool, quick: bool) -> Model:
        """A copy trained further: the last layer alone or the whole network."""


@dataclass(frozen=True)
class Printed:
    """What the paper printed for a task."""

    model: str
    data: str
    accuracy: tuple[float, float]
    size: int
    brier: dict[str, float]
    confident: dict[float, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]]
    """By λ: right before and after, false before and after, LCE before and after."""


@dataclass(frozen=True)
class Task:
    name: str
    title: str
    differs: str
    """How this task differs from the paper's, in a sentence or two."""
    why: str
    """Why its figures differ from the printed ones."""
    printed: Printed
    data: Callable[[Settings], Domains]
    train: Callable[[Domains, int, Settings, Path], Model]
    """Domains, seed, settings, checkpoint file."""
    restore: Callable[[Domains, int, Settings, Path], Model]
    """The trained model from the file that `train` left."""
    pool_share: float
    whole_network: bool = True
    """Can the whole network be fine-tuned, or are features all that is at hand?"""
    pictures: Callable[[Settings], tuple[list[Inputs], list[Inputs]]] | None = None
    """A few inputs of origin and operation to look at."""
    torch: bool = True


def arrays(folder: Path, name: str) -> dict[str, Any]:
    """The arrays of one .npz of the data folder."""
    path = folder / name
    if not path.exists():
        raise PoolError(f"{path} is missing: --data expects the folder with {name}; see `opcal paper --help`")
    with np.load(path, allow_pickle=False) as found:
        return {key: found[key] for key in found.files}


def labels_of(values: NDArray[Any]) -> IntArray:
    return values.astype(np.intp)
