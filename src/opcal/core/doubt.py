"""What may be wrong with all log-odds at once, averaged out of the confidence.

The modes tell what is most probable item by item. An offset, a slope and a bend that all items share,
m' = m + wᵀφ(m), φ(m) = (1, m, (m − 1)₊), are hardly known by few answers, and least of all among the surest, of whom
the answers to all others tell nothing. With w ~ N(0, Σ) after the answers, E σ(m') ≈ σ(m / √(1 + π/8 φᵀΣφ)) (MacKay),
which doubts the surest rather more than a normal w would: .984 where the integral is .992. Without it, the surest were
told .996 on t2_polarity where .95 were right. No order is changed: this grows with m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opcal.core.method import FloatArray

PRIOR = 0.5, 0.25, 0.3
"""Standard deviations of offset, slope and bend before the first answer; what they do and cost: docs/robust.md."""
BEND = 1.0
EDGE = 1e-9


@dataclass(frozen=True)
class Doubt:
    """Posterior of the shared deviations of the log-odds."""

    root: FloatArray  # [3, 3], R with Σ = RRᵀ

    def __call__(self, p: FloatArray) -> FloatArray:
        """The mean of σ(m') where p = σ(m), [n]."""
        m = log_odds(p)
        along = features(m) @ self.root
        humbler: FloatArray = 1 / (1 + np.exp(-m / np.sqrt(1 + np.pi / 8 * np.einsum("ij,ij->i", along, along))))
        return humbler


def doubted(p: FloatArray, weight: FloatArray) -> Doubt:
    """After answers of these weights to items with P(right) p, [n] each: Laplace at w = 0."""
    phi = features(log_odds(p))
    precision = np.diag(np.power(PRIOR, -2.0)) + (phi.T * (weight * p * (1 - p))) @ phi
    root: FloatArray = np.linalg.inv(np.linalg.cholesky(precision)).T
    return Doubt(root)


def log_odds(p: FloatArray) -> FloatArray:
    inside = np.clip(p, EDGE, 1 - EDGE)
    m: FloatArray = np.log(inside) - np.log1p(-inside)
    return m


def features(m: FloatArray) -> FloatArray:
    """φ(m) [n, 3]."""
    return np.column_stack([np.ones_like(m), m, np.maximum(m - BEND, 0)])
