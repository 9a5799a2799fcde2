"""Temperature alone: softmax(e^(−τ)h) with the prior τ ~ N(0, 1), at the mode; its spread by Laplace's approximation.

"Wrong" without a class adds log(1 − p_ŷ). Pools without logits are read as logits that give back the confidence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from opcal.core.embedding import class_logits, n_classes
from opcal.core.method import Answers, Field, FloatArray, IntArray, Outputs
from opcal.core.posterior import Beta, Posterior
from opcal.core.softmax import FloatPair, likelihood_of
from opcal.core.spread import through_logistic

WIDEST = 5.0
"""Bounds of τ: confidences between e^5 times flatter and sharper."""
CURVATURE_STEP = 1e-3


@dataclass(frozen=True)
class Temperature:
    prior_sd: float = 1.0

    def begin(self, field: Field) -> TemperatureLearner:
        return TemperatureLearner(field.pool, self.prior_sd)


class TemperatureLearner:
    def __init__(self, pool: Outputs, prior_sd: float) -> None:
        self.pool, self.prior_sd = pool, prior_sd
        self.classes = n_classes(pool)
        self.answers = Answers.none()
        self._fitted: tuple[float, float] | None = None

    def tell(self, answers: Answers) -> None:
        if len(answers) != len(self.answers):
            self._fitted = None
        self.answers = answers

    @property
    def fitted(self) -> tuple[float, float]:
        """τ and its standard deviation."""
        if self._fitted is None:
            self._fitted = self._fit()
        return self._fitted

    def predict(self, rows: Outputs) -> Posterior:
        tau, sd = self.fitted
        h, predicted = class_logits(rows, self.classes)
        p, slope = right_and_slope(np.exp(-tau) * h, predicted)
        widest = np.maximum(p * (1 - p), 1e-300)
        spread = np.sqrt(through_logistic(p, (sd * slope) ** 2))
        spread = np.minimum(spread, 0.999 * np.sqrt(widest))
        signs = np.where(slope < 0, -1.0, 1.0)

        def draws(n: int, rng: np.random.Generator) -> FloatArray:
            return rng.standard_normal((n, 1)) * signs

        return Posterior(p, spread, Beta(p, spread), draws)

    def _fit(self) -> tuple[float, float]:
        from scipy.optimize import minimize_scalar

        h, predicted = class_logits(self.pool.take(self.answers.positions), self.classes)

        def energy(tau: float) -> float:
            fit = likelihood_of(np.exp(-tau) * h, self.answers.labels, predicted, self.answers.weight)[0]
            return 0.5 * (tau / self.prior_sd) ** 2 - fit

        found = minimize_scalar(energy, bounds=(-WIDEST, WIDEST), method="bounded", options={"xatol": 1e-9})
        tau, step = float(found.x), CURVATURE_STEP
        curvature = (energy(tau + step) - 2 * energy(tau) + energy(tau - step)) / step**2
        return tau, float(1 / np.sqrt(max(curvature, self.prior_sd**-2)))


def right_and_slope(cooled: FloatArray, predicted: IntArray) -> FloatPair:
    """p_ŷ [n] and the derivative of its log-odds by τ [n], from e^(−τ)h [n, K]."""
    at = np.arange(len(cooled)), predicted
    p: FloatArray = softmax(cooled, axis=1)[at]
    rest = cooled.copy()
    rest[at] = -np.inf
    others = softmax(rest, axis=1) if len(rest) else rest
    return p, np.einsum("ij,ij->i", others, cooled) - cooled[at]
