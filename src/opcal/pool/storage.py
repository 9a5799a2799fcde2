"""A pool on disk: a folder written under another name, synced, and renamed when it is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opcal.core.method import FloatArray, Head, Outputs
from opcal.errors import InvalidInput, PoolError
from opcal.pool.checks import CHUNK, confidences
from opcal.pool.names import OWN_COLUMNS, predictions
from opcal.pool.pool import Pool
from opcal.pool.replacing import previous, replacing

SCHEMA = 1
FILES = {"pool.json", "items.parquet", "features.npy", "logits.npy", "head_weight.npy", "head_bias.npy"}


def save_pool(pool: Pool, path: Path) -> Path:
    place = path.resolve()  # through a link, so that the folder is replaced and not the link
    items = _items(pool)
    with replacing(place, refuse_what_is_no_pool) as folder:
        _write_array(folder / "features.npy", pool.features)
        if pool.logits is not None:
            _write_array(folder / "logits.npy", pool.logits)
        if pool.head is not None:
            _write_array(folder / "head_weight.npy", pool.head.weight)
            _write_array(folder / "head_bias.npy", pool.head.bias[None])
        pq.write_table(items, folder / "items.parquet")
        about = json.dumps(_description(pool), indent=1)
        (folder / "pool.json").write_text(about, encoding="utf-8")
    return path


def open_pool(path: Path) -> Pool:
    """Begin again where another process has replaced the pool meanwhile: files of two pools are never mixed."""
    while True:
        found = _found(path)
        try:
            pool = _read(found[0])
        except PoolError:
            if _found(path) == found:
                raise
            continue
        if _found(path) == found:
            return pool


def _found(path: Path) -> tuple[Path, tuple[int, int, int] | None]:
    """Where the pool lies and which folder that is; a crash between a saving's two renames leaves the old one aside."""
    aside = previous(path.resolve())
    place = aside if aside.exists() and not path.exists() else path
    try:
        found = place.stat()
    except OSError:
        return place, None
    return place, (found.st_dev, found.st_ino, found.st_mtime_ns)


def refuse_what_is_no_pool(path: Path) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    found = {file.name for file in path.iterdir()} if path.is_dir() else set()
    strange = sorted(name for name in found - FILES if not name.startswith("."))
    if "pool.json" not in found:
        raise PoolError(f"{path} exists and is no pool: choose another place, nothing was written")
    if strange:
        raise PoolError(f"{path} holds {strange[0]}, which is no part of a pool: move it first, nothing was written")
    _read_description(path)


def _read(path: Path) -> Pool:
    about = _read_description(path)
    try:
        return _assemble(path, about)
    except Exception as error:  # broken files break their readers in every way
        raise PoolError(f"{path} is broken ({error}): restore it or import the data again") from error


def read_items(file: Path) -> pa.Table:
    """Not by `read_table`: that loads all of pyarrow.dataset, for one file."""
    with pq.ParquetFile(file) as stored:
        return stored.read()


def _assemble(path: Path, about: dict[str, Any]) -> Pool:
    n, d, k = about["items"], about["features"], about["logits"]
    items = read_items(path / "items.parquet")
    confidence, bad = confidences(items["confidence"].to_numpy(), n)
    if bad.any():
        raise ValueError("items.parquet holds a confidence outside [0, 1]")
    classes = None if about["classes"] is None else tuple(about["classes"])
    predicted = predictions(items["predicted"].to_numpy(), n, classes)
    features = _read_array(path / "features.npy", n, d)
    logits = None if k is None else _read_array(path / "logits.npy", n, k)
    names = items.column_names
    return Pool(
        Outputs(features, confidence, predicted, logits, _read_head(path, k, d) if about["head"] else None),
        classes,
        items["payload"].to_pylist() if "payload" in names else None,
        {name: items[name].to_pylist() for name in names if name not in OWN_COLUMNS},
        dict(about["model"]),
        [str(text) for text in items["id"].to_pylist()] if "id" in names else None,
    )


def _read_head(path: Path, k: int, d: int) -> Head:
    weight = np.asarray(_read_array(path / "head_weight.npy", k, d), dtype=np.float64)
    return Head(weight, np.asarray(_read_array(path / "head_bias.npy", 1, k)[0], dtype=np.float64))


def _read_description(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise PoolError(f"{path} does not exist: make a pool with Pool.from_arrays(...).save(...) or `opcal import`")
    try:
        about: dict[str, Any] = json.loads((path / "pool.json").read_text(encoding="utf-8"))
        version = about["schema"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PoolError(f"{path} is no pool: it has no readable pool.json") from error
    if version != SCHEMA:
        raise PoolError(
            f"{path} has pool schema {version!r}, this opcal reads {SCHEMA}: use the opcal that wrote it or a newer one"
        )
    return about


def _description(pool: Pool) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "items": len(pool),
        "features": pool.features.shape[1],
        "logits": None if pool.logits is None else pool.logits.shape[1],
        "head": pool.head is not None,
        "classes": None if pool.classes is None else list(pool.classes),
        "model": pool.model,
    }


def _items(pool: Pool) -> pa.Table:
    columns: dict[str, Any] = {"predicted": pa.array(pool.predicted), "confidence": pa.array(pool.confidence)}
    if pool.given_ids is not None:
        columns = {"id": _column("ids", pool.given_ids, pa.string()), **columns}
    if pool.payload is not None:
        columns["payload"] = _column("payload", pool.payload, pa.string())
    return pa.table(columns | {name: _column(f"column {name!r}", values) for name, values in pool.columns.items()})


def _column(name: str, values: list[Any], kind: pa.DataType | None = None) -> Any:
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(
            f"{name} cannot be stored ({error}): give it values of one kind (text, numbers, dates, ...) or leave it out"
        ) from error


def _write_array(path: Path, values: FloatArray) -> None:
    """float32, C order, by chunks, so that a memory-mapped pool of any size is copied in little memory.

    Written, not mapped: on a full disk a write is an error, a mapping kills the process.
    """
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": values.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(values), CHUNK):
            file.write(np.ascontiguousarray(values[start : start + CHUNK], dtype="<f4").data)


def _read_array(path: Path, rows: int, columns: int) -> FloatArray:
    array: FloatArray = np.lib.format.open_memmap(path, mode="r")
    if array.shape != (rows, columns) or array.dtype != np.float32:
        raise ValueError(f"{path.name} holds {array.dtype} {array.shape}, pool.json says float32 {(rows, columns)}")
    return array
