"""Which column of a table is what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from opcal.errors import DataError

IDS = ("id", "ids", "item_id", "uuid", "key")
TEXTS = ("text", "sentence", "content", "review", "document", "body", "comment", "message", "title", "question")
IMAGES = ("image", "img", "image_path", "image_file", "file_name", "filename", "file", "path")
NOT_INPUTS = frozenset({"label", "labels", "target", "class", "predicted", "confidence", "payload", *IDS})
OWN = frozenset({"id", "predicted", "confidence", "payload"})


@dataclass(frozen=True)
class Asked:
    """What the user said about columns."""

    text: str | None = None
    image: str | None = None
    inputs: tuple[str, ...] | None = None
    id: str | None = None
    columns: tuple[str, ...] | None = None
    """The columns to keep with the items; None keeps all plain ones."""


@dataclass(frozen=True)
class Roles:
    kind: str
    """"texts", "images" or "rows"."""
    inputs: tuple[str, ...]
    id: str | None
    payload: str | None
    kept: tuple[str, ...]
    named: bool = False
    """The model knows its inputs by name: it gets a table, not an array."""

    @property
    def needed(self) -> list[str]:
        return list(dict.fromkeys([*self.inputs, *(n for n in (self.id, self.payload) if n), *self.kept]))

    def numbers(self, table: pa.Table) -> Any:
        """Inputs as an array [n, columns], or [n, length] from one column of lists."""
        if self.named:
            return table.select(list(self.inputs))
        first: Any = table[self.inputs[0]].combine_chunks()
        if _is_list(first.type):
            flat = np.asarray(first.flatten())
            if len(first) == 0 or len(flat) % len(first):
                raise DataError(f"column {self.inputs[0]!r} holds lists of different lengths: all need the same")
            return flat.reshape(len(first), -1)
        return np.column_stack([table[name].to_numpy() for name in self.inputs])


def assign(schema: pa.Schema, asked: Asked, takes: str | None, wanted: Sequence[str] | None, name: str) -> Roles:
    """The roles of columns: as asked for, else by the model's kind of data, by usual names, by what is there.

    `takes` is the kind of data that the model takes, where it says so; `wanted` are inputs that it knows by name.
    """
    for column in [asked.text, asked.image, asked.id, *(asked.columns or ())]:
        if column is not None and column not in schema.names:
            raise DataError(f"{name} has no column {column!r}: it has {some(schema.names)}")
    item_id = asked.id or next((n for n in IDS if n in schema.names), None)
    kind, inputs = _inputs(schema, asked, takes, wanted, item_id, name)
    payload = "payload" if "payload" in schema.names else None
    taken = {item_id, *(inputs if kind != "rows" or asked.columns is None else ()), *OWN}
    offered = schema.names if asked.columns is None else list(asked.columns)
    kept = tuple(n for n in offered if n not in taken and (asked.columns is not None or _plain(schema.field(n).type)))
    return Roles(kind, inputs, item_id, payload, kept, named=wanted is not None and kind == "rows")


def _inputs(  # noqa: PLR0911  one line a way
    schema: pa.Schema,
    asked: Asked,
    takes: str | None,
    wanted: Sequence[str] | None,
    item_id: str | None,
    name: str,
) -> tuple[str, tuple[str, ...]]:
    if asked.text is not None:
        return "texts", (asked.text,)
    if asked.image is not None:
        return "images", (asked.image,)
    if asked.inputs is not None:
        return "rows", tuple(_matching(schema.names, asked.inputs, name))
    if wanted is not None:
        if missing := [column for column in wanted if column not in schema.names]:
            raise DataError(f"{name} lacks {some(missing)}, which the model takes: it has {some(schema.names)}")
        return "rows", tuple(wanted)
    if takes == "texts":
        return "texts", (_text(schema, item_id, name),)
    if takes == "images":
        return "images", (_image(schema, name),)
    return _by_itself(schema, item_id, name)


def _by_itself(schema: pa.Schema, item_id: str | None, name: str) -> tuple[str, tuple[str, ...]]:
    fields = [field for field in schema if field.name not in NOT_INPUTS and field.name != item_id]
    if lists := [f.name for f in fields if _is_list(f.type) and _is_number(f.type.value_type)]:
        return "rows", (lists[0],)
    if pictures := [f.name for f in fields if _is_picture(f.type)]:
        return "images", (pictures[0],)
    if numbers := [f.name for f in fields if _is_number(f.type)]:
        return "rows", tuple(numbers)
    return "texts", (_text(schema, item_id, name),)


def _text(schema: pa.Schema, item_id: str | None, name: str) -> str:
    texts = [f.name for f in schema if _is_text(f.type) and f.name != item_id]
    found = next((n for n in TEXTS if n in texts), texts[0] if len(texts) == 1 else None)
    if found is None:
        raise DataError(f"no column of {name} is clearly the text ({some(schema.names)}): name it with --text")
    return found


def _image(schema: pa.Schema, name: str) -> str:
    pictures = [f.name for f in schema if _is_picture(f.type)]
    found = pictures[0] if pictures else next((n for n in IMAGES if n in schema.names), None)
    if found is None:
        raise DataError(f"no column of {name} is clearly the image ({some(schema.names)}): name it with --image")
    return found


def _matching(names: list[str], patterns: Sequence[str], name: str) -> list[str]:
    """Columns by name or pattern such as "x_*", in the order of their numbers."""
    found: list[str] = []
    for pattern in patterns:
        shape = re.compile(re.escape(pattern).replace(r"\*", r"(\d+)") + r"\Z")
        hits = [(tuple(int(n) for n in hit.groups()), n) for n in names if (hit := shape.match(n))]
        if not hits:
            raise DataError(f"{name} has no column {pattern!r}: it has {some(names)}")
        found += [n for _, n in sorted(hits) if n not in found]
    return found


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_picture(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_struct(kind)


def _plain(kind: pa.DataType) -> bool:
    nested = _is_list(kind) or _is_picture(kind) or pa.types.is_map(kind) or pa.types.is_dictionary(kind)
    return not nested and not pa.types.is_null(kind)


def some(names: Sequence[str]) -> str:
    return ", ".join(repr(n) for n in list(names)[:8]) + (", …" if len(names) > 8 else "")
