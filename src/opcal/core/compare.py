"""Which of several models is right more often on the same items (method.md §4).

Where two models predict the same they are right or wrong together: only the items on which they differ count, and there
alone labels are needed. d = I_b − I_a in {−1, 0, 1}.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opcal.core import assess
from opcal.core.exact import binomial
from opcal.core.method import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Difference:
    """Accuracy of b minus that of a over the pool."""

    value: float
    lower: float
    upper: float
    level: float
    differ: int
    """Items on which the two predict differently."""
    labels: int
    """Labels of such items, drawn at random."""
    b_only: int
    """Of these, the ones that only b has right."""
    a_only: int
    p_value: float
    """Of the exact test that neither is better (McNemar's)."""

    @property
    def winner(self) -> str | None:
        """ "a" or "b" where the interval leaves out 0."""
        return "b" if self.lower > 0 else "a" if self.upper < 0 else None


def difference(
    right_a: BoolArray, right_b: BoolArray, at: IntArray, differ: BoolArray, g: FloatArray | None, level: float
) -> Difference:
    """From labels at positions `at`, uniform among the items that `differ` [N]; `g` [N] predicts I_b − I_a."""
    inside, size = differ[at], int(differ.sum())
    a, b = right_a[inside], right_b[inside]
    n, share = int(inside.sum()), size / len(differ)
    b_only, a_only = int((b & ~a).sum()), int((a & ~b).sum())
    p = exact_p(b_only, a_only)
    if n == 0:
        return Difference(0.0, -share, share, level, size, 0, 0, 0, p)
    place = np.cumsum(differ) - 1
    y = (b.astype(float) - a + 1) / 2
    guess = None if g is None else np.clip((g[differ] + 1) / 2, 0, 1)
    sample = assess.uniform(y, place[at[inside]], guess, size)
    found = assess.estimate(sample, level)
    value, lower, upper = (share * (2 * x - 1) for x in (found.value, found.lower, found.upper))
    return Difference(value, lower, upper, level, size, n, b_only, a_only, p)


def exact_p(b_only: int, a_only: int) -> float:
    """Two-sided probability of a split at least as uneven when neither model is better."""
    n = b_only + a_only
    return float(min(1.0, 2 * binomial(n, 0.5)[: min(b_only, a_only) + 1].sum())) if n else 1.0
