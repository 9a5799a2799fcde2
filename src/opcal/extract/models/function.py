"""Any function that returns (features, logits)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from opcal.errors import ModelError
from opcal.extract.models.inputs import array_batch, is_image
from opcal.extract.models.options import RunOptions
from opcal.extract.rows import About, FloatArray, Pair
from opcal.extract.sources.choose import Wants


class FunctionModel:
    """`function(batch) -> (features [n, d], logits [n, K])`, from whatever framework."""

    wants = Wants()
    classes: tuple[str, ...] | None = None

    def __init__(self, function: Callable[[Any], Any], options: RunOptions, name: str | None = None) -> None:
        self.function, self.options, self.notes = function, options, list[str]()
        self.name = name or getattr(function, "__name__", type(function).__name__)

    def digest(self) -> str:
        return ""

    def prepare(self, values: Any) -> Any:
        if self.options.collate is not None:
            return self.options.collate(list(values))
        if self.options.transform is not None:
            values = [self.options.transform(value) for value in values]
        if isinstance(values, (list, tuple)) and values and is_image(values[0]):
            return array_batch(values, self.options.image)
        return values

    def examine(self, batch: Any) -> tuple[About, Pair]:
        features, logits = self.run(batch)
        told = f"what {self.name} returns, {features.shape[-1]} numbers"
        return About(told, features.shape[-1], logits.shape[-1]), (features, logits)

    def run(self, batch: Any) -> Pair:
        found = self.function(batch)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise ModelError(f"{self.name} returned a {type(found).__name__}: expected a pair (features, logits)")
        features, logits = (_array(part) for part in found)
        if features.ndim != 2 or logits.ndim != 2:
            raise ModelError(
                f"{self.name} returned features {features.shape} and logits {logits.shape}: expected two dimensions, "
                "[items, features] and [items, classes]"
            )
        return features, logits

    def close(self) -> None:
        pass


def _array(values: Any) -> FloatArray:
    if hasattr(values, "detach"):
        values = values.detach().cpu().float()
    return np.ascontiguousarray(values, dtype=np.float32)


def takes_a_batch(thing: Any) -> bool:
    """Whether something is to be called with a batch; a factory takes nothing."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
