"""Regressions of I − c on the representation, in place of the paper's Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opcal.baselines.base import Baseline, Fitted, Told, folds, whole
from opcal.core.method import FloatArray, Outputs
from opcal.errors import UnknownOption

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""C·d of the support vectors: features are standardised, so that a kernel value grows with their number d."""


FEW = 6
"""Fewer labels choose no strength: the weakest is taken."""


class ForestRegression(Baseline):
    """c + a random forest's estimate of I − c at z; ten trees as in the paper (scikit-learn's)."""

    def __init__(self, *, n_estimators: int = 10, min_samples_leaf: int = 1, random_state: int = 0) -> None:
        self.n_estimators = n_estimators
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state

    def _learn(self, told: Told) -> Fitted:
        from sklearn.ensemble import RandomForestRegressor

        model = RandomForestRegressor(
            whole("n_estimators", self.n_estimators, 1),
            min_samples_leaf=whole("min_samples_leaf", self.min_samples_leaf, 1),
            random_state=self.random_state,
        )
        return Adjusted(model.fit(np.asarray(told.rows.features, np.float32), told.residual))


@dataclass(frozen=True)
class Adjusted:
    """c + m(z)."""

    model: Any

    def __call__(self, rows: Outputs) -> FloatArray:
        found: FloatArray = rows.confidence + self.model.predict(np.asarray(rows.features, np.float32))
        return found


class SupportVectorRegression(Baseline):
    """c + a linear support vector machine's estimate of I − c at z (scikit-learn's), features standardised.

    `C="auto"`: of five strengths the one with the least squared error on held-out labels. The machine fits absolute
    errors, medians: its estimates are shifted by the mean of what it left, so that they are right on average.
    """

    def __init__(self, *, C: float | str = "auto", epsilon: float = 0.1) -> None:
        self.C = C
        self.epsilon = epsilon

    def _learn(self, told: Told) -> Fitted:
        z, y = np.asarray(told.rows.features, np.float64), told.residual
        scale = _Scale(z.mean(0), np.where(z.std(0) > 0, z.std(0), 1.0))
        return self._machine(scale(z), y, scale, self._strength(scale(z), y))

    def _machine(self, x: FloatArray, y: FloatArray, scale: _Scale, strength: float) -> _Machine:
        from sklearn.svm import SVR

        model = SVR(kernel="linear", C=strength, epsilon=self.epsilon).fit(x, y)
        left = float((y - model.predict(x)).mean())
        return _Machine(model.coef_.ravel(), float(model.intercept_[0]) + left, scale, strength)

    def _strength(self, x: FloatArray, y: FloatArray) -> float:
        if self.C != "auto":
            if not isinstance(self.C, (int, float)) or not self.C > 0:
                raise UnknownOption(f'C is {self.C!r}: expected "auto" or a number above 0')
            return float(self.C)
        if len(x) < FEW:
            return STRENGTHS[0] / int(x.shape[1])
        parts = folds(len(x), 3, seed=0)
        tried = [c / int(x.shape[1]) for c in STRENGTHS]
        return tried[int(np.argmin([self._held_out(x, y, c, parts) for c in tried]))]

    def _held_out(self, x: FloatArray, y: FloatArray, strength: float, parts: list[tuple[Any, Any]]) -> float:
        same = _Scale(np.zeros(x.shape[1]), np.ones(x.shape[1]))
        fits = [self._machine(x[rest], y[rest], same, strength) for rest, _ in parts]
        left = [fit.adjustment(x[part]) - y[part] for fit, (_, part) in zip(fits, parts, strict=True)]
        return float(np.square(np.concatenate(left)).sum())


@dataclass(frozen=True)
class _Scale:
    mean: FloatArray  # [d]
    deviation: FloatArray  # [d]

    def __call__(self, z: FloatArray) -> FloatArray:
        scaled: FloatArray = (z - self.mean) / self.deviation
        return scaled


@dataclass(frozen=True)
class _Machine:
    weight: FloatArray  # [d]
    intercept: float
    scale: _Scale
    C: float

    def adjustment(self, z: FloatArray) -> FloatArray:
        found: FloatArray = self.scale(z) @ self.weight + self.intercept
        return found

    def __call__(self, rows: Outputs) -> FloatArray:
        found: FloatArray = rows.confidence + self.adjustment(np.asarray(rows.features, np.float64))
        return found
