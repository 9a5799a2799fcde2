"""The one door for arrays: from outside they become clean arrays here, or a named error says what to do."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opcal.core.method import BoolArray, FloatArray, Head
from opcal.errors import InvalidArray, InvalidInput, LengthMismatch, ProbabilitiesAsLogits

CHUNK = 65_536
LARGEST = 1e15
"""Squared distances of larger values overflow float32."""


def matrix(name: str, values: ArrayLike) -> FloatArray:
    """A C-ordered [N, columns] array of float32 or float64, the input untouched; a memory-map stays one."""
    array = numeric(name, values)
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidArray(
            f"{name} has shape {array.shape}: expected two dimensions, one row an item, "
            "with at least one row and one column"
        )
    wide = np.float64 if array.dtype.kind in "iub" or array.dtype.itemsize > 4 else np.float32
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf, which is refused by name
        return np.require(array, dtype=wide, requirements=["C"])


def vector(name: str, values: ArrayLike, length: int) -> NDArray[Any]:
    array = numeric(name, values)
    if array.ndim != 1:
        raise InvalidArray(f"{name} has shape {array.shape}: expected one dimension, one value an item")
    same_length(name, len(array), length)
    return array


def numeric(name: str, values: ArrayLike) -> NDArray[Any]:
    array = as_array(name, values)
    if array.dtype.kind not in "fiub":
        raise InvalidArray(
            f"{name} holds {array.dtype} values: expected real numbers; "
            f"convert them first, e.g. {name}.astype('float32')"
        )
    return array


def as_array(name: str, values: Any) -> NDArray[Any]:
    if isinstance(values, np.memmap):
        return values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidArray(f"{name} has masked entries: leave those rows out or fill them, e.g. {name}.filled(np.nan)")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists; tensors on another device
        raise InvalidArray(f"{name} cannot be read as an array ({error}): pass a NumPy array") from error


def same_length(name: str, found: int, length: int) -> None:
    if found != length:
        raise LengthMismatch(f"{name} has {found} entries but features has {length} rows: pass one for each item")


def bad_rows(values: FloatArray) -> BoolArray:
    """Rows that hold NaN, inf or a magnitude beyond what float32 distances bear, [N]."""
    bad = np.empty(len(values), dtype=bool)
    for start in range(0, len(values), CHUNK):
        part = values[start : start + CHUNK]
        # The sum of squares overflows or is NaN exactly where a value is unusable: one pass, no mask of [N, d].
        squares = np.einsum("ij,ij->i", part, part, dtype=np.float64)
        bad[start : start + CHUNK] = ~(squares < LARGEST**2)
    return bad


def refuse_rows(name: str, values: FloatArray, bad: BoolArray) -> NoReturn:
    row = int(np.flatnonzero(bad)[0])
    worst = values[row][np.argmax(np.where(np.isnan(values[row]), np.inf, np.abs(values[row])))]
    remedy = f"rescale {name}" if np.isfinite(worst) else 'drop the row or pass on_bad="drop"'
    raise InvalidArray(f"{name}[{row}] holds {worst:g}: {remedy}")


def confidences(values: ArrayLike, length: int) -> tuple[FloatArray, BoolArray]:
    """Confidence as float64 and which entries are no confidence at all."""
    confidence = vector("confidence", values, length).astype(np.float64)
    return confidence, ~((confidence >= 0) & (confidence <= 1))


def refuse_confidence(confidence: FloatArray, bad: BoolArray) -> NoReturn:
    row = int(np.flatnonzero(bad)[0])
    raise InvalidArray(
        f"confidence[{row}] is {float(confidence[row])!r}: expected a number in [0, 1]; "
        'mend it (np.clip, where it is rounding) or pass on_bad="drop"'
    )


def refuse_probabilities(logits: FloatArray, bad: BoolArray) -> None:
    """Softmax outputs passed as logits would be softened a second time; nothing later could tell.

    They may have been rounded: to float16, to three decimals in a CSV file, a bit above 1 in float32.
    """
    for start in range(0, len(logits), CHUNK):
        part = np.asarray(logits[start : start + CHUNK], dtype=np.float64)[~bad[start : start + CHUNK]]
        inside = ((part >= -1e-5) & (part <= 1 + 1e-5)).all()
        if not inside or (np.abs(part.sum(1) - 1) > 0.01).any():
            return
    raise ProbabilitiesAsLogits(
        "logits holds rows that lie in [0, 1] and sum to 1: these are probabilities; "
        "pass the values before the softmax, or np.log(np.maximum(p, 1e-12)), or confidence= and predicted="
    )


def model_head(head: Any, features: FloatArray, logits: FloatArray | None) -> Head:
    """The last layer, refused where it does not give the logits."""
    if logits is None:
        raise InvalidInput("head was passed without logits: it says how they follow from the features; pass logits too")
    weight, bias = weight_and_bias(head, (logits.shape[1], features.shape[1]))
    rows = np.linspace(0, len(features) - 1, min(len(features), 256)).astype(np.intp)
    said = np.asarray(logits[rows], dtype=np.float64)
    with np.errstate(all="ignore"):
        given = np.asarray(features[rows], dtype=np.float64) @ weight.T + bias
    gap, scale = np.abs(said - given).max(), max(float(np.abs(said).max()), 1.0)
    # float16 or bfloat16 features and weights are still the same head up to 2 %.
    if not gap <= 0.02 * scale:
        raise InvalidInput(
            f"head(features) differs from logits by {gap:.3g}: pass the last layer's weight [K, d] and bias [K] "
            "and the features that go into that very layer, or leave head out"
        )
    return Head(weight, bias)


def weight_and_bias(head: Any, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    if not isinstance(head, Head) and (not isinstance(head, (tuple, list)) or len(head) != 2):
        raise InvalidInput(f"head is a {type(head).__name__}: expected (weight, bias) of the model's last layer")
    pair = (head.weight, head.bias) if isinstance(head, Head) else head
    weight = matrix("head weight", pair[0]).astype(np.float64)
    bias = numeric("head bias", pair[1]).astype(np.float64)
    if weight.shape != shape:
        remedy = "transpose it" if weight.T.shape == shape else "pass the layer between these features and these logits"
        raise InvalidArray(f"head weight has shape {weight.shape}: expected [classes, features] = {shape}; {remedy}")
    if bias.shape != shape[:1]:
        raise LengthMismatch(f"head bias has shape {bias.shape}: expected one number a class, {shape[:1]}")
    return weight, bias
