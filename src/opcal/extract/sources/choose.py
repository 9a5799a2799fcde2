"""From what the user points at to a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from opcal.errors import DataError, InvalidInput
from opcal.extract.rows import Source
from opcal.extract.sources.arrays import Arrays, from_array_file
from opcal.extract.sources.images import SUFFIXES, ImageFiles, ImageFolder
from opcal.extract.sources.iterables import Indexed, Iterated, Loaded
from opcal.extract.sources.parts import TABLES, Part, in_memory, of_file
from opcal.extract.sources.roles import TEXTS, Asked, assign
from opcal.extract.sources.tables import TableSource
from opcal.pool.tables import as_arrow


@dataclass(frozen=True)
class Wants:
    """What a model says about the data that it takes."""

    kind: str | None = None
    names: tuple[str, ...] | None = None


def as_source(
    data: Any,
    asked: Asked,
    wants: Wants,
    *,
    ids: Sequence[Any] | None = None,
    payload: Sequence[str] | None = None,
) -> Source:
    """A folder or file by its path, an array, a table, a torch Dataset or DataLoader, a list, any iterable."""
    if ids is not None or payload is not None:
        if isinstance(data, (str, Path)) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
            raise InvalidInput("ids= and payload= go with an array or a list: a table names their columns")
        return Arrays(data, ids, payload, kind=_kind_of_list(data))
    if isinstance(data, (str, Path)):
        return _of_path(Path(data), asked, wants)
    return data if hasattr(data, "batches") and hasattr(data, "kind") else _of_object(data, asked, wants)


def _of_path(path: Path, asked: Asked, wants: Wants) -> Source:
    if not path.exists():
        raise DataError(f"{path} does not exist: name a folder of images, or a file ({_known()})")
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if f.suffix.lower() in TABLES and not f.name.startswith((".", "_")))
        return _table(files, path, asked, wants) if files and not _has_images(path) else ImageFolder(path)
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return from_array_file(path)
    if suffix in TABLES:
        return _table([path], path.parent, asked, wants)
    if suffix in SUFFIXES:
        return ImageFiles([str(path)], name=str(path))
    raise DataError(f"{path}: {suffix or 'a file without a suffix'} is not known as field data: expected {_known()}")


def _has_images(path: Path) -> bool:
    return any(f.suffix.lower() in SUFFIXES for f in path.iterdir())


def _known() -> str:
    return ", ".join([*sorted(TABLES), ".npy", ".npz"])


def _table(files: list[Path], folder: Path, asked: Asked, wants: Wants) -> TableSource:
    texts = frozenset(n for n in ("id", "ids", *TEXTS, asked.id, asked.text, asked.image) if n)
    parts = [part for file in files for part in of_file(file, texts)]
    if not parts:
        raise DataError(f"{folder} holds no rows: a pool needs at least one item")
    for part in parts:
        if part.schema.names != parts[0].schema.names:
            raise DataError(f"the files of {folder} have different columns: put those of one kind into a folder")
    return _source(parts, str(files[0] if len(files) == 1 else folder), folder, asked, wants)


def _source(parts: list[Part], name: str, folder: Path | None, asked: Asked, wants: Wants) -> TableSource:
    roles = assign(parts[0].schema, asked, wants.kind, wants.names, name)
    return TableSource(tuple(parts), roles, name, folder)


def _of_object(data: Any, asked: Asked, wants: Wants) -> Source:
    kind = type(data)
    if _is_table(data):
        return _source(in_memory(as_arrow(data)), "the table", None, asked, wants)
    if kind.__name__ == "DataLoader" or (hasattr(data, "dataset") and hasattr(data, "batch_size")):
        return _loader(data)
    if hasattr(data, "dtype") and hasattr(data, "shape"):
        return Arrays(data)
    if isinstance(data, (list, tuple)):
        return _of_list(data)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return Indexed(data)
    if isinstance(data, Iterable) and not isinstance(data, (bytes, Mapping)):
        return Iterated(data)
    raise DataError(f"data is a {kind.__name__}: expected a path, an array, a table, a data set or an iterable")


def _is_table(data: Any) -> bool:
    if isinstance(data, (pa.Table, Mapping)) or hasattr(data, "__arrow_c_stream__"):
        return True
    return type(data).__module__.startswith("pandas") and hasattr(data, "columns")


def _loader(data: Any) -> Source:
    if data.batch_size is None or type(getattr(data, "sampler", None)).__name__ == "RandomSampler":
        raise DataError("the DataLoader shuffles, or has no batch_size: make it with shuffle=False and a batch_size")
    return Loaded(data)


def _of_list(data: Sequence[Any]) -> Source:
    if not data:
        raise DataError("data is empty: a pool needs at least one item")
    if isinstance(data[0], Path) or (isinstance(data[0], str) and Path(data[0]).suffix.lower() in SUFFIXES):
        return ImageFiles(data)
    if isinstance(data[0], str):
        return Arrays(data, payload=data, name="the list of texts", kind="texts")
    return Indexed(data, kind=_kind_of_list(data))


def _kind_of_list(data: Any) -> str:
    if isinstance(data, (list, tuple)) and data:
        if isinstance(data[0], str):
            return "texts"
        return "images" if type(data[0]).__module__.startswith("PIL.") else "items"
    return "rows"
