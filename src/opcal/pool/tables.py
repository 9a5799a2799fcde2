"""Pools from tables: which column is what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from opcal.core.method import FloatArray
from opcal.errors import InvalidArray, InvalidInput
from opcal.pool.names import OWN_COLUMNS
from opcal.pool.pool import Pool

Columns = str | Iterable[str]

DEFAULTS = {
    "features": ("features", "feature_*", "features_*", "z_*", "z*"),
    "logits": ("logits", "logit_*", "logits_*", "h_*", "h*"),
    "confidence": ("confidence",),
    "predicted": ("predicted", "prediction"),
    "ids": ("id", "ids"),
    "payload": ("payload",),
}


def pool_from_table(
    table: Any,
    *,
    features: Columns | None = None,
    logits: Columns | None = None,
    confidence: str | None = None,
    predicted: str | None = None,
    ids: str | None = None,
    payload: str | None = None,
    **options: Any,
) -> Pool:
    """A pool from any table that speaks Arrow (pandas, polars, pyarrow, DuckDB, ...) or a mapping of columns.

    `features` and `logits` name a column of lists, a list of number columns, or a pattern such as "z_*" whose matches
    are taken in the order of their numbers; the others name one column. What is not named is looked for under the
    names in `DEFAULTS`; with logits, confidence and predicted follow from them. Further options are those of
    `Pool.from_arrays`. All other columns are kept with the items, except those named like opcal's own (id, predicted,
    confidence, payload).
    """
    arrow = as_arrow(table)
    asked: dict[str, Columns | None] = {
        "features": features,
        "logits": logits,
        "confidence": confidence,
        "predicted": predicted,
        "ids": ids,
        "payload": payload,
    }
    found = logits_or_confidence({role: _find(arrow, role, columns) for role, columns in asked.items()}, asked)
    if not found["features"]:
        raise InvalidInput(
            f"no feature columns among {some(arrow.column_names)}: name them with features=, "
            'a column of lists or a pattern such as "z_*"'
        )
    arrays: dict[str, Any] = {}
    for role, columns in found.items():
        if columns:
            is_matrix = role in ("features", "logits")
            arrays[role] = _matrix(arrow, columns) if is_matrix else _plain(arrow[columns[0]])
    used = {*OWN_COLUMNS, *(name for columns in found.values() for name in columns)}
    rest = {name: arrow[name].to_pylist() for name in arrow.column_names if name not in used}
    return Pool.from_arrays(**arrays, columns=rest, **options)


def logits_or_confidence(found: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for goes before what was only found; where nothing was, logits go before confidence."""
    logits, confidence = {"logits"}, {"confidence", "predicted"}
    named = {role for role, columns in asked.items() if columns is not None}
    found_logits = found.get("logits") is not None and len(found["logits"]) > 0
    unused = logits if named & confidence and not named & logits else confidence - named if found_logits else set()
    return {role: columns for role, columns in found.items() if role not in unused}


def as_arrow(table: Any) -> pa.Table:
    try:
        arrow = _converted(table)
    except (pa.ArrowException, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(
            f"table cannot be read ({error}): expected columns of equal length and plain kinds"
        ) from error
    if arrow is None:
        raise InvalidInput(
            f"table is a {type(table).__name__}: expected a pandas, polars or pyarrow table, or a mapping of columns"
        )
    names = arrow.column_names
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"table has two columns {double!r}: rename one")
    return arrow


def _converted(table: Any) -> pa.Table | None:
    if isinstance(table, pa.Table):
        return table
    if type(table).__module__.startswith("pandas") and hasattr(table, "index"):
        named = any(name is not None for name in table.index.names)
        return pa.Table.from_pandas(table, preserve_index=named)
    if isinstance(table, Mapping):
        return pa.table({str(name): _rows_as_lists(values) for name, values in table.items()})
    return pa.table(table) if hasattr(table, "__arrow_c_stream__") else None


def _rows_as_lists(values: Any) -> Any:
    if not isinstance(values, np.ndarray) or values.ndim != 2:
        return values
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])


def _find(table: pa.Table, role: str, columns: Columns | None) -> list[str]:
    if columns is None:
        return next((matches for name in DEFAULTS[role] if (matches := _match(table, name))), [])
    found: list[str] = []
    for pattern in [columns] if isinstance(columns, str) else list(columns):
        if not (matches := _match(table, pattern)):
            raise InvalidInput(f"{role}={pattern!r} matches none of the columns {some(table.column_names)}")
        found += [name for name in matches if name not in found]
    return found


def _match(table: pa.Table, pattern: str) -> list[str]:
    if "*" not in pattern:
        return [pattern] if pattern in table.column_names else []
    shape = re.compile(re.escape(pattern).replace(r"\*", r"(\d+)") + r"\Z")
    hits = [(hit, name) for name in table.column_names if (hit := shape.match(name))]
    return [name for _, name in sorted(([int(number) for number in hit.groups()], name) for hit, name in hits)]


def _matrix(table: pa.Table, names: list[str]) -> FloatArray:
    if len(names) > 1 or not _is_list(table[names[0]].type):
        return np.column_stack([_numbers(table[name], name) for name in names])
    return _from_lists(table[names[0]], names[0])


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _from_lists(column: Any, name: str) -> FloatArray:
    """Rows of a column of lists, chunk by chunk; [N, length]."""
    if column.null_count:
        row = column.is_null().to_numpy().argmax()
        raise InvalidArray(f"column {name!r} holds no list in row {row}: drop the row")
    lengths = [_lengths(chunk) for chunk in column.chunks]
    every = np.concatenate([np.empty(0, int), *lengths])
    if len(set(every.tolist())) > 1:
        row = int(np.flatnonzero(every != every[0])[0])
        raise InvalidArray(
            f"column {name!r} holds {every[0]} values in row 0 and {every[row]} in row {row}: "
            "every item needs the same number of values"
        )
    width = int(every[0]) if len(every) else 0
    values = [_numbers(chunk.flatten(), name) for chunk in column.chunks]
    flat = np.concatenate(values) if values else np.empty(0)
    return flat.reshape(len(every), width)


def _lengths(lists: Any) -> Any:
    if pa.types.is_fixed_size_list(lists.type):
        return np.full(len(lists), lists.type.list_size)
    return np.diff(lists.offsets.to_numpy())


def _numbers(column: Any, name: str) -> Any:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise InvalidArray(f"column {name!r} holds {column.type}: expected numbers")
    return column.to_numpy(zero_copy_only=False)


def _plain(column: Any) -> Any:
    kind = column.type
    return column.to_numpy() if pa.types.is_floating(kind) or pa.types.is_integer(kind) else column.to_pylist()


def some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(repr(name) for name in listed[:8]) + (", …" if len(listed) > 8 else "")
