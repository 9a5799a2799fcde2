"""The posterior of every item's confidence: a marginal distribution on [0, 1] and joint draws through a copula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import betainc, betaincinv, ndtr

from opcal.core.checks import within
from opcal.core.method import FloatArray
from opcal.errors import InvalidInput, UnknownOption


class Marginal(Protocol):
    """One distribution on [0, 1] for each of N items."""

    def cdf(self, x: float) -> FloatArray:
        """P(confidence <= x), [N]."""

    def quantile(self, p: FloatArray | float) -> FloatArray:
        """The p-quantile; p broadcasts against [N]."""


@dataclass(frozen=True)
class Beta:
    """Beta distributions by their moments; an item with sd 0 is a point."""

    mean: FloatArray
    sd: FloatArray

    @property
    def shapes(self) -> tuple[FloatArray, FloatArray]:
        spread = np.maximum(self.mean * (1 - self.mean), 1e-300)
        total = np.clip(spread / np.maximum(self.sd, 1e-150) ** 2 - 1, 1e-6, 1e12)
        return np.maximum(self.mean * total, 1e-12), np.maximum((1 - self.mean) * total, 1e-12)

    def cdf(self, x: float) -> FloatArray:
        return np.where(self.sd > 0, betainc(*self.shapes, x), (x >= self.mean).astype(float))

    def quantile(self, p: FloatArray | float) -> FloatArray:
        return np.where(self.sd > 0, betaincinv(*self.shapes, p), self.mean)


@dataclass(frozen=True)
class Posterior:
    """Confidence of N items after the answers: `mean` is the calibrated confidence, `sd` its own uncertainty."""

    mean: FloatArray  # [N] in [0, 1]
    sd: FloatArray  # [N]
    marginal: Marginal
    draws: Callable[[int, np.random.Generator], FloatArray]
    """(n, generator) -> [n, N] correlated standard normal variables, the items' joint behaviour."""
    likely: FloatArray | None = None
    """[N] `mean` without the doubt about all items at once, in the same order; None where they are the same."""

    def __len__(self) -> int:
        return len(self.mean)

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of the central interval that holds `level` of each item's posterior."""
        tail = (1 - within(level, "level", 0, 1, below=True)) / 2
        return self.marginal.quantile(tail), self.marginal.quantile(1 - tail)

    def above(self, threshold: float) -> FloatArray:
        """P(confidence >= threshold) for each item."""
        below = np.nextafter(within(threshold, "threshold", 0, 1), 0)
        return 1 - self.marginal.cdf(below) if below > 0 else np.ones(len(self))

    def sample(self, n: int = 100, random_state: int | np.random.Generator | None = 0) -> FloatArray:
        """Joint draws of all confidences, [n, N]."""
        if not isinstance(n, (int, np.integer)) or n < 0:
            raise InvalidInput(f"n is {n!r}: expected how many draws to make, a whole number of 0 or more")
        normal = self.draws(int(n), _generator(random_state))
        return np.clip(self.marginal.quantile(ndtr(normal)), 0.0, 1.0)


def _generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise UnknownOption(f"random_state is {random_state!r}: expected a whole number of 0 or more") from error
