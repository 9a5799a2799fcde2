"""A whole stored pool to a Parquet file, block by block, in memory that does not grow with it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opcal.artifact.artifact import Artifact, load
from opcal.errors import ArtifactError, IncompatiblePool, MissingDependency, UnknownOption
from opcal.pool.streaming import Stream

SHARE = 131_072
"""Rows of one piece of work for Ray."""


def score(
    artifact: str | Path,
    pool: str | Path,
    out: str | Path,
    *,
    engine: str = "here",
    trusted: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write one row an item: id, predicted, confidence, sd, above, act, outside, model_confidence; gives how many.

    `confidence` is the calibrated one, `above` is P(confidence ≥ threshold), `act` says confidence ≥ threshold. An item
    outside all that was seen is `outside`, and its confidence is then at most ½. The file appears when it is whole.
    """
    if engine not in ENGINES:
        raise UnknownOption(f"engine is {engine!r}: known are {', '.join(ENGINES)}")
    loaded, stream = load(artifact, trusted=trusted), Stream.open(pool)
    _refuse_other(loaded, stream)
    place = Path(out).resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.parent / f".{place.name}.writing-{secrets.token_hex(4)}"
    done = 0
    try:
        with pq.ParquetWriter(beside, SCHEMA, compression="zstd") as writer:
            for table in ENGINES[engine](loaded, stream, Path(artifact)):
                writer.write_table(table)
                done += len(table)
                if progress is not None:
                    progress(done, len(stream))
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)
    return done


_FIELDS: list[Any] = [
    pa.field("id", pa.string()),
    pa.field("predicted", pa.int64()),
    pa.field("confidence", pa.float64()),
    pa.field("sd", pa.float64()),
    pa.field("above", pa.float64()),
    pa.field("act", pa.bool_()),
    pa.field("outside", pa.bool_()),
    pa.field("model_confidence", pa.float64()),
]
SCHEMA = pa.schema(_FIELDS)


def tables(artifact: Artifact, stream: Stream, start: int = 0, stop: int | None = None) -> Iterator[pa.Table]:
    for ids, rows in stream.blocks(start, stop):
        judged = artifact.judged(rows)
        yield pa.table(
            {
                "id": ids,
                "predicted": rows.predicted.astype(np.int64),
                "confidence": judged.confidence,
                "sd": judged.sd,
                "above": judged.above,
                "act": judged.act,
                "outside": judged.outside,
                "model_confidence": rows.confidence,
            },
            schema=SCHEMA,
        )


def _here(artifact: Artifact, stream: Stream, path: Path) -> Iterator[pa.Table]:
    return tables(artifact, stream)


def _with_ray(artifact: Artifact, stream: Stream, path: Path) -> Iterator[pa.Table]:
    """Pieces on all of Ray's workers, in order, a few ahead of the writer; each worker reads the files itself."""
    try:
        import ray
    except ImportError as error:
        raise MissingDependency("engine 'ray' needs Ray: pip install 'opcal[ray]'") from error
    remote = ray.remote(_piece)
    starts = range(0, len(stream), SHARE)
    ahead = 2 * max(int(ray.cluster_resources().get("CPU", 1)) if ray.is_initialized() else 2, 1)
    waiting: list[Any] = []
    for start in starts:
        files = str(path.resolve()), str(stream.path.resolve())
        waiting.append(remote.remote(*files, artifact.digest, start, start + SHARE))
        if len(waiting) > ahead:
            yield ray.get(waiting.pop(0))
    for piece in waiting:
        yield ray.get(piece)


def _piece(artifact: str, pool: str, digest: str, start: int, stop: int) -> pa.Table:
    found = load(artifact)
    if found.digest != digest:  # what was checked, and its signature, is not what a worker reads now
        raise ArtifactError(f"{artifact} was replaced while it scored, or is another file on a worker: score again")
    return pa.concat_tables(tables(found, Stream.open(pool), start, stop))


ENGINES: dict[str, Callable[[Artifact, Stream, Path], Iterator[pa.Table]]] = {"here": _here, "ray": _with_ray}


def _refuse_other(artifact: Artifact, stream: Stream) -> None:
    layout = artifact.manifest.layout
    if (stream.features, stream.logits) != (layout.features, layout.classes):
        mine = "no logits" if stream.logits is None else f"{stream.logits} classes"
        raise IncompatiblePool(
            f"the pool has {stream.features} features and {mine}, the artefact was made for {layout}: "
            "pass outputs of the same model and layer"
        )
