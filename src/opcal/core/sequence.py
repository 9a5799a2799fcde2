"""A confidence sequence for the share of right predictions: look after every label, stop when you like.

For each candidate share a bet against it is kept whose stake is fair if the share is true; a share is out for good once
its capital reaches 1/α (Ville's inequality: at most α of all runs ever lose the truth). Half of the capital plays the
prior-posterior ratio of a uniform prior (Waudby-Smith & Ramdas 2020), half bets on I − (g − mean g) with predictions g
made before each draw (betting without replacement, Waudby-Smith & Ramdas 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from opcal.core.exact import log_choose
from opcal.core.method import BoolArray, FloatArray, IntArray

GRID = 2000
"""Candidate shares that are followed; their spacing is added to the interval."""
STAKE = 0.5
"""No bet may lose more than this share of its capital."""


@dataclass(frozen=True)
class Draws:
    """Items drawn one after the other without replacement, each with what was predicted just before."""

    correct: BoolArray  # [n]
    g: FloatArray  # [n] predicted probability of being right
    mean: FloatArray  # [n] mean prediction over all items not drawn yet
    least: FloatArray  # [n] smallest prediction among them
    most: FloatArray  # [n]
    size: int  # N

    @classmethod
    def plain(cls, correct: BoolArray, size: int) -> Draws:
        """Without predictions."""
        half = np.full(len(correct), 0.5)
        return cls(correct, half, half, half, half, size)


@dataclass(frozen=True)
class Sequence:
    """Interval after each label."""

    lower: FloatArray  # [n + 1], from no label on
    upper: FloatArray  # [n + 1]
    level: float


def confidence_sequence(draws: Draws, level: float = 0.95) -> Sequence:
    """Shares of right predictions in the pool that no bet has refuted, after 0, 1, …, n labels."""
    totals = np.unique(np.round(np.linspace(0, draws.size, min(GRID, draws.size) + 1)).astype(np.intp))
    share, spacing = totals / draws.size, float(np.diff(totals).max(initial=0) - 1) / draws.size
    ratio = _prior_posterior(draws.correct, totals, draws.size)
    refute = -np.log(1 - level)
    alive = np.ones(len(totals), bool)
    ends = [(0.0, 1.0)]
    for t, bets in enumerate(_bets(draws, share)):
        alive &= np.logaddexp(ratio[t], bets) - np.log(2) < refute
        ends.append(_ends(share, alive, spacing, ends[-1]))
    lower, upper = np.array(ends).T
    return Sequence(lower, upper, level)


def _ends(share: FloatArray, alive: BoolArray, spacing: float, before: tuple[float, float]) -> tuple[float, float]:
    """A truth between two followed shares may outlive both: the interval is widened by their spacing."""
    if not alive.any():
        return before
    left = share[alive]
    return max(before[0], float(left[0]) - spacing), min(before[1], float(left[-1]) + spacing)


def _prior_posterior(correct: BoolArray, totals: IntArray, size: int) -> FloatArray:
    """log prior − log posterior of each number of right items after 1..n labels, [n, totals]."""
    k, n = np.cumsum(correct)[:, None], np.arange(1, len(correct) + 1)[:, None]
    rest, left = totals - k, size - n
    possible = (rest >= 0) & (rest <= left)
    inside = np.clip(rest, 0, left)
    posterior = log_choose(left, inside) + betaln(1 + k + inside, 1 + n - k + left - inside) - betaln(1 + k, 1 + n - k)
    ratio: FloatArray = np.where(possible, -np.log(size + 1.0) - posterior, np.inf)
    return ratio


def _bets(draws: Draws, share: FloatArray) -> FloatArray:
    """log of the mean capital of the bets that a share is too low and too high, after 1..n labels [n, shares]."""
    n = len(draws.correct)
    capital = np.zeros((2, len(share)))
    out = np.empty((n, len(share)))
    right, total, squares = 0, 0.5, 0.25
    for t in range(n):
        left = draws.size - t
        mean = np.clip((draws.size * share - right) / left, 0.0, 1.0)
        y = float(draws.correct[t]) - (draws.g[t] - draws.mean[t])
        centre, spread = total / (t + 1), squares / (t + 1)
        low, high = draws.mean[t] - draws.most[t], 1 + draws.mean[t] - draws.least[t]
        pull = (centre - mean) / (spread + (centre - mean) ** 2)
        up = np.clip(pull, 0.0, STAKE / np.maximum(mean - low, 1e-9))
        down = np.clip(-pull, 0.0, STAKE / np.maximum(high - mean, 1e-9))
        capital += np.log1p(np.stack([up, -down]) * (y - mean))
        out[t] = np.logaddexp(*capital) - np.log(2)
        squares += (y - (total + y) / (t + 2)) ** 2
        right, total = right + int(draws.correct[t]), total + y
    return out


def lower_bound(values: FloatArray, size: int, goals: FloatArray) -> FloatArray:
    """log capital against "the mean of all `size` values in [0, 1] is at most this goal", after all draws [goals].

    A goal is passed, whenever one looks, where its capital has ever reached 1/doubt.
    """
    capital, best = np.zeros(len(goals)), np.zeros(len(goals))
    total, squares, seen = 0.5, 0.25, 0.0
    for t, x in enumerate(values.tolist()):
        mean = np.clip((size * goals - seen) / max(size - t, 1), 0.0, 1.0)
        centre, spread = total / (t + 1), squares / (t + 1)
        bet = np.clip((centre - mean) / (spread + (centre - mean) ** 2), 0.0, STAKE / np.maximum(mean, 1e-9))
        capital += np.log1p(bet * (x - mean))
        best = np.maximum(best, capital)
        squares += (x - (total + x) / (t + 2)) ** 2
        total, seen = total + x, seen + x
    return best
