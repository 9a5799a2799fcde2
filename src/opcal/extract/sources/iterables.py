"""Anything that can be iterated over, and data sets that can be indexed (torch's map-style ones, lists)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from opcal.extract.rows import Rows, Skipped, in_batches


@dataclass(frozen=True)
class Indexed:
    """Items data[0], data[1], … of a data set with a length; an item that raises is a broken one."""

    data: Any
    kind: str = "items"
    name: str = "the data set"
    anywhere: bool = True

    @property
    def count(self) -> int:
        return len(self.data)

    def fingerprint(self) -> str:
        return ""

    def batches(self, start: int, stop: int | None, size: int) -> Iterator[Callable[[], Rows]]:
        return in_batches(self._read, start, self.count if stop is None else min(stop, self.count), size)

    def _read(self, start: int, stop: int) -> Rows:
        values, skipped = [], []
        for i in range(start, stop):
            try:
                values.append(self.data[i])
            except Exception as error:  # whatever a stranger's data set raises
                skipped.append(Skipped(str(i), f"the data set raises {type(error).__name__} ({error})"))
        return Rows(start, stop, values, None, skipped)


class Iterated:
    """Items of an iterable, in its order; an iterator can be gone through once, so its first items are kept."""

    kind = "items"
    anywhere = False
    count: int | None

    def __init__(self, data: Any, name: str = "the iterable") -> None:
        self.data, self.name = data, name
        self.count = len(data) if hasattr(data, "__len__") else None
        self._once = iter(data) if iter(data) is data else None
        self._kept: list[Any] = []

    def fingerprint(self) -> str:
        return ""

    def batches(self, start: int, stop: int | None, size: int) -> Iterator[Callable[[], Rows]]:
        items, at = self._from_the_beginning(size), 0
        for _ in islice(items, start):
            at += 1
        while at == start or (at - start) % size == 0:
            n = size if stop is None else min(size, stop - at)
            if not (values := list(islice(items, max(n, 0)))):
                return
            rows = Rows(at, at + len(values), values)
            at = rows.stop
            yield partial(_itself, rows)

    def _from_the_beginning(self, size: int) -> Iterator[Any]:
        """The probe reads a few items of an iterator first: they come again."""
        if self._once is None:
            yield from self.data
            return
        yield from self._kept
        for item in self._once:
            if len(self._kept) < size:
                self._kept.append(item)
            yield item


class Loaded:
    """The batches of a torch DataLoader, as it makes them (its own worker processes included)."""

    kind = "batches"
    anywhere = False

    def __init__(self, loader: Any, name: str = "the DataLoader") -> None:
        self.loader, self.name, self.batch_size = loader, name, int(loader.batch_size)
        self.count: int | None = len(loader.dataset) if hasattr(loader.dataset, "__len__") else None

    def fingerprint(self) -> str:
        return ""

    def batches(self, start: int, stop: int | None, size: int) -> Iterator[Callable[[], Rows]]:
        at = 0
        for values in self.loader:
            batch = values[0] if isinstance(values, (tuple, list)) else values
            n = len(next(iter(batch.values())) if isinstance(batch, dict) else batch)
            if stop is not None and at + n > stop:
                n = stop - at
                batch = {name: part[:n] for name, part in batch.items()} if isinstance(batch, dict) else batch[:n]
            rows = Rows(at, at + n, Sized(batch, n))
            at += n
            if rows.start >= start:
                yield partial(_itself, rows)
            if stop is not None and at >= stop:
                return


def _itself(rows: Rows) -> Rows:
    """What an iterable gave has been read already."""
    return rows


@dataclass(frozen=True)
class Sized:
    """A ready batch and how many items it holds."""

    batch: Any
    n: int

    def __len__(self) -> int:
        return self.n
