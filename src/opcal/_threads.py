"""One BLAS thread where threads only hurt: the per-label step takes 3.6 ms with two threads, 0.13 ms with one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401  SciPy's own BLAS must be loaded before the libraries are listed
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_thread() -> Iterator[None]:
    """NumPy and SciPy compute on one thread inside: quick on small arrays, and the same bytes everywhere.

    threadpoolctl's own context asks each library for its version first and takes 25 µs more.
    """
    before = [library.get_num_threads() for library in _libraries()]
    for library, n in zip(_libraries(), before, strict=True):
        if n != 1:
            library.set_num_threads(1)
    try:
        yield
    finally:
        for library, n in zip(_libraries(), before, strict=True):
            if n != 1:
                library.set_num_threads(n)
