"""The last step of an extraction: from arrays and item records to the files of a pool, in memory that does not grow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opcal.extract.recut import Recut
from opcal.extract.rows import About, FloatArray
from opcal.pool.pool import softmax_confidence
from opcal.pool.storage import SCHEMA

ROWS = 8192
"""Rows of one group of items.parquet."""


UNIQUE = ("id", "confidence", "payload")


def write_header(file: BinaryIO, rows: int, columns: int) -> None:
    """NumPy leaves room for the number of rows to grow, so that it can be written over at the end."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, columns)}
    np.lib.format.write_array_header_1_0(file, header)


def finish(work: Path, rows: int, about: About, described: Mapping[str, str]) -> None:
    folder = work / "pool"
    for name, columns in (("features", about.width), ("logits", about.n_classes)):
        with (folder / f"{name}.npy").open("r+b") as file:
            write_header(file, rows, columns)
    if about.head is not None:
        for name, values in (("head_weight", about.head[0]), ("head_bias", about.head[1][None])):
            with (folder / f"{name}.npy").open("wb") as file:
                write_header(file, *values.shape)
                file.write(np.ascontiguousarray(values, dtype="<f4").data)
    _write_items(work, folder, rows, about.n_classes)
    (folder / "pool.json").write_text(json.dumps(_description(rows, about, described), indent=1), encoding="utf-8")


def _description(rows: int, about: About, described: Mapping[str, str]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "items": rows,
        "features": about.width,
        "logits": about.n_classes,
        "head": about.head is not None,
        "classes": None if about.classes is None else list(about.classes),
        "model": dict(described),
    }


def _write_items(work: Path, folder: Path, rows: int, n_classes: int) -> None:
    writer: pq.ParquetWriter | None = None
    with (work / "items.arrow").open("rb") as file:
        records = Recut(iter(pa.ipc.open_stream(file)) if (work / "items.arrow").stat().st_size else iter(()))
        try:
            for logits in _stored(folder / "logits.npy", rows, n_classes):
                confidence, predicted = softmax_confidence(logits)
                table = _joined(records.take(len(logits)), confidence, predicted)
                writer = writer or _writer(folder / "items.parquet", table.schema)
                writer.write_table(table, row_group_size=ROWS)
        finally:
            if writer is not None:
                writer.close()


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Without dictionaries of what is never the same twice: they take 10 MB and save nothing."""
    columns: Any = [n for n in schema.names if n not in UNIQUE]
    return pq.ParquetWriter(path, schema, use_dictionary=columns)


def _joined(items: pa.Table | None, confidence: FloatArray, predicted: Any) -> pa.Table:
    said: dict[str, Any] = {
        "predicted": _column(pa.int64(), predicted),
        "confidence": _column(pa.float64(), confidence),
    }
    if items is None:
        return pa.table(said)
    own = {name: items[name] for name in items.column_names}
    first = {"id": own.pop("id")} if "id" in own else {}
    return pa.table(first | said | own)


def _column(kind: pa.DataType, values: Any) -> Any:
    """pa.array would import pandas where it is installed: 46 MB."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values).data)])


def _stored(path: Path, rows: int, columns: int) -> Iterator[FloatArray]:
    """Read, not mapped: pages of a mapping count as memory of this process."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        for start in range(0, rows, ROWS):
            n = min(ROWS, rows - start)
            yield np.frombuffer(file.read(n * columns * 4), dtype="<f4").reshape(n, columns)
