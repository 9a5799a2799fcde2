"""The one door for what names things: classes, labels, ids, positions, and values kept with the items."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opcal.core.method import OUTSIDE, BoolArray, IntArray
from opcal.errors import DuplicateIds, InvalidArray, InvalidInput, LengthMismatch, UnknownItem, UnknownLabel
from opcal.pool.checks import as_array, numeric, same_length

OWN_COLUMNS = ("id", "predicted", "confidence", "payload")
MANY = 2**31
"""More classes than any model has: the bound where their number is unknown."""


def class_names(classes: Sequence[str] | None, n_classes: int | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise InvalidInput(f"classes is {classes!r}: expected a list of class names")
    names = tuple(str(name) for name in classes)
    if n_classes is not None and len(names) != n_classes:
        raise LengthMismatch(f"classes has {len(names)} names but logits has {n_classes} columns: name every column")
    if len(names) < 2:
        raise InvalidInput(f"classes has {len(names)} name(s): a classifier has two classes or more")
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if seen.setdefault(name, i) != i:
            raise InvalidInput(f"classes holds {name!r} twice: class names must differ")
    return names


def predictions(values: ArrayLike, length: int, classes: tuple[str, ...] | None) -> IntArray:
    found = class_indices("predicted", values, classes, None if classes is None else len(classes))
    same_length("predicted", len(found), length)
    if (found < 0).any():
        row = int(np.flatnonzero(found < 0)[0])
        raise UnknownLabel(f"predicted[{row}] is {found[row]}: a model predicts one of its classes, 0 or higher")
    return found


def class_indices(name: str, values: ArrayLike, classes: tuple[str, ...] | None, n_classes: int | None) -> IntArray:
    """Class indices, or OUTSIDE, from indices or class names; [n]."""
    array = np.atleast_1d(_keeping_kinds(name, values))
    if array.ndim != 1:
        raise InvalidArray(f"{name} has shape {array.shape}: expected one dimension, one class an item")
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.dtype.kind in "UOT":
        index = None if classes is None else {text: i for i, text in enumerate(classes)}
        array = np.array([_index_of(name, row, value, index) for row, value in enumerate(array.tolist())])
    return _whole(name, numeric(name, array), n_classes)


def _keeping_kinds(name: str, values: Any) -> NDArray[Any]:
    """NumPy would turn ["cat", OUTSIDE] into the texts "cat" and "-1"."""
    mixed = isinstance(values, (list, tuple)) and any(isinstance(value, str) for value in values)
    return np.array(values, dtype=object) if mixed else as_array(name, values)


def _index_of(name: str, row: int, value: Any, index: Mapping[str, int] | None) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(np.clip(value, OUTSIDE - 1, MANY))
    if index is None and isinstance(value, str):
        raise UnknownLabel(
            f"{name}[{row}] is {value!r} but the pool has no class names: pass classes= to the pool or use indices"
        )
    if index is None or not isinstance(value, str) or value not in index:
        known = "indices" if index is None else ", ".join(list(index)[:8]) + (", …" if len(index) > 8 else "")
        raise UnknownLabel(
            f"{name}[{row}] is {value!r}, which is none of the model's classes ({known}): "
            "for an item outside all of them pass opcal.OUTSIDE"
        )
    return index[value]


def _whole(name: str, array: NDArray[Any], n_classes: int | None) -> IntArray:
    numbers = array.astype(np.int8) if array.dtype.kind == "b" else array
    if numbers.dtype.kind == "f" and not (whole := numbers == np.round(numbers)).all():  # false for NaN too
        row = int(np.flatnonzero(~whole)[0])
        raise UnknownLabel(f"{name}[{row}] is {numbers[row]:g}: expected a whole class index")
    end = MANY if n_classes is None else n_classes
    if numbers.min() < OUTSIDE or numbers.max() >= end:
        bad = (numbers < OUTSIDE) | (numbers >= end)
        row = int(np.flatnonzero(bad)[0])
        known = f"0 to {n_classes - 1}" if n_classes is not None else "0 or higher"
        raise UnknownLabel(
            f"{name}[{row}] is {array[row]}: the model's classes are {known}; "
            "for an item outside all of them pass opcal.OUTSIDE"
        )
    return numbers.astype(np.intp)


def entries(name: str, values: Any, length: int) -> list[Any]:
    """Any column of one value an item as a plain list, so that positions index it."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {values!r:.80}: expected a list, one entry an item")
    if getattr(values, "ndim", 1) != 1:
        raise InvalidArray(f"{name} has shape {values.shape}: expected one dimension, one entry an item")  # type: ignore[attr-defined]
    # Dates in nanoseconds would become bare numbers by tolist().
    plain = isinstance(values, np.ndarray) and values.dtype.kind not in "mM"
    listed = values.tolist() if isinstance(values, np.ndarray) and plain else list(values)
    same_length(name, len(listed), length)
    return listed


def unique_ids(ids: Any, length: int) -> list[str] | None:
    if ids is None:
        return None
    texts = []
    seen: dict[str, int] = {}
    for row, item in enumerate(entries("ids", ids, length)):
        if missing(item) or isinstance(item, bytes):
            raise InvalidInput(f"ids[{row}] is {item!r}: every item needs an id, a text or a number")
        text = str(item)
        if seen.setdefault(text, row) != row:
            raise DuplicateIds(f"ids[{row}] is {text!r}, as ids[{seen[text]}] is already: every item needs its own id")
        texts.append(text)
    return texts


def payloads(payload: Any, length: int) -> list[str | None] | None:
    if payload is None:
        return None
    return [None if missing(item) else str(item) for item in entries("payload", payload, length)]


def own_columns(columns: Any, length: int) -> dict[str, list[Any]]:
    """The user's columns; a name of opcal's own would hide what the model said."""
    kept = {}
    for name, values in mapping("columns", columns).items():
        if not isinstance(name, str) or name in OWN_COLUMNS:
            raise InvalidInput(f"columns has the name {name!r}: expected a text other than {', '.join(OWN_COLUMNS)}")
        kept[name] = entries(f"column {name!r}", values, length)
    return kept


def mapping(name: str, value: Any) -> dict[Any, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"{name} is a {type(value).__name__}: expected a mapping from names to values")
    return dict(value or {})


def missing(item: Any) -> bool:
    """None, NaN, and what pandas has for them, without importing pandas."""
    return (
        item is None or (isinstance(item, float) and math.isnan(item)) or type(item).__name__ in ("NAType", "NaTType")
    )


def positions(name: str, values: Any, n: int) -> IntArray:
    array = np.atleast_1d(as_array(name, values))
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArray(
            f"{name} holds {array.dtype} of shape {array.shape}: expected whole numbers in one dimension, "
            "as ask() gives; for ids use pool.positions(ids)"
        )
    if array.min() < 0 or array.max() >= n:
        bad = (array < 0) | (array >= n)
        raise UnknownItem(f"{name} holds {array[bad][0]}, which is not in the pool: its {n} items are 0 to {n - 1}")
    return array.astype(np.intp)


def mask(name: str, values: Any, length: int) -> BoolArray:
    """True or False for each of `length` positions; 0 and 1 will do."""
    array = np.atleast_1d(as_array(name, values))
    if array.size and not (array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all()):
        odd = next(value for value in array.ravel().tolist() if array.dtype.kind not in "biuf" or value not in (0, 1))
        raise InvalidArray(f"{name} holds {odd!r}: expected True or False for each position")
    if array.shape != (length,):
        raise LengthMismatch(f"{name} has {array.size} entries for {length} positions: pass one for each position")
    return array.astype(bool)
