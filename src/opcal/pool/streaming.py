"""A stored pool in blocks, in memory that does not grow with it: every block is mapped anew and let go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from opcal.core.method import FloatArray, Outputs
from opcal.errors import PoolError
from opcal.pool.storage import _read_description

ROWS = 16_384


@dataclass(frozen=True)
class Stream:
    """A pool's items in order; it must not be replaced while it is read."""

    path: Path
    items: int
    features: int
    logits: int | None
    classes: tuple[str, ...] | None
    model: dict[str, str]

    @classmethod
    def open(cls, path: str | Path) -> Stream:
        about = _read_description(Path(path))
        try:
            classes = None if about["classes"] is None else tuple(about["classes"])
            return cls(Path(path), about["items"], about["features"], about["logits"], classes, dict(about["model"]))
        except (KeyError, TypeError, ValueError) as error:
            raise PoolError(f"{path} is broken ({error}): restore it or import the data again") from error

    def __len__(self) -> int:
        return self.items

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[list[str], Outputs]]:
        """Ids and outputs of the items from `start` to `stop`, some thousand at a time."""
        stop = self.items if stop is None else min(stop, self.items)
        try:
            yield from self._blocks(start, stop)
        except (OSError, ValueError, KeyError) as error:
            raise PoolError(f"{self.path} is broken ({error}): restore it or import the data again") from error

    def _blocks(self, start: int, stop: int) -> Iterator[tuple[list[str], Outputs]]:
        with pq.ParquetFile(self.path / "items.parquet") as file:
            columns = [name for name in ("id", "predicted", "confidence") if name in file.schema_arrow.names]
            at = 0
            for batch in file.iter_batches(ROWS, columns=columns):
                low, high = max(start, at), min(stop, at + len(batch))
                if low < high:
                    part = batch.slice(low - at, high - low)
                    yield _ids(part, low), self._outputs(part, low, high)
                at += len(batch)
                if at >= stop:
                    return
        if at < stop:
            raise ValueError(f"items.parquet holds {at} items, pool.json says {self.items}")

    def _outputs(self, part: Any, low: int, high: int) -> Outputs:
        logits = None if self.logits is None else self._rows("logits.npy", self.logits, low, high)
        return Outputs(
            self._rows("features.npy", self.features, low, high),
            part["confidence"].to_numpy(),
            part["predicted"].to_numpy().astype(np.intp),
            logits,
        )

    def _rows(self, name: str, width: int, low: int, high: int) -> FloatArray:
        """Read, not mapped: pages of a mapping count as this process's memory until it is closed."""
        mapped = np.lib.format.open_memmap(self.path / name, mode="r")
        if mapped.shape != (self.items, width) or mapped.dtype != np.float32:
            raise ValueError(f"{name} holds {mapped.dtype} {mapped.shape}, pool.json says {(self.items, width)}")
        rows: FloatArray = np.array(mapped[low:high])
        return rows


def _ids(part: Any, start: int) -> list[str]:
    if "id" in part.schema.names:
        return [str(text) for text in part["id"].to_pylist()]
    return [str(i) for i in range(start, start + len(part))]
