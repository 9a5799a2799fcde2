"""Files of tables as parts that are read one record batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from opcal.errors import DataError

ROWS = 4096
BLOCK = 1 << 24
"""Bytes of a CSV or JSON file from which the kinds of its columns are told."""


@dataclass(frozen=True)
class Part:
    """Some rows of a table: how many, where that is known, and how they are read."""

    rows: int | None
    schema: pa.Schema
    read: Callable[[list[str] | None], Iterator[pa.RecordBatch]]
    origin: str = ""
    """The file's name and size, where it is one."""


def in_memory(table: pa.Table) -> list[Part]:
    def read(columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        yield from (table if columns is None else table.select(columns)).to_batches(max_chunksize=ROWS)

    return [Part(len(table), table.schema, read)]


def of_file(path: Path, texts: frozenset[str]) -> list[Part]:
    """The parts of one file; columns of a CSV file named in `texts` are texts: "007" stays "007"."""
    makers: dict[str, Callable[[], list[Part]]] = {
        ".parquet": lambda: _parquet(path),
        ".arrow": lambda: _arrow(path),
        ".feather": lambda: _arrow(path),
        ".csv": lambda: [_streamed(path, lambda: _open_csv(path, texts))],
        ".jsonl": lambda: [_streamed(path, lambda: _open_json(path))],
        ".ndjson": lambda: [_streamed(path, lambda: _open_json(path))],
    }
    try:
        origin = f"{path.name} {path.stat().st_size}"
        return [replace(part, origin=origin) for part in makers[path.suffix.lower()]()]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as {path.suffix.lower()} ({error}): write it again") from error


TABLES = frozenset({".parquet", ".arrow", ".feather", ".csv", ".jsonl", ".ndjson"})


def _parquet(path: Path) -> list[Part]:
    """One part for each row group, so that a resumed run, or another machine, begins near its row."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]

    def reader(group: int) -> Callable[[list[str] | None], Iterator[pa.RecordBatch]]:
        def read(columns: list[str] | None) -> Iterator[pa.RecordBatch]:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(ROWS, row_groups=[group], columns=columns)

        return read

    return [Part(n, schema, reader(group)) for group, n in enumerate(sizes)]


def _arrow(path: Path) -> list[Part]:
    """The file format, or the stream format; memory-mapped."""
    try:
        with pa.memory_map(str(path)) as source:
            schema, n = pa.ipc.open_file(source).schema, None
    except pa.ArrowInvalid:
        return [_streamed(path, lambda: pa.ipc.open_stream(pa.memory_map(str(path))))]

    def read(columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as source:
            file = pa.ipc.open_file(source)
            for i in range(file.num_record_batches):
                batch = file.get_batch(i)
                yield batch if columns is None else batch.select(columns)

    return [Part(n, schema, read)]


def _streamed(path: Path, open_reader: Callable[[], Any]) -> Part:
    def read(columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        try:
            with open_reader() as reader:
                for batch in reader:
                    yield batch if columns is None else batch.select(columns)
        except pa.ArrowException as error:
            raise DataError(
                f"{path}: a row does not fit what came before ({error}); mend it, or choose --columns"
            ) from error

    with open_reader() as reader:
        return Part(None, reader.schema, read)


def _open_csv(path: Path, texts: frozenset[str]) -> Any:
    return pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=BLOCK),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string())),
    )


def _open_json(path: Path) -> Any:
    return pyarrow.json.open_json(path, read_options=pyarrow.json.ReadOptions(block_size=BLOCK))
