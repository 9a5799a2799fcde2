"""Batches are read and prepared in loader threads while the model computes; their order stays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def prefetched(reads: Iterable[A], ready: Callable[[A], B], workers: int) -> Iterator[B]:
    """`ready` of each read, in order, at most two for each worker ahead."""
    if workers == 0:
        yield from map(ready, reads)
        return
    waiting: deque[Future[B]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="opcal-loader") as threads:
        try:
            for read in reads:
                waiting.append(threads.submit(ready, read))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
