"""Dense nodes of graphs: where their input, weight and bias are."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

DENSE = {"linear": (0, 1, 2), "addmm": (1, 2, 0), "conv2d": (0, 1, 2), "mm": (0, 1, None), "matmul": (0, 1, None)}
"""Places of input, weight and bias among the arguments."""


class quiet(warnings.catch_warnings):  # type: ignore[type-arg]  # noqa: N801  used as a function
    """TorchScript is deprecated, which whoever has such a file cannot help."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")


def dense_head(kind: str, weight: Any, bias: Any, given: Tensor) -> tuple[Tensor, Tensor] | None:
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        return None
    if kind == "conv2d":
        if given.shape[1:] != weight.shape[1:]:
            return None
        weight = weight.flatten(1)
    elif kind != "linear":
        weight = weight.T
    return weight, bias if isinstance(bias, Tensor) else torch.zeros(len(weight))
