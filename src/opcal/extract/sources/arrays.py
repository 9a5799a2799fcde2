"""Arrays in memory or memory-mapped, rows along the first axis; .npy and .npz files."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from opcal.errors import DataError, LengthMismatch
from opcal.extract.rows import Rows, in_batches
from opcal.extract.sources.images import checksum

INPUTS = ("x", "X", "inputs", "input", "images", "data", "features")


@dataclass(frozen=True)
class Arrays:
    """Rows of an array [N, ...]; anything with a length that slices like one."""

    values: Any
    ids: Sequence[Any] | None = None
    payload: Sequence[str] | None = None
    name: str = "the array"
    kind: str = "rows"
    anywhere: bool = True

    def __post_init__(self) -> None:
        for name, given in (("ids", self.ids), ("payload", self.payload)):
            if given is not None and len(given) != self.count:
                raise LengthMismatch(f"{name} has {len(given)} entries but {self.name} has {self.count} rows")
        if self.count == 0:
            raise DataError(f"{self.name} is empty: a pool needs at least one item")

    @property
    def count(self) -> int:
        return len(self.values)

    def fingerprint(self) -> str:
        """Of some rows all over the array, and of the first ids."""
        some = [self.values[i] for i in range(0, self.count, max(1, self.count // 64))]
        if some and hasattr(some[0], "detach"):
            some = [row.detach().cpu().numpy() for row in some]
        ids = "" if self.ids is None else repr(list(self.ids[:64]))
        return checksum([repr(getattr(self.values, "shape", self.count)), ids, *(_text(row) for row in some)])

    def batches(self, start: int, stop: int | None, size: int) -> Iterator[Callable[[], Rows]]:
        return in_batches(self._read, start, self.count if stop is None else min(stop, self.count), size)

    def _read(self, start: int, stop: int) -> Rows:
        named: dict[str, Any] = {}
        if self.ids is not None:
            named["id"] = pa.array([str(i) for i in self.ids[start:stop]], pa.string())
        if self.payload is not None:
            named["payload"] = pa.array([str(i) for i in self.payload[start:stop]], pa.string())
        return Rows(start, stop, self.values[start:stop], pa.table(named) if named else None)


def _text(row: Any) -> str:
    return row.tobytes().hex() if isinstance(row, (np.ndarray, np.generic)) else repr(row)


def from_array_file(path: Path) -> Arrays:
    """A .npy file, memory-mapped, or the inputs of a .npz file with its `ids`; nothing is ever unpickled."""
    try:
        if path.suffix.lower() == ".npy":
            values = np.lib.format.open_memmap(path, mode="r")
            return Arrays(_plain(values, path), name=str(path))
        with zipfile.ZipFile(path):  # np.load would take a file of another kind for a pickle
            pass
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as {path.suffix} ({error}): write it again with np.save") from error
    name = next((name for name in INPUTS if name in arrays), next(iter(arrays)) if len(arrays) == 1 else None)
    if name is None:
        raise DataError(f"{path} holds {', '.join(arrays)}: name the array of inputs x")
    ids = arrays.get("ids")
    return Arrays(_plain(arrays[name], path), None if ids is None else ids.tolist(), name=str(path))


def _plain(values: Any, path: Path) -> Any:
    if values.ndim == 0 or values.dtype.kind not in "fiubU":
        raise DataError(f"{path} holds {values.dtype} of shape {values.shape}: expected rows of numbers or texts")
    return values
