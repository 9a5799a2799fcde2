"""How many labels an answer will take."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from opcal.core.assess import interval
from opcal.core.checks import within


def labels_for(half_width: float, value: float, variance: float, size: int, level: float = 0.95) -> int:
    """Labels, drawn uniformly from `size` items, until the interval reaches `half_width` to each side.

    `value` is the share that is expected and `variance` that of one item's residual (value(1 − value) without
    predictions). Never more than the pool.
    """
    within(half_width, "half_width", 1e-6, 1)
    value = min(max(value, 0.005), 0.995)
    low, high = 1, size
    while low < high:
        n = (low + high) // 2
        effective = value * (1 - value) * n / max(variance * (1 - n / size), 1e-12)
        found = interval(value, max(effective, 1e-9), level, n)
        low, high = (low, n) if found.half_width <= half_width else (n + 1, high)
    return low


def labels_to_decide(distance: float, value: float, variance: float, size: int, level: float = 0.95) -> int:
    """Labels until an interval about `value` probably leaves out what lies `distance` away (four runs in five)."""
    needed = float(ndtri(0.5 + level / 2) + ndtri(0.8)) ** 2 * variance / max(distance, 1e-9) ** 2
    return min(size, int(np.ceil(needed / (1 + needed / size))))
