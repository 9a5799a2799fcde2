"""One BLAS thread where threads only hurt: the per-label step takes 3.6 ms with two threads, 0.13 ms with one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from threading import Lock
from typing import Any


@cache
def _libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401  SciPy's own BLAS must be loaded before the libraries are listed
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


class _OneThread:
    """How many are inside, over all threads of the process, and what to go back to when the last one leaves."""

    def __init__(self) -> None:
        self.guard, self.count, self.before = Lock(), 0, list[int]()

    def __enter__(self) -> None:
        with self.guard:
            now = [library.get_num_threads() for library in _libraries()]
            if self.count == 0:
                self.before = now
            _set([1] * len(now), now)
            self.count += 1

    def __exit__(self, *_: object) -> None:
        with self.guard:
            self.count -= 1
            if self.count == 0:
                _set(self.before, [1] * len(self.before))


_inside = _OneThread()


def one_thread() -> AbstractContextManager[None]:
    """NumPy and SciPy compute on one thread inside: quick on small arrays, and the same bytes everywhere.

    The last thread of the process to leave restores the number: one that leaves before would give two BLAS threads to
    those still computing. Each sets it as it enters, for some builds keep a number for each thread.
    threadpoolctl's own context asks each library for its version first and takes 25 µs more.
    """
    return _inside


def _set(wanted: list[int], now: list[int]) -> None:
    for library, n, before in zip(_libraries(), wanted, now, strict=True):
        if n != before:
            library.set_num_threads(n)
