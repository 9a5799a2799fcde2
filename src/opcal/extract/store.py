"""A pool that grows on disk batch by batch, survives being killed, and appears under its name only when it is whole.

`.NAME.extracting/` holds `pool/` (the arrays, appended to), `items.arrow` (ids, payload, columns), `skipped.jsonl`
and `state.json`, which says how much of each file counts. What lies beyond is cut off at the next start.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from opcal.errors import DataError, ExtractionStopped, ModelError, PoolError
from opcal.extract.finish import finish, write_header
from opcal.extract.rows import About, FloatArray, Pair, Rows, Skipped
from opcal.pool.replacing import hold, put
from opcal.pool.storage import refuse_what_is_no_pool

DATA = ("pool/features.npy", "pool/logits.npy", "items.arrow", "skipped.jsonl")
FULL = {"ENOSPC": "the disk is full", "EDQUOT": "the disk quota is used up", "EFBIG": "the file size limit is reached"}


@dataclass
class State:
    """How far an extraction has come; written whole after the data that it speaks of are on the disk."""

    spec: dict[str, Any]
    position: int = 0
    """Items of the source that are done, the skipped ones included."""
    rows: int = 0
    skipped: int = 0
    sizes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DATA, 0))
    complete: bool = False


@dataclass(frozen=True)
class _Reached:
    """How far this run has come, and how long the files were then."""

    position: int
    rows: int
    skipped: int
    sizes: dict[str, int]


def work_folder(out: Path) -> Path:
    return out.parent / f".{out.name}.extracting"


class Store:
    """The work folder of one extraction, held against other processes."""

    def __init__(self, out: Path, state: State, held: int) -> None:
        self.out, self.folder, self.state, self._held = out, work_folder(out), state, held
        self._files: dict[str, BinaryIO] = {}
        self._reached = _Reached(state.position, state.rows, state.skipped, state.sizes)
        self.complete = state.complete
        self._widths: dict[str, int] = {}
        self._schema: pa.Schema | None = None

    @classmethod
    def open(cls, out: Path, spec: dict[str, Any], *, resume: bool, restart: bool) -> Store:
        """The work folder of `out`, new or as an earlier run left it."""
        refuse_what_is_no_pool(out)
        folder = work_folder(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        with _telling(out, 0):
            (folder / "pool").mkdir(parents=True, exist_ok=True)
        held = _hold(folder)
        try:
            state = None if restart else _read_state(folder)
            if state is not None and not resume:
                raise PoolError(
                    f"{out} was begun before and holds {state.rows:,} items: go on with --resume (resume=True), "
                    "or begin again with --restart (restart=True)"
                )
            if state is not None:
                _same(state.spec, spec, out)
            return cls(out, state or State(spec), held)
        except BaseException:
            os.close(held)
            raise

    def __enter__(self) -> Store:
        for name in DATA:
            path = self.folder / name
            if self.complete and not path.exists():
                continue
            file = path.open("r+b" if path.exists() else "w+b")
            file.truncate(self.state.sizes[name])
            file.seek(0, os.SEEK_END)
            self._files[name] = file
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            with suppress(OSError):
                file.close()
        if self.position == 0 and not self.complete:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._held)

    @property
    def position(self) -> int:
        return self._reached.position

    @property
    def rows(self) -> int:
        return self._reached.rows

    @property
    def skipped(self) -> int:
        return self._reached.skipped

    def append(self, rows: Rows, outputs: Pair | None) -> None:
        """The outputs of a batch, in the order of the source; None where all of it was skipped.

        It counts only when all of it is written: what stops in between leaves bytes that no state speaks of.
        """
        n = 0 if outputs is None else len(outputs[0])
        with _telling(self.out, self.state.rows):
            if outputs is not None:
                for name, values in zip(DATA[:2], outputs, strict=True):
                    self._append_array(name, values)
                self._append_items(rows.items)
            for item in rows.skipped:
                self._files["skipped.jsonl"].write(json.dumps(asdict(item)).encode() + b"\n")
            sizes = {name: file.tell() for name, file in self._files.items()}
        self._reached = _Reached(rows.stop, self.rows + n, self.skipped + len(rows.skipped), sizes)

    def _append_array(self, name: str, values: FloatArray) -> None:
        file = self._files[name]
        if self._widths.setdefault(name, values.shape[1]) != values.shape[1]:
            raise ModelError(
                f"the model gave rows of {self._widths[name]} and then of {values.shape[1]} numbers: it must give as "
                "many for every item; make the items alike in size, or name another layer"
            )
        if file.tell() == 0:
            write_header(file, 0, values.shape[1])
        file.write(np.ascontiguousarray(values, dtype="<f4").data)

    def _append_items(self, items: pa.Table | None) -> None:
        if items is None:
            return
        file = self._files["items.arrow"]
        if self._schema is None:
            self._schema = _schema_of(self.folder / "items.arrow") if file.tell() else items.schema
        if file.tell() == 0:
            file.write(items.schema.serialize())
        for batch in _fitting(items, self._schema).combine_chunks().to_batches():
            file.write(batch.serialize())

    def commit(self) -> None:
        """From here on everything appended so far survives a kill."""
        with _telling(self.out, self.state.rows):
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            state = State(self.state.spec, **vars(self._reached), complete=self.complete)
            _write_state(self.folder, state)
            self.state = state

    def read_skipped(self, most: int = 100) -> list[Skipped]:
        """The first items that could not be used."""
        self._files["skipped.jsonl"].flush()
        with (self.folder / "skipped.jsonl").open(encoding="utf-8") as file:
            return [Skipped(**json.loads(line)) for line in islice(file, most)]

    def finish(self, about: About, described: Mapping[str, str]) -> None:
        """Make the pool whole and give it its name."""
        if self.rows == 0:
            raise DataError("no item could be used: nothing is left of the pool")
        self.complete = True
        self.commit()
        for file in self._files.values():
            file.close()
        if (self.folder / "pool").exists():
            with _telling(self.out, self.rows):
                finish(self.folder, self.rows, about, described)
                put(self.folder / "pool", self.out, refuse_what_is_no_pool)
        shutil.rmtree(self.folder, ignore_errors=True)


def _hold(folder: Path) -> int:
    try:
        return hold(folder)
    except OSError as error:
        raise PoolError(f"another process is extracting into {folder}: wait for it, or choose another --out") from error


def _fitting(items: pa.Table, schema: pa.Schema) -> pa.Table:
    try:
        return items.cast(schema)
    except (pa.ArrowInvalid, ValueError) as error:
        raise DataError(
            f"the columns change on the way ({error}): give every item the same columns, each of one kind"
        ) from error


def _schema_of(path: Path) -> pa.Schema:
    with path.open("rb") as file:
        return pa.ipc.open_stream(file).schema


def _write_state(folder: Path, state: State) -> None:
    new = folder / "state.new"
    with new.open("w", encoding="utf-8") as file:
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / "state.json")
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_state(folder: Path) -> State | None:
    try:
        return State(**json.loads((folder / "state.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise PoolError(f"{folder}/state.json cannot be read ({error}): begin again with --restart") from error


def _same(before: dict[str, Any], now: dict[str, Any], out: Path) -> None:
    if before.get("data") == now.get("data") and before.get("fingerprint") != now.get("fingerprint"):
        raise DataError(
            f"{now.get('data')} has changed since {out} was begun: restore it, or begin again with --restart"
        )
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            raise PoolError(
                f"{out} was begun with {name} {before.get(name)!r}, now it is {now.get(name)!r}: "
                "resume with the same, or begin again with --restart"
            )


@contextmanager
def _telling(out: Path, kept: int) -> Iterator[None]:
    """A full disk is told as such, with what is kept and how to go on."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, PoolError) or not (why := _full(error)):
            raise
        raise ExtractionStopped(
            f"{out}: {why}; the first {kept:,} items are kept: make room, then go on with --resume"
        ) from error


def _full(error: Exception) -> str | None:
    code = getattr(error, "errno", None)
    return next((told for name, told in FULL.items() if code == getattr(errno, name)), None)
