"""What a source of data hands on, and what a model says of itself: the two contracts of this room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
Pair = tuple[FloatArray, FloatArray]
"""Weight [K, d] and bias [K] of a last layer; or features [n, d] and logits [n, K]."""


@dataclass(frozen=True)
class Skipped:
    """An item that could not be used, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Rows:
    """Neighbouring items of a source: one batch."""

    start: int
    """Position in the source of the first item."""
    stop: int
    """Position after the last; fewer values than stop − start where items were skipped."""
    values: Any
    """An array [n, ...], or a list of images, texts or whatever the source holds."""
    items: pa.Table | None = None
    """Their id, payload and further columns, where the source has them."""
    skipped: list[Skipped] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)


class Source(Protocol):
    """Field data, read from any position on, so that an extraction can be resumed or shared out."""

    @property
    def name(self) -> str:
        """Where the data come from, as told in messages."""

    @property
    def kind(self) -> str:
        """ "images", "texts", "rows" or "items"."""

    @property
    def count(self) -> int | None:
        """How many items there are, where that is known."""

    def fingerprint(self) -> str:
        """What changes when the data do, as far as that can be told without reading them all; "" where it cannot."""

    @property
    def anywhere(self) -> bool:
        """Whether it can be read from any position, and anew in another process."""

    def batches(self, start: int, stop: int | None, size: int) -> Iterator[Callable[[], Rows]]:
        """One function for each batch from position `start`, a multiple of `size`; calling it does the reading,
        possibly in another thread."""


def in_batches(read: Callable[[int, int], Rows], start: int, end: int, size: int) -> Iterator[Callable[[], Rows]]:
    """The batches of a source whose rows can be read by position."""
    return (partial(read, at, min(at + size, end)) for at in range(start, end, size))


@dataclass(frozen=True)
class About:
    """What is known of a model once it has seen a first batch."""

    representation: str
    """Which tensor the features are, in words."""
    width: int
    n_classes: int
    head: Pair | None = field(default=None, repr=False)
    classes: tuple[str, ...] | None = None


class Model(Protocol):
    """Features and logits from one forward pass."""

    @property
    def name(self) -> str: ...

    def digest(self) -> str:
        """A hash of the weights, so that a resumed extraction is of the same model; "" where nothing can be hashed."""

    def prepare(self, values: Any) -> Any:
        """The batch as the model takes it; called in loader threads."""

    def examine(self, batch: Any) -> tuple[About, Pair]:
        """Find the representation on a first prepared batch, and check it; the batch's features and logits."""

    def run(self, batch: Any) -> Pair:
        """Features [n, d] and logits [n, K] of a prepared batch, float32."""

    def close(self) -> None:
        """Leave what the user passed as it was."""
