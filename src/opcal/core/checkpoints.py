"""Counts of answers at which something dear is made anew, wherever the calls are cut."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=512)
def last_checkpoint(n: int, first: int) -> int:
    """The largest of round(first · 2^(j/2)), j = 0, 1, 2, …, that is at most n; 0 below `first`."""
    best, j = 0, 0
    while (count := round(first * 2 ** (j / 2))) <= n:
        best, j = count, j + 1
    return best
