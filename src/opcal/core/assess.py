"""How accurate the predictions are in the field: the difference estimator and its interval (method.md §4).

With g a prediction of y for all N items in which no item's own label takes part, and y known on a sample s:
    ȳ = λ mean(g) + mean_s(y − λg),    λ = cov(y, g) / var(g) in [0, 1],
unbiased over the draw whatever g is, and as precise as g is good (prediction-powered inference). g = 0 leaves the plain
mean. Unequal inclusion probabilities π enter as weights 1/π (Hájek).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from opcal.core.checks import within
from opcal.core.method import FloatArray, IntArray

BORROWED = 10.0
"""Sample items that a full trust in the predictions counts as."""
STEADY = 5.0
"""Sample items that the predictions' own idea of what they leave counts as.

With this and 1 + 1/√n for the fluctuation of the fits, 95 % intervals cover .93 to .975 on five real shifts at 30, 60
and 180 labels (200 runs each); without, .925 to .96.
"""


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
        return np.asarray(w * (len(w) / w.sum()), np.float64)


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
    found = interval(value, effective_labels(s, lam, finite), level, len(s))
    # A sample without a single mistake never rules out that there is none, whatever was predicted.
    lower, upper = (0.0 if not s.y.any() else found.lower), (1.0 if (s.y == 1).all() else found.upper)
    return replace(found, lower=lower, upper=upper)


def plain(y: FloatArray, size: int, level: float) -> Estimate:
    """The mean of y [n] in [0, 1], drawn uniformly from `size` items."""
    return estimate(uniform(y, np.empty(0, np.intp), None, size), level)


def interval(value: float, effective: float, level: float, n: int) -> Estimate:
    """Wilson's interval for a mean in [0, 1] from so many effective labels, with Student's quantile for n of them."""
    z = float(stdtrit(max(n - 1, 1), 0.5 + level / 2))
    value, share = float(np.clip(value, 0, 1)), z * z / effective
    middle = (value + share / 2) / (1 + share)
    reach = z / (1 + share) * np.sqrt(value * (1 - value) / effective + share / (4 * effective))
    lower, upper = max(0.0, float(middle - reach)), min(1.0, float(middle + reach))
    return Estimate(value, lower, upper, level, n, effective)


def effective_labels(s: Sample, lam: float, finite: bool) -> float:
    """n over the ratio of what the predictions leave to what there was: both from the same sample, so that a sample
    with few mistakes by chance does not look precise. A few items of the model's own idea steady the ratio.
    """
    n, w, predicted = len(s), s.weights, s.var_g > 0
    left = (1 - s.inclusion if finite else np.ones(n)) * w**2
    e = s.y - lam * s.g
    e = e - w @ e / n
    mean, prior = float(np.clip(w @ s.y / n, 0, 1)), STEADY if predicted else 0.0
    rest = float(left @ e**2) + prior * float(left.mean()) * (s.model_variance + (1 - lam) ** 2 * s.var_g)
    whole = n * mean * (1 - mean) + prior * float(np.clip(s.mean_g * (1 - s.mean_g), 0, 1))
    ratio = rest / whole if whole > 1e-9 else float(left.mean())
    ratio = min(ratio, 1.2 * float(left.mean()) if predicted or n < 2 else np.inf)
    return n / max(ratio * (1 + n**-0.5 if predicted else 1.0), 1e-9)
