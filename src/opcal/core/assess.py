"""How accurate the predictions are in the field: the difference estimator and its interval (method.md §4).

With g a prediction of y for all N items in which no item's own label takes part, and y known on a sample s:
    ȳ = λ mean(g) + mean_s(y − λg),    λ = cov(y, g) / var(g) in [0, 1],
unbiased over the draw whatever g is, and as precise as g is good (prediction-powered inference). g = 0 leaves the plain
mean. Unequal inclusion probabilities π enter as weights 1/π (Hájek).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from opcal.core.checks import within
from opcal.core.method import FloatArray, IntArray

BORROWED = 10.0
"""Sample items that the model's own idea of the residuals counts as."""


@dataclass(frozen=True)
class Estimate:
    """A share of the pool with its interval."""

    value: float
    lower: float
    upper: float
    level: float
    labels: int
    effective: float
    """Labels drawn uniformly at random that would tell as much without any prediction."""

    @property
    def half_width(self) -> float:
        return (self.upper - self.lower) / 2


@dataclass(frozen=True)
class Sample:
    """y of some items of a finite pool, and what is predicted of it."""

    y: FloatArray  # [n] in [0, 1]
    g: FloatArray  # [n] prediction of y, its own y left out
    inclusion: FloatArray  # [n] π, the probability with which each item came into the sample
    size: int  # N
    mean_g: float  # over the whole pool
    var_g: float  # over the whole pool
    model_variance: float  # mean over the pool of var(y) if g were honest

    def __len__(self) -> int:
        return len(self.y)

    @property
    def weights(self) -> FloatArray:
        """1/π, summing to n."""
        w: FloatArray = 1 / self.inclusion
        return w * (len(w) / w.sum())


def uniform(y: FloatArray, at: IntArray, g: FloatArray | None, size: int, spread: FloatArray | None = None) -> Sample:
    """A sample drawn uniformly without replacement at positions `at`; `g` [N] predicts y, `spread` [N] its variance."""
    inclusion = np.full(len(y), len(y) / size)
    return weighted(y, at, g, inclusion, size, spread)


def weighted(
    y: FloatArray,
    at: IntArray,
    g: FloatArray | None,
    inclusion: FloatArray,
    size: int,
    spread: FloatArray | None = None,
) -> Sample:
    """A sample with inclusion probabilities [n]."""
    y = np.asarray(y, np.float64)
    if g is None:
        return Sample(y, np.zeros(len(y)), inclusion, size, 0.0, 0.0, 0.0)
    inner = g * (1 - g) if spread is None else spread
    return Sample(y, g[at], inclusion, size, float(g.mean()), float(g.var()), float(inner.mean()))


def power(s: Sample) -> float:
    """λ: the regression of y on g, drawn towards the 1 that honest predictions deserve."""
    if s.var_g <= 1e-12:
        return 0.0
    w = s.weights
    dg = s.g - w @ s.g / len(s)
    along, own = w @ (dg * s.y), w @ dg**2
    return float(np.clip((along + BORROWED * s.var_g) / (own + BORROWED * s.var_g), 0.0, 1.0))


def estimate(s: Sample, level: float = 0.95, *, finite: bool = True) -> Estimate:
    """The difference estimator with a score interval (Wilson's, at the effective number of labels).

    `finite`: about this pool; else about the endless field from which the pool is a sample.
    """
    within(level, "level", 0, 1, below=True)
    if len(s) == 0:
        return Estimate(s.mean_g, 0.0, 1.0, level, 0, 0.0)
    lam = power(s)
    value = lam * s.mean_g + float(s.weights @ (s.y - lam * s.g)) / len(s)
    variance = _variance(s, lam, finite)
    return interval(value, variance, level, len(s))


def interval(value: float, variance: float, level: float, n: int) -> Estimate:
    """Wilson's interval for a mean in [0, 1], n_eff = value(1 − value)/variance, with Student's quantile."""
    centre = float(np.clip(value, 0.5 / (n + 1), 1 - 0.5 / (n + 1)))
    effective = centre * (1 - centre) / max(variance, 1e-12)
    z = float(stdtrit(max(n - 1, 1), 0.5 + level / 2))
    share = z * z / effective
    middle = (value + share / 2) / (1 + share)
    reach = z / (1 + share) * np.sqrt(max(value * (1 - value), 0) / effective + share / (4 * effective))
    lower, upper = max(0.0, float(middle - reach)), min(1.0, float(middle + reach))
    return Estimate(float(np.clip(value, 0, 1)), lower, upper, level, n, effective)


def _variance(s: Sample, lam: float, finite: bool) -> float:
    """Of the estimate over the draw; the residuals' variance is steadied by what an honest g would leave."""
    n, w = len(s), s.weights
    e = s.y - lam * s.g
    e = e - w @ e / n
    left = 1 - s.inclusion if finite else np.ones(n)
    own = float((left * w**2) @ e**2)
    expected = s.model_variance + (1 - lam) ** 2 * s.var_g
    prior = BORROWED if s.var_g > 0 else 0.0
    steady = (own + prior * float((left * w**2).mean()) * expected) / max(n - 1 + prior, 1)
    return steady / n
