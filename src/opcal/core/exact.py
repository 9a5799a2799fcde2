"""Exact statements about a share from items drawn uniformly without replacement: no approximation at any size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, gammaln

from opcal.core.method import FloatArray, IntArray


def clopper_pearson(k: int, n: int, level: float) -> tuple[float, float]:
    """The rates that k of n independent items do not contradict at `level`, half of the doubt at each end."""
    tail = (1 - level) / 2
    return lower_rate(k, n, tail), 1 - lower_rate(n - k, n, tail)


def lower_rate(k: int, n: int, tail: float) -> float:
    """The rate at which k or more of n have probability `tail`; 0 where k = 0."""
    return float(betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0


def of_pool(k: int, n: int, size: int, level: float) -> tuple[float, float]:
    """The shares of a pool of `size` items that k of n drawn without replacement do not contradict at `level`."""
    tail = (1 - level) / 2
    fewest = _first(k, size - (n - k), lambda total: _at_least(k, n, size, total) > tail)
    most = _first(k, size - (n - k), lambda total: _at_least(n - k, n, size, size - total) <= tail)
    above = _at_least(n - k, n, size, size - most) <= tail
    return fewest / size, (most - 1 if above else most) / size


def _first(low: int, high: int, true_from: Callable[[int], bool]) -> int:
    """The least number in [low, high] for which a monotone claim is true; `high` where none is."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if true_from(middle) else (middle + 1, high)
    return low


def _at_least(k: int, n: int, size: int, total: int) -> float:
    """P(k or more of n) when `total` of `size` have the property."""
    if k <= max(0, n - (size - total)):
        return 1.0
    many = np.arange(k, min(n, total) + 1)
    return float(min(1.0, np.exp(log_hypergeometric(many, n, size, total)).sum())) if many.size else 0.0


def log_hypergeometric(k: IntArray, n: int, size: int, total: int) -> FloatArray:
    """log P(k of n) when `total` of `size` have the property."""
    return log_choose(total, k) + log_choose(size - total, n - k) - log_choose(size, n)


def log_choose(n: int | IntArray, k: int | IntArray) -> FloatArray:
    """log of the binomial coefficient."""
    n, k = np.asarray(n), np.asarray(k)
    chosen: FloatArray = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return chosen


def binomial(n: int, p: float) -> FloatArray:
    """P(k of n) for k = 0..n, [n + 1]."""
    k = np.arange(n + 1)
    if p <= 0 or p >= 1:
        return np.asarray(k == (0 if p <= 0 else n), np.float64)
    chances: FloatArray = np.exp(log_choose(n, k) + k * np.log(p) + (n - k) * np.log1p(-p))
    return chances
