"""Tables of texts, images or numbers: CSV, JSON lines, Parquet and Arrow, one file or a folder of them, never whole in
memory; or a table that is in memory already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from opcal.errors import DataError, DuplicateIds
from opcal.extract.recut import Recut
from opcal.extract.rows import Rows, Skipped
from opcal.extract.sources.images import checksum, read_images
from opcal.extract.sources.parts import Part
from opcal.extract.sources.roles import Roles

HASH = np.dtype("u8")


@dataclass(frozen=True)
class TableSource:
    """Rows of a table in parts, one column or several of which the model takes."""

    parts: tuple[Part, ...]
    roles: Roles
    name: str
    folder: Path | None = None
    """What relative paths of images are relative to."""
    anywhere: bool = True

    @property
    def kind(self) -> str:
        return self.roles.kind

    @cached_property
    def count(self) -> int:
        """Counted where no file tells it; the ids are looked through on the way, for they must differ."""
        known = [part.rows for part in self.parts]
        if self.roles.id is None and None not in known:
            return sum(n for n in known if n is not None)
        column = self.roles.id or self.roles.inputs[0]
        seen, n = [np.empty(0, HASH)], 0
        for part in self.parts:
            for batch in part.read([column]):
                n += len(batch)
                if self.roles.id is not None:
                    seen.append(np.array([_hash(v) for v in batch.column(0).to_pylist()], HASH))
        if self.roles.id is not None:
            _refuse_twice(np.concatenate(seen), self.roles.id, self.name)
        if n == 0:
            raise DataError(f"{self.name} holds no row: a pool needs at least one item")
        return n

    def fingerprint(self) -> str:
        return checksum([*dict.fromkeys(part.origin for part in self.parts), repr(self.roles)])

    def batches(self, start: int, stop: int | None, size: int) -> Iterator[Callable[[], Rows]]:
        end = self.count if stop is None else min(stop, self.count)
        rows = Recut(self._from(start))
        for at in range(start, end, size):
            table = rows.take(min(size, end - at))
            if table is None:
                return
            yield partial(self._rows, at, table)

    def _from(self, start: int) -> Iterator[pa.RecordBatch]:
        """Record batches from row `start` on; parts of known length are passed over unread."""
        columns = self.roles.needed
        for part in self.parts:
            if part.rows is not None and part.rows <= start:
                start -= part.rows
                continue
            for batch in part.read(columns):
                if start >= len(batch):
                    start -= len(batch)
                    continue
                yield batch.slice(start)
                start = 0

    def _rows(self, at: int, table: pa.Table) -> Rows:
        ids = self._ids(at, table)
        stop = at + len(table)
        if self.kind == "images":
            given = [self._image(value) for value in table[self.roles.inputs[0]].to_pylist()]
            return read_images(at, stop, ids, given, self._items(table, ids, self._payload(table, given)))
        if self.kind == "texts":
            return self._texts(at, table, ids)
        items = self._items(table, ids, self._payload(table, None))
        return Rows(at, stop, self.roles.numbers(table), items if items.num_columns else None)

    def _texts(self, at: int, table: pa.Table, ids: list[str]) -> Rows:
        texts = table[self.roles.inputs[0]].cast(pa.string()).to_pylist()
        items = self._items(table, ids, texts)
        kept = [i for i, text in enumerate(texts) if text is not None]
        missing = [Skipped(ids[i], "there is no text") for i, text in enumerate(texts) if text is None]
        if missing:
            items = items.take(kept)
        return Rows(at, at + len(table), [texts[i] for i in kept], items, missing)

    def _ids(self, at: int, table: pa.Table) -> list[str]:
        if self.roles.id is None:
            return [str(i) for i in range(at, at + len(table))]
        found = table[self.roles.id].to_pylist()
        if None in found:
            raise DataError(
                f"{self.name}: column {self.roles.id!r} has no id in row {at + found.index(None)}: "
                "every item needs an id; fill it, or name another column with --id"
            )
        return [str(value) for value in found]

    def _payload(self, table: pa.Table, shown: list[Any] | None) -> list[str | None] | None:
        if shown is not None and not any(isinstance(value, bytes) for value in shown):
            return [None if value is None else str(value) for value in shown]
        if self.roles.payload is None:
            return None
        return [None if value is None else str(value) for value in table[self.roles.payload].to_pylist()]

    def _items(self, table: pa.Table, ids: list[str], payload: list[str | None] | None) -> pa.Table:
        """What is kept with each item; the id only where it is more than the row's number."""
        columns: dict[str, Any] = {}
        if self.roles.id is not None or self.kind != "rows":
            columns["id"] = pa.array(ids, pa.string())
        if payload is not None:
            columns["payload"] = pa.array(payload, pa.string())
        return pa.table(columns | {name: table[name] for name in self.roles.kept})

    def _image(self, value: Any) -> Any:
        """Bytes, a path, or both as the Hugging Face `datasets` library stores them."""
        if isinstance(value, dict):
            value = value.get("bytes") or value.get("path")
        if isinstance(value, str) and self.folder is not None and not Path(value).is_absolute():
            return str((self.folder / value).resolve())
        return value


def _hash(value: Any) -> int:
    return hash(str(value)) & 0xFFFFFFFFFFFFFFFF


def _refuse_twice(hashes: np.ndarray[Any, np.dtype[Any]], column: str, name: str) -> None:
    """64 bits of each id: among 1,000,000 ids two that differ meet with a probability of 3e-8."""
    if len(np.unique(hashes)) == len(hashes):
        return
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])[0]
    raise DuplicateIds(
        f"{name}: column {column!r} holds the same id in rows {order[same]} and {order[same + 1]}: "
        "every item needs its own; name another column with --id"
    )
