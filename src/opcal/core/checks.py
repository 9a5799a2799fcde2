"""The arrays that metrics and costs take, checked once: confidences in [0, 1] and right-or-wrong answers."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opcal.core.method import BoolArray
from opcal.errors import InvalidArray, InvalidInput, LengthMismatch

Float64Array = NDArray[np.float64]


def confidences(values: ArrayLike, name: str = "conf") -> Float64Array:
    """One confidence in [0, 1] for each item, as float64 [N]."""
    array = _numbers(values, name).astype(np.float64)
    _refuse_rows(~((array >= 0) & (array <= 1)), array, name, "confidence lies in [0, 1]")
    return array


def answers(values: ArrayLike, name: str = "correct") -> BoolArray:
    """Whether each prediction was right, as booleans [N]; 0 and 1 will do."""
    array = _numbers(values, name)
    _refuse_rows((array != 0) & (array != 1), array, name, "pass True where the prediction was right, else False")
    return array.astype(np.bool_)


def scored(conf: ArrayLike, correct: ArrayLike) -> tuple[Float64Array, BoolArray]:
    """Confidences and answers of the same items."""
    c, right = confidences(conf), answers(correct)
    if len(c) != len(right):
        raise LengthMismatch(f"conf has {len(c)} items but correct has {len(right)}: pass one answer for each")
    return c, right


def within(value: float, name: str, low: float, high: float, *, below: bool = False) -> float:
    """A number in [low, high], or in [low, high) where `below`."""
    interval = f"[{low:g}, {high:g}{')' if below else ']'}"
    if not isinstance(value, Real):
        raise InvalidInput(f"{name} is {value!r}: pass a number in {interval}")
    number = float(value)
    if not low <= number <= high or (below and number == high):
        raise InvalidInput(f"{name} is {number:g}: pass a number in {interval}")
    return number


def _numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidArray(f"{name} is ragged: pass one number for each item ({error})") from None
    if array.size == 0:
        raise InvalidArray(f"{name} is empty: pass at least one item")
    if array.dtype.kind not in "biuf":
        raise InvalidArray(f"{name} has dtype {array.dtype}: pass real numbers or booleans")
    if array.ndim != 1:
        raise InvalidArray(f"{name} has shape {array.shape}: pass one number for each item, shape [N]")
    return array


def _refuse_rows(bad: BoolArray, array: NDArray[Any], name: str, expected: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidArray(f"{name}[{row}] is {array[row]}: {expected}")
