"""Strata of confidence: to weigh labels that were drawn uniformly, or to draw them stratum by stratum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opcal.core.assess import Estimate, interval
from opcal.core.method import FloatArray, IntArray

FEWEST = 8
"""Labels that a stratum needs before it is told apart."""
MOST = 5


def by_confidence(confidence: FloatArray, strata: int) -> IntArray:
    """Stratum of each item, [N]: equal numbers of items, those of equal confidence together."""
    ranked = np.sort(confidence)
    middle = np.searchsorted(ranked, confidence, "left") + np.searchsorted(ranked, confidence, "right")
    of: IntArray = np.minimum(middle * strata // (2 * len(confidence)), strata - 1)
    return np.unique(of, return_inverse=True)[1].astype(np.intp)


def post_stratified(y: FloatArray, at: IntArray, confidence: FloatArray, level: float) -> Estimate:
    """The mean of y [n] over the pool, strata weighed by their sizes; as many strata as the labels can fill."""
    wanted = max(1, min(MOST, len(y) // FEWEST))
    for strata in range(wanted, 0, -1):
        of = by_confidence(confidence, strata)
        if np.bincount(of[at], minlength=int(of.max()) + 1).min() >= min(2, len(y)):
            break
    return stratified(np.asarray(y, np.float64), of[at], np.bincount(of), level)


def stratified(y: FloatArray, stratum: IntArray, sizes: IntArray, level: float) -> Estimate:
    """Σ_h (N_h/N) ȳ_h; two labels of the pooled mean steady each stratum's variance."""
    n, share = np.bincount(stratum, minlength=len(sizes)), sizes / sizes.sum()
    means = np.bincount(stratum, weights=y, minlength=len(sizes)) / np.maximum(n, 1)
    steady = (n * means + 2 * y.mean()) / (n + 2)
    left = 1 - n / np.maximum(sizes, 1)
    variance = share**2 * left * steady * (1 - steady) / np.maximum(n - 1, 1)
    mean = float(np.clip(share @ means, 0.5 / (len(y) + 1), 1 - 0.5 / (len(y) + 1)))
    effective = mean * (1 - mean) / max(float(variance.sum()), 1e-9)
    return interval(float(share @ means), effective, level, len(y))


@dataclass(frozen=True)
class Drawn:
    """A stratified random draw."""

    positions: IntArray  # [n]
    inclusion: FloatArray  # [n] probability with which each came in
    stratum: IntArray  # [n]
    sizes: IntArray  # [strata]


def draw(confidence: FloatArray, n: int, strata: int, rng: np.random.Generator) -> Drawn:
    """n items in all, more of them where the model doubts (Neyman's allocation), at least two from each stratum."""
    of = by_confidence(confidence, max(1, min(strata, n // 2)))
    sizes = np.bincount(of)
    mean = np.bincount(of, weights=confidence) / sizes
    counts = allocate(sizes, np.sqrt(mean * (1 - mean) + 0.05), n)
    chosen = [rng.choice(np.flatnonzero(of == h), k, replace=False) for h, k in enumerate(counts.tolist())]
    at = np.concatenate(chosen).astype(np.intp)
    return Drawn(at, (counts / sizes)[of[at]], of[at], sizes)


def allocate(sizes: IntArray, spread: FloatArray, n: int) -> IntArray:
    """Whole numbers that sum to min(n, N), near N_h s_h; at most N_h each, and at least two where n allows it."""
    counts = np.minimum(2 if n >= 2 * len(sizes) else 0, sizes)
    wanted = min(n, int(sizes.sum()))
    while counts.sum() < wanted:
        gain = np.where(counts < sizes, sizes * spread / np.maximum(counts, 0.5), -np.inf)
        counts[int(gain.argmax())] += 1
    return counts.astype(np.intp)
