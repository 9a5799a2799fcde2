"""Inductive Venn–Abers calibration (Vovk and Petej 2014): isotonic regression with the item itself added twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opcal.baselines.base import Baseline, Fitted, Told
from opcal.core.method import FloatArray, Outputs

Block = tuple[float, float, int]
"""Sum and number of answers in a block of equal values, and the place of the block beyond it (−1: none)."""


class VennAbers(Baseline):
    """p₁/(1 − p₀ + p₁): p₀ and p₁ are isotonic regressions at c with the item added as wrong and as right.

    The interval [p₀, p₁] holds the probability whatever the scores are worth; `interval(pool)` of `fitted_` gives it.
    """

    def _learn(self, told: Told) -> Fitted:
        scores, at, count = np.unique(told.confidence, return_inverse=True, return_counts=True)
        right: FloatArray = np.asarray(np.bincount(at, weights=told.correct), np.float64)
        return Intervals(scores, *_tables(right, np.asarray(count, np.float64)))


@dataclass(frozen=True)
class Intervals:
    """p₀ and p₁ at every labelled score and in every gap between two of them: places 0 (below all) to 2n (above)."""

    scores: FloatArray  # [n], distinct, ascending
    low: FloatArray  # [2n + 1], p₀
    high: FloatArray  # [2n + 1], p₁

    def interval(self, rows: Outputs) -> tuple[FloatArray, FloatArray]:
        below = np.searchsorted(self.scores, rows.confidence, side="left")
        upto = np.searchsorted(self.scores, rows.confidence, side="right")
        return self.low[below + upto], self.high[below + upto]

    def __call__(self, rows: Outputs) -> FloatArray:
        low, high = self.interval(rows)
        return high / (1 - low + high)


def _tables(right: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """p₀ and p₁ at all 2n + 1 places: the new answer joins the blocks on its left and right while order demands it."""
    n = len(right)
    left, tops_left = _blocks(right, count, rising=True)
    after, tops_right = _blocks(right[::-1], count[::-1], rising=False)
    tables = np.empty((2, 2 * n + 1))
    for place in range(2 * n + 1):
        at, inside = divmod(place, 2)
        own = (right[at], count[at]) if inside else (0.0, 0.0)
        for answer in (0, 1):
            tables[answer, place] = _joined(
                own[0] + answer, own[1] + 1, (left, tops_left[at]), (after, tops_right[n - at - inside])
            )
    return tables[0], tables[1]


def _blocks(right: FloatArray, count: FloatArray, *, rising: bool) -> tuple[list[Block], list[int]]:
    """Isotonic blocks of every prefix as linked lists: all blocks ever made, and the last one of the first i scores."""
    made: list[Block] = []
    tops = [-1]
    for r, n in zip(right.tolist(), count.tolist(), strict=True):
        total, number, top = r, n, tops[-1]
        while top >= 0 and _disordered(made[top], total / number, rising):
            total, number, top = total + made[top][0], number + made[top][1], made[top][2]
        made.append((total, number, top))
        tops.append(len(made) - 1)
    return made, tops


def _disordered(block: Block, value: float, rising: bool) -> bool:
    mean = block[0] / block[1]
    return mean >= value if rising else mean <= value


def _joined(total: float, number: float, left: tuple[list[Block], int], right: tuple[list[Block], int]) -> float:
    (below, i), (above, j) = left, right
    while True:
        if i >= 0 and _disordered(below[i], total / number, True):
            total, number, i = total + below[i][0], number + below[i][1], below[i][2]
        elif j >= 0 and _disordered(above[j], total / number, False):
            total, number, j = total + above[j][0], number + above[j][1], above[j][2]
        else:
            return total / number
