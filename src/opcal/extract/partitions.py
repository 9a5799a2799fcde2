"""The same extraction in parts: workers write partitions in Parquet, which are put together in order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opcal.errors import InvalidInput, UnknownOption
from opcal.extract.engines import run_parts
from opcal.extract.job import Job
from opcal.extract.rows import FloatArray, Model, Pair, Rows, Skipped, Source
from opcal.extract.run import Plan, Progress, outcomes, probe
from opcal.extract.store import Store

ROWS = 4096
MOST = 65_536
"""Items of a part, at most: a kill loses at most the parts being done."""


@dataclass(frozen=True)
class Ray:
    """Where to run: on a cluster by its address, or on one started here for so many workers."""

    address: str | None
    workers: int
    partitions: int | None

    @classmethod
    def asked(cls, engine: str, address: str | None, workers: int | str, partitions: int | None) -> Ray | None:
        if engine == "local":
            return None
        if engine != "ray":
            raise UnknownOption(f'engine is {engine!r}: expected "local" or "ray"')
        return cls(address, workers if isinstance(workers, int) and workers > 0 else os.cpu_count() or 1, partitions)


def run_on_ray(
    model: Model, source: Source, store: Store, plan: Plan, progress: Progress, *, ray: Ray, job: Job
) -> None:
    """Everything from the store's position to the end. Parts that an earlier run wrote are not done again."""
    end = plan.end(source)
    if end is None or source.count is None or not source.anywhere:
        raise InvalidInput(
            f"{source.name} cannot be read from any position: engine ray takes files, folders, arrays and data sets "
            "with a length; use --engine local"
        )
    folder = store.folder / "parts"
    folder.mkdir(exist_ok=True)
    threads = job.options.threads or getattr(model, "threads", None)
    sent = replace(job, options=replace(job.options, threads=threads))
    spans = parts(store.position, end, plan.batch_size, ray.partitions or 4 * ray.workers)
    work = partial(PartWork, sent, replace(plan, workers=0), folder)
    for span in run_parts(
        work, spans, engine="ray", workers=ray.workers, address=ray.address, threads=threads or os.cpu_count()
    ):
        path = part_file(folder, span)
        for rows, outputs in read_part(path, span):
            store.append(rows, outputs)
        store.commit()
        path.unlink()
        progress(store.position, end)


def parts(start: int, stop: int, batch_size: int, wanted: int) -> list[tuple[int, int]]:
    """Ranges of whole batches from `start` on: a batch is the same as in one process, and so are its bytes."""
    batches = -(-(stop - start) // batch_size)
    each = max(1, min(-(-batches // wanted), MOST // batch_size or 1))
    size = each * batch_size
    return [(at, min(at + size, stop)) for at in range(start, stop, size)]


def part_file(folder: Path, span: tuple[int, int]) -> Path:
    return folder / f"part-{span[0]:012d}-{span[1]:012d}.parquet"


class PartWork:
    """In a worker: the model and the data once, then part after part."""

    def __init__(self, job: Job, plan: Plan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._model, self._source = job.built()
        probe(self._model, self._source, plan)

    def __call__(self, span: tuple[int, int]) -> tuple[int, int]:
        path = part_file(self._folder, span)
        if not path.exists():
            write_part(path, outcomes(self._model, self._source, self._plan, *span))
        return span


def write_part(path: Path, results: Iterator[tuple[Rows, Pair | None]]) -> None:
    """Under another name until it is whole."""
    new = path.with_suffix(f".{os.getpid()}.new")
    skipped: list[Skipped] = []
    writer: pq.ParquetWriter | None = None
    for rows, outputs in results:
        skipped += rows.skipped
        if outputs is not None:
            table = _table(rows, outputs)
            writer = writer or pq.ParquetWriter(new, table.schema, use_dictionary=False, compression="zstd")
            writer.write_table(table)
    writer = writer or pq.ParquetWriter(new, pa.schema([]))
    writer.add_key_value_metadata({"skipped": json.dumps([[item.id, item.reason] for item in skipped])})
    writer.close()
    with new.open("rb") as file:
        os.fsync(file.fileno())
    new.rename(path)


def _table(rows: Rows, outputs: Pair) -> pa.Table:
    columns = {name: _lists(values) for name, values in zip(("z", "h"), outputs, strict=True)}
    items = {} if rows.items is None else {f"item:{name}": rows.items[name] for name in rows.items.column_names}
    return pa.table(columns | items)


def _lists(values: FloatArray) -> Any:
    flat = pa.array(np.ascontiguousarray(values, dtype=np.float32).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def read_part(path: Path, span: tuple[int, int]) -> Iterator[tuple[Rows, Pair | None]]:
    """What a worker wrote, some rows at a time; what was skipped comes with the last."""
    with pq.ParquetFile(path) as file:
        told = json.loads((file.metadata.metadata or {}).get(b"skipped", b"[]"))
        if file.schema_arrow.names:
            for batch in file.iter_batches(ROWS):
                table = pa.Table.from_batches([batch])
                yield Rows(span[0], span[0], (), _items(table)), (_matrix(table, "z"), _matrix(table, "h"))
    yield Rows(span[0], span[1], (), None, [Skipped(*item) for item in told]), None


def _items(table: pa.Table) -> pa.Table | None:
    names = [name for name in table.column_names if name.startswith("item:")]
    return table.select(names).rename_columns([name[5:] for name in names]) if names else None


def _matrix(table: pa.Table, name: str) -> FloatArray:
    column: Any = table[name].combine_chunks()
    values: Any = column.flatten().to_numpy()
    matrix: FloatArray = values.reshape(len(column), -1)
    return matrix
