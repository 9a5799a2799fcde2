"""How many labels an answer will take."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from opcal.core.assess import interval
from opcal.core.checks import within
from opcal.core.exact import binomial


def labels_for(half_width: float, value: float, variance: float, size: int, level: float = 0.95) -> int:
    """Labels, drawn uniformly from `size` items, until the interval reaches `half_width` to each side.

    `value` is the share that is expected and `variance` that of one item's residual (value(1 − value) without
    predictions). Never more than the pool.
    """
    within(half_width, "half_width", 1e-6, 1)
    low, high = 1, size
    while low < high:
        n = (low + high) // 2
        found = interval(value, variance * (1 - n / size) / n, level, n)
        low, high = (low, n) if found.half_width <= half_width else (n + 1, high)
    return low


def labels_to_decide(distance: float, value: float, variance: float, size: int, level: float = 0.95) -> int:
    """Labels until an interval about `value` probably leaves out what lies `distance` away (four runs in five)."""
    needed = float(ndtri(0.5 + level / 2) + ndtri(0.8)) ** 2 * variance / max(distance, 1e-9) ** 2
    return min(size, int(np.ceil(needed / (1 + needed / size))))


def most_wrong(n: int, error: float, doubt: float) -> int:
    """The most false items among n that still show, at `doubt`, an error of at most `error`; −1 where none do."""
    return int((np.cumsum(binomial(n, error)) <= doubt).sum()) - 1


def labels_to_certify(error: float, doubt: float, expected: float, most: int, chance: float = 0.8) -> int | None:
    """Fresh labels with which a region whose error is `expected` passes with probability `chance`; None beyond `most`."""
    for n in _growing(most):
        allowed = most_wrong(n, error, doubt)
        if allowed >= 0 and binomial(n, expected)[: allowed + 1].sum() >= chance:
            return n
    return None


def _growing(most: int) -> list[int]:
    steps = [
        *range(1, min(most, 200) + 1),
        *range(205, min(most, 2000) + 1, 5),
        *range(2050, min(most, 20_000) + 1, 50),
    ]
    return steps
