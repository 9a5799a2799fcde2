"""Maps of the confidence alone: Platt's sigmoid, isotonic regression, histogram binning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from opcal.baselines.base import Baseline, Fitted, Told, chosen, whole
from opcal.core.method import BoolArray, FloatArray, Outputs

EXTREME = 1e-12


class PlattScaling(Baseline):
    """1/(1 + e^(−(a·x + b))) with Platt's smoothed targets (n₊+1)/(n₊+2) and 1/(n₋+2), fitted to "was it right?".

    `on`: "confidence", x = c as in the paper, or "log-odds", x = log(c/(1−c)).
    """

    def __init__(self, *, on: str = "confidence") -> None:
        self.on = on

    def _learn(self, told: Told) -> Fitted:
        on = chosen("on", self.on, ("confidence", "log-odds"))
        slope, intercept = platt(_input(told.confidence, on), told.correct)
        return Sigmoid(slope, intercept, on)


@dataclass(frozen=True)
class Sigmoid:
    slope: float  # a
    intercept: float  # b
    on: str

    def __call__(self, rows: Outputs) -> FloatArray:
        found: FloatArray = expit(self.slope * _input(rows.confidence, self.on) + self.intercept)
        return found


def platt(x: FloatArray, correct: BoolArray) -> tuple[float, float]:
    """a and b that minimise the cross-entropy to Platt's targets; x is centred and scaled on the way."""
    right, n = float(correct.sum()), float(len(correct))
    target = np.where(correct, (right + 1) / (right + 2), 1 / (n - right + 2))
    centre, scale = float(x.mean()), float(x.std()) or 1.0
    u = (x - centre) / scale

    def energy(v: FloatArray) -> tuple[float, FloatArray]:
        s = v[0] * u + v[1]
        slope = expit(s) - target
        return float((np.logaddexp(0, s) - target * s).sum()), np.array([slope @ u, slope.sum()])

    start = np.array([0.0, logit(target.mean())])
    a, b = minimize(energy, start, jac=True, method="BFGS", options={"gtol": 1e-9 * n}).x
    return float(a / scale), float(b - a * centre / scale)


def _input(confidence: FloatArray, on: str) -> FloatArray:
    if on == "confidence":
        return confidence
    odds: FloatArray = logit(np.clip(confidence, EXTREME, 1 - EXTREME))
    return odds


class IsotonicScaling(Baseline):
    """The non-decreasing map of the confidence with the least squared error to "was it right?" (scikit-learn's)."""

    def _learn(self, told: Told) -> Fitted:
        from sklearn.isotonic import IsotonicRegression

        model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        return Isotonic(model.fit(told.confidence, told.correct.astype(float)))


@dataclass(frozen=True)
class Isotonic:
    model: Any

    def __call__(self, rows: Outputs) -> FloatArray:
        found: FloatArray = np.asarray(self.model.predict(rows.confidence), np.float64)
        return found


class HistogramBinning(Baseline):
    """The share of right predictions in each bin of the confidence (Zadrozny and Elkan 2001).

    `binning`: "mass" for bins of equal numbers of labels, "width" for equal widths; fewer bins than `bins` where they
    would hold fewer than ten labels each. A bin without labels leaves the confidence unchanged.
    """

    def __init__(self, *, bins: int = 10, binning: str = "mass") -> None:
        self.bins = bins
        self.binning = binning

    def _learn(self, told: Told) -> Fitted:
        bins = max(1, min(whole("bins", self.bins, 1), len(told) // 10))
        inner = np.arange(1, bins) / bins
        if chosen("binning", self.binning, ("mass", "width")) == "mass":
            inner = np.unique(np.quantile(told.confidence, inner, method="lower"))
        at = np.searchsorted(inner, told.confidence, side="left")
        count = np.bincount(at, minlength=len(inner) + 1)
        right = np.bincount(at, weights=told.correct, minlength=len(inner) + 1)
        return Histogram(inner, np.where(count > 0, right / np.maximum(count, 1), np.nan))


@dataclass(frozen=True)
class Histogram:
    edges: FloatArray  # [M − 1], a confidence at an edge belongs to the bin below it
    share: FloatArray  # [M], NaN where the bin held no label

    def __call__(self, rows: Outputs) -> FloatArray:
        found = self.share[np.searchsorted(self.edges, rows.confidence, side="left")]
        return np.where(np.isnan(found), rows.confidence, found)
