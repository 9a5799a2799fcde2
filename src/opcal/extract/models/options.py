"""What the user said about how a model is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opcal.errors import UnknownOption

PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class ImageOptions:
    """From an image to the model's input: resize, to [0, 1], normalise, channels first."""

    size: tuple[int, int] | None = None
    """Height and width; None leaves images as they are."""
    crop: bool = False
    """Resize the shorter side and cut out the middle, instead of stretching."""
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    channels: int = 3


@dataclass(frozen=True)
class RunOptions:
    layer: str | None = None
    """Whose input is the representation; None: the last linear layer."""
    head: bool = True
    """False: keep features and logits as they are, though the one does not follow from the other."""
    device: str = "auto"
    precision: str = "float32"
    channels_last: bool | None = None
    threads: int | None = None
    transform: Callable[[Any], Any] | None = None
    """From one item to the model's input, in place of what `image` says."""
    collate: Callable[[list[Any]], Any] | None = None
    """From a list of items to the model's batch."""
    image: ImageOptions = ImageOptions()
    processor: Path | None = None
    """A folder with a tokenizer or an image processor of Hugging Face."""
    max_length: int | None = None
    trust: tuple[str, ...] = ()
    """Types of a skops file that may be loaded though skops does not know them."""

    def checked(self) -> RunOptions:
        if self.precision not in PRECISIONS:
            raise UnknownOption(f"precision is {self.precision!r}: expected {', '.join(PRECISIONS)}")
        return self
