"""Pools from files: .npz, .npy, Parquet, Arrow, CSV. Nothing is ever unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from opcal.errors import InvalidInput, PoolError, UnknownOption
from opcal.pool import checks
from opcal.pool.pool import Pool
from opcal.pool.tables import DEFAULTS, logits_or_confidence, pool_from_table, some


def pool_from_file(path: Path, **options: Any) -> Pool:
    """A pool from .npz (arrays by name), .npy (features; pass logits=), .parquet, .arrow, .feather or .csv.

    Options are those of `pool_from_table`. For .npz they name arrays of the file, and `head_weight`, `head_bias` and
    `classes` are taken from it where it holds them; for .npy, `logits`, `confidence` and `predicted` are arrays or
    other .npy files. Ids and payload of a CSV file are texts: "007" stays "007".
    """
    if not path.exists():
        raise PoolError(f"{path} does not exist")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _from_npz(_read(path, _npz), path.name, **options)
    if suffix == ".npy":
        return _from_npy(path, **options)
    readers: dict[str, Callable[[Path], Any]] = {
        ".parquet": pq.read_table,
        ".arrow": _arrow,
        ".feather": _arrow,
        ".csv": lambda p: _csv(p, options),
    }
    if suffix not in readers:
        known = ".npz, .npy, " + ", ".join(readers)
        remedy = "open it with Pool.open" if (path / "pool.json").exists() else f"known are {known}"
        raise UnknownOption(f"{path.name}: cannot read {suffix or 'what has no suffix'}; {remedy}")
    return pool_from_table(_read(path, lambda p: _sound(readers[suffix](p))), **options)


def _read(path: Path, reader: Callable[[Path], Any]) -> Any:
    try:
        return reader(path)
    except Exception as error:  # bytes from outside break readers in every way: zlib.error, TokenError, MemoryError ...
        raise PoolError(
            f"{path} cannot be read as {path.suffix.lower()} ({error}): write it again; opcal never unpickles"
        ) from error


def _npz(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path):  # np.load would take a file of another kind for a pickle
        pass
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _npy(path: Path) -> Any:
    return np.lib.format.open_memmap(path, mode="r")  # np.load would try a zip file and leave it open


def _arrow(path: Path) -> pa.Table:
    """The file format, or the stream format."""
    with pa.OSFile(str(path), "rb") as source:
        try:
            return pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()


def _sound(table: pa.Table) -> pa.Table:
    """Texts and names that are not UTF-8, or offsets that lead out of the file, would fail later without a name."""
    table.validate(full=True)
    names: list[str] = table.column_names
    return table.rename_columns(names)


def _csv(path: Path, options: dict[str, Any]) -> pa.Table:
    texts = {options.get("ids"), options.get("payload"), *DEFAULTS["ids"], *DEFAULTS["payload"]}
    kinds = {name: pa.string() for name in texts if isinstance(name, str)}
    return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=kinds))


def _from_npz(arrays: dict[str, Any], file: str, **options: Any) -> Pool:
    asked = {role: options.pop(role) for role in DEFAULTS if isinstance(options.get(role), str)}
    found = {role: name for role in DEFAULTS if (name := _named(arrays, role, asked.get(role), file))}
    if "features" not in found:
        raise InvalidInput(f"{file} holds {some(arrays)} but no array named features: name it with features=")
    found = logits_or_confidence(found, asked)
    given = {role: arrays[name] for role, name in found.items()} | options
    if "classes" in arrays:
        given.setdefault("classes", arrays["classes"].ravel().tolist())
    weight, bias = arrays.get("head_weight"), arrays.get("head_bias")
    if weight is not None and bias is not None and "head" not in given and "confidence" not in given:
        given["head"] = (weight, bias)
        if "logits" not in given:
            given["logits"] = _through_head(given["features"], weight, bias)
    used = {*found.values(), *DEFAULTS, "classes", "head_weight", "head_bias", "id"}
    rows = len(np.atleast_1d(given["features"]))
    extra = {name: v for name, v in arrays.items() if name not in used and v.shape == (rows,)}
    return Pool.from_arrays(columns=extra, **given)


def _named(arrays: dict[str, Any], role: str, asked: str | None, file: str) -> str | None:
    if asked is None:
        return next((name for name in DEFAULTS[role] if name in arrays), None)
    if asked not in arrays:
        raise InvalidInput(f"{role}={asked!r} is none of the arrays {some(arrays)} of {file}")
    return asked


def _through_head(features: Any, weight: Any, bias: Any) -> Any:
    z = checks.matrix("features", features)
    weight, bias = checks.weight_and_bias((weight, bias), (len(np.atleast_1d(bias)), z.shape[1]))
    with np.errstate(all="ignore"):  # rows with inf are refused, or dropped, by name
        return z @ weight.T.astype(z.dtype) + bias.astype(z.dtype)


def _from_npy(path: Path, **options: Any) -> Pool:
    for role in ("logits", "confidence", "predicted"):
        if isinstance(options.get(role), (str, Path)):
            options[role] = _read(Path(options[role]), _npy)
    return Pool.from_arrays(_read(path, _npy), **options)
