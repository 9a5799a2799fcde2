"""The options of an extraction, with their defaults; the command line has the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opcal.errors import InvalidInput, UnknownOption
from opcal.extract.models.options import ImageOptions, RunOptions
from opcal.extract.rows import Pair
from opcal.extract.run import COMMIT_SECONDS
from opcal.extract.sources.roles import Asked


@dataclass(frozen=True, kw_only=True)
class Settings:
    # the run
    resume: bool = False
    """Go on where an earlier run was stopped; the result is the same bytes."""
    restart: bool = False
    """Throw away what an earlier run left."""
    batch_size: int | str = "auto"
    limit: int | None = None
    """Only the first so many items."""
    workers: int | str = "auto"
    """Loader threads; with engine="ray", workers of the cluster."""
    on_bad: str = "raise"
    """"raise", or "skip" to leave out broken images, missing texts, and rows with NaN."""
    engine: str = "local"
    """"local" or "ray"."""
    address: str | None = None
    """Of a Ray cluster; None starts one on this machine."""
    partitions: int | None = None
    """In how many parts Ray takes the data."""
    commit_seconds: float = COMMIT_SECONDS
    """A kill loses at most so much work."""

    # the model
    classes: Sequence[str] | None = None
    layer: str | None = None
    """The layer whose input is the representation; None: the last linear layer."""
    head: bool | tuple[ArrayLike, ArrayLike] = True
    """True: the logits must follow from the features by that layer. False: keep both as they are. Or (weight, bias)."""
    device: str = "auto"
    precision: str = "float32"
    channels_last: bool | None = None
    threads: int | None = None
    trust: Sequence[str] = ()
    """Types of a .skops file that may be loaded."""

    # from an item to the model's input
    transform: Callable[[Any], Any] | str | None = None
    """A function of one item, or where it is, as "file.py:name"."""
    collate: Callable[[list[Any]], Any] | None = None
    """A function of a list of items, which gives the batch."""
    size: int | tuple[int, int] | None = None
    """Images are resized to this height and width."""
    crop: bool = False
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    channels: int = 3
    processor: str | Path | None = None
    """Folder of a tokenizer or image processor."""
    max_length: int | None = None

    # the columns of a table, or what goes with an array
    text: str | None = None
    image: str | None = None
    inputs: Sequence[str] | str | None = None
    id: str | None = None
    columns: Sequence[str] | str | None = None
    ids: Sequence[Any] | None = None
    payload: Sequence[str] | None = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Settings:
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in options if name not in known]:
            raise UnknownOption(f"extract has no option {unknown[0]!r}: it has {', '.join(known)}")
        settings = cls(**options)
        if settings.on_bad not in ("raise", "skip"):
            raise UnknownOption(f'on_bad is {settings.on_bad!r}: expected "raise" or "skip"')
        if settings.limit is not None and settings.limit < 1:
            raise InvalidInput(f"limit is {settings.limit}: expected 1 item or more")
        return settings

    def run_options(self) -> RunOptions:
        return RunOptions(
            layer=self.layer,
            head=self.head is True,
            device=self.device,
            precision=self.precision,
            channels_last=self.channels_last,
            threads=self.threads,
            transform=None if isinstance(self.transform, str) else self.transform,
            collate=self.collate,
            image=ImageOptions(self._size(), self.crop, _numbers(self.mean), _numbers(self.std), self.channels),
            processor=None if self.processor is None else Path(self.processor),
            max_length=self.max_length,
            trust=tuple(self.trust),
        ).checked()

    def asked(self) -> Asked:
        return Asked(self.text, self.image, _names(self.inputs), self.id, _names(self.columns))

    def preprocess(self) -> str | None:
        return self.transform if isinstance(self.transform, str) else None

    def class_names(self) -> tuple[str, ...] | None:
        return None if self.classes is None else tuple(str(name) for name in self.classes)

    def given_head(self) -> Pair | None:
        if isinstance(self.head, bool):
            return None
        if not isinstance(self.head, (tuple, list)) or len(self.head) != 2:
            raise InvalidInput("head is neither True, False nor a pair (weight, bias) of the model's last layer")
        weight, bias = (np.asarray(part, dtype=np.float32) for part in self.head)
        return weight, bias

    def _size(self) -> tuple[int, int] | None:
        pair = (self.size, self.size) if isinstance(self.size, int) else self.size
        if pair is not None and (len(pair) != 2 or min(pair) < 1):
            raise InvalidInput(f"size is {self.size!r}: expected (height, width)")
        return pair


def _numbers(values: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(float(v) for v in values)


def _names(values: Sequence[str] | str | None) -> tuple[str, ...] | None:
    return None if values is None else (values,) if isinstance(values, str) else tuple(values)
