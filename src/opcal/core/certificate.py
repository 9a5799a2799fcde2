"""Exact tests of a promise that was fixed before its labels were drawn (method.md §4).

`Looks` tests "at most so many are false" by counts: the first test is the exact one at δ; should it fail and labels
follow, later tests share what the first left of δ, by the exact chance of ever passing when the promise is just broken.
`gain_bound` tests "the mean gain is at least g" by bets, which hold however often one looks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from opcal.core.exact import binomial, log_hypergeometric, lower_rate
from opcal.core.method import FloatArray, IntArray
from opcal.core.sequence import lower_bound


@dataclass(frozen=True)
class Broken:
    """The promise just broken: what the draws would show then.

    Of a pool: `total` false ones among `size` that can be drawn. Of the field (`size` None): each is false with
    probability `error`.
    """

    error: float
    size: int | None = None
    total: int = 0

    def false_ones(self, n: int, drawn: int, false: int) -> FloatArray:
        """P(j false among the next n draws) after `drawn` with `false` false ones, [n + 1]."""
        if self.size is None:
            return binomial(n, self.error)
        left, rest = self.size - drawn, min(max(self.total - false, 0), self.size - drawn)
        j = np.arange(n + 1)
        possible = (j <= rest) & (n - j <= left - rest)
        chances = np.zeros(n + 1)
        chances[possible] = np.exp(log_hypergeometric(j[possible], n, left, rest))
        return chances

    @property
    def hopeless(self) -> bool:
        """What is known already breaks the promise."""
        return self.size is not None and self.total <= 0

    @property
    def kept_anyway(self) -> bool:
        """The promise holds even if all that can be drawn is false."""
        return self.size is not None and self.total > self.size


@dataclass
class Looks:
    """All tests made so far of one promise; looking is spending."""

    broken: Broken
    doubt: float  # δ
    n: int = 0
    spent: float = 0.0
    """The chance, with the promise just broken, that one of the tests so far would have passed."""
    passed: bool = False
    running: FloatArray = field(default_factory=lambda: np.ones(1))
    """Chance of k false ones and no test passed yet, [n + 1]."""

    def allowed(self, n: int) -> int:
        """The most false ones among the first n labels with which a test there passes; −1 where none will do."""
        if self.broken.hopeless:
            return -1
        if self.broken.kept_anyway:
            return n
        return int((np.cumsum(self._at(n)) <= self.doubt - self.spent + 1e-12).sum()) - 1

    def look(self, n: int, wrong: int) -> bool:
        """Test with the first n labels; the answer stands once it is yes."""
        if self.passed or (n <= self.n and not self.broken.kept_anyway):
            return self.passed
        allowed, here = self.allowed(n), self._at(n)
        self.spent += float(here[: allowed + 1].sum())
        here[: allowed + 1] = 0.0
        self.running, self.n = here, n
        self.passed = wrong <= allowed
        return self.passed

    def _at(self, n: int) -> FloatArray:
        """Chance of k false ones among n and no test passed before, [n + 1]."""
        chances = np.zeros(n + 1)
        for k in np.flatnonzero(self.running).tolist():
            chances[k : k + n - self.n + 1] += self.running[k] * self.broken.false_ones(n - self.n, self.n, k)
        return chances


def error_bound(wrong: int, n: int, doubt: float) -> float:
    """The error that is not exceeded with probability 1 − δ, by one test of n labels (Clopper-Pearson)."""
    return 1 - lower_rate(n - wrong, n, doubt)


def most_false(wrong: int, n: int, size: int, doubt: float) -> int:
    """How many of `size` are false at most, with probability 1 − δ, when `wrong` of n drawn are."""
    low, high = wrong, size - (n - wrong)
    while low < high:
        middle = (low + high + 1) // 2
        chance = Broken(0.0, size, middle).false_ones(n, 0, 0)[: wrong + 1].sum()
        low, high = (middle, high) if chance > doubt else (low, middle - 1)
    return low


@dataclass(frozen=True)
class Nested:
    """What is known of the items in the order in which a region would take them, each counted up to that item."""

    error: FloatArray  # [N] mean predicted error among those that can be drawn
    every: FloatArray  # [N] the same among all
    fresh: IntArray  # [N] items that can be drawn
    wrong: IntArray  # [N] labelled items that are false

    def broken(self, m: int, error: float, of_pool: bool) -> Broken:
        """The promise about the first m items, just broken."""
        if not of_pool:
            return Broken(error)
        allowed = int(np.floor(error * m + 1e-9))
        return Broken(error, int(self.fresh[m - 1]), allowed + 1 - int(self.wrong[m - 1]))

    def chance(self, m: int, looks: Looks, n: int) -> float:
        """That a test of the first m items with n labels passes, as far as the predictions tell."""
        allowed = looks.allowed(n)
        if n < 1 or allowed < 0:
            return float(looks.broken.kept_anyway)
        rates = np.minimum(1.0, self.error[m - 1] * np.array(MISJUDGED) + LEAST_ERROR)
        return float(np.mean([binomial(n, rate)[: allowed + 1].sum() for rate in rates]))


MISJUDGED = (0.7, 1.1, 1.5)
LEAST_ERROR = 0.002
"""How many times larger than predicted a region's error turned out on digits, and what is added for luck."""
FIRST, CAUTION = 0.98, 2
"""The chance of passing that the first region aims at; the widest is greatest in size × chance².

On digits with 180 labels (40 runs): power 1 certifies .90 to .93 of runs and covers .50 of the items, power 2 .98 to 1
and .45 to .48, power 4 .97 to 1 and .38 to .42.
"""


def steps(nested: Nested, error: float, doubt: float, n: int, *, of_pool: bool) -> tuple[int, ...]:
    """Sizes of the nested regions to test one after the other, from safe to wide, with n labels drawn in the widest.

    Each is tested at δ, and the first that fails ends the tests: what was passed before holds all the same, and the
    chance of promising wrongly stays δ, since the narrowest region that breaks the promise must pass a test first.
    The predicted error of the widest never exceeds ε/2.
    """
    grid = [m for m in _grid(largest_prefix(nested.every, error / 2)) if nested.fresh[m - 1] > 0]
    if not grid:
        return ()
    alone = {m: _chance(nested, m, min(n, int(nested.fresh[m - 1])), error, doubt, of_pool) for m in grid}
    widest = max(alone, key=lambda m: alone[m] ** CAUTION * m)
    total = int(nested.fresh[widest - 1])
    share = min(n, total) / total
    inside = [m for m in grid if m <= widest]
    chances = {m: _chance(nested, m, round(share * int(nested.fresh[m - 1])), error, doubt, of_pool) for m in inside}
    sure = [m for m, chance in chances.items() if chance >= FIRST and 3 * m >= widest]
    first = sure[-1] if sure else max(chances, key=lambda m: chances[m] * m)
    return tuple(m for m in inside if m >= first)


def _chance(nested: Nested, m: int, n: int, error: float, doubt: float, of_pool: bool) -> float:
    return nested.chance(m, Looks(nested.broken(m, error, of_pool), doubt), n)


def _grid(most: int) -> list[int]:
    """Sizes that are considered, at most 60."""
    return np.unique(np.linspace(1, most, min(most, 60)).astype(np.intp)).tolist() if most else []


def largest_prefix(running: FloatArray, bound: float) -> int:
    """How many of the items may be taken until the running mean of their expected losses exceeds `bound`."""
    within = np.flatnonzero(running <= bound + 1e-12)
    return int(within[-1]) + 1 if within.size else 0


@dataclass(frozen=True)
class GainBound:
    """What n labels show of a mean gain."""

    passed: bool
    at_least: float
    """The mean gain that is reached with probability 1 − δ."""


def gain_bound(gains: FloatArray, low: float, high: float, size: int, doubt: float, goal: float) -> GainBound:
    """Gains in [low, high] of items in the order drawn, without replacement from `size`."""
    if high <= low:
        return GainBound(low >= goal, low)
    scaled = (gains - low) / (high - low)
    goals = np.append(np.linspace(0, 1, 1001), np.clip((goal - low) / (high - low), 0, 1))
    beaten = lower_bound(scaled, size, goals) >= -np.log(doubt)
    proven = goals[:-1][np.cumprod(beaten[:-1]).astype(bool)]
    at_least = low + (high - low) * float(proven.max(initial=0.0))
    return GainBound(bool(beaten[-1]) or goal <= low, max(at_least, goal) if beaten[-1] else at_least)
