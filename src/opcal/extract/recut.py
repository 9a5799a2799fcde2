"""A stream of record batches cut anew into tables of any length."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


class Recut:
    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._left = batches, list[pa.RecordBatch]()

    def take(self, n: int) -> pa.Table | None:
        """The next n rows, fewer at the end, None after it."""
        have = sum(len(batch) for batch in self._left)
        while have < n and (batch := next(self._batches, None)) is not None:
            self._left.append(batch)
            have += len(batch)
        if have == 0:
            return None
        table = pa.Table.from_batches(self._left)
        self._left = table.slice(n).to_batches()
        return table.slice(0, n).combine_chunks()

    def drop(self, n: int) -> None:
        """Pass over n rows without holding them together."""
        while n > 0 and (table := self.take(min(n, 65_536))) is not None:
            n -= len(table)
