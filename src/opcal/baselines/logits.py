"""Maps of the logits: one temperature, and a matrix that stays near it unless the labels say otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from opcal.baselines.base import Baseline, Fitted, Told, folds
from opcal.core.embedding import class_logits, n_classes
from opcal.core.method import FloatArray, IntArray, Outputs
from opcal.core.softmax import likelihood_of, of_predicted
from opcal.errors import InvalidInput, UnknownOption

WIDEST = 5.0
"""Bounds of log temperature: labels that are all right would ask for an infinitely sharp softmax."""
PENALTIES = (1e4, 1e3, 1e2, 10.0, 1.0)
RANK = 64
"""Directions of the logits that the matrix may mix: for 1,000 classes all of them cost minutes and say no more."""


class TemperatureScaling(Baseline):
    """softmax(h/T) with the T of the highest likelihood (Guo et al. 2017); `temperature_` is T.

    "Wrong" without a class adds log(1 − p). A pool without logits is read as logits that give back its confidence.
    """

    def _learn(self, told: Told) -> Fitted:
        return fit_temperature(told)

    @property
    def temperature_(self) -> float:
        return float(self.fitted_.temperature)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Cooled:
    temperature: float
    classes: int

    def __call__(self, rows: Outputs) -> FloatArray:
        h, predicted = class_logits(rows, self.classes)
        return of_predicted(h / self.temperature, predicted)[1]


def fit_temperature(told: Told) -> Cooled:
    classes = n_classes(told.pool)
    h, predicted = class_logits(told.rows, classes)

    def loss(log_t: float) -> float:
        return -likelihood_of(np.exp(-log_t) * h, told.labels, predicted, told.weight)[0]

    best = minimize_scalar(loss, bounds=(-WIDEST, WIDEST), method="bounded", options={"xatol": 1e-9}).x
    return Cooled(float(np.exp(best)), classes)


class MatrixScaling(Baseline):
    """softmax(Wh + b) by penalised maximum likelihood: Platt scaling on the logits (Guo et al. 2017).

    The penalty ½λ(‖W − I/T‖² + ‖b‖²) pulls towards temperature scaling, so that few labels of many classes do no harm;
    "auto" takes the λ that predicts held-out labels best. Predictions stay the model's own: the confidence is the new
    probability of its prediction. Above 64 classes, W − I/T mixes the 64 strongest directions of the pool's logits.
    """

    def __init__(self, *, penalty: float | str = "auto") -> None:
        self.penalty = penalty

    def _learn(self, told: Told) -> Fitted:
        if told.pool.logits is None:
            raise InvalidInput("MatrixScaling needs logits and the pool has none: take PlattScaling instead")
        search = _Search(told)
        if self.penalty == "auto":
            return search.fit(search.best_penalty())
        if not isinstance(self.penalty, (int, float)) or isinstance(self.penalty, bool) or not self.penalty >= 0:
            raise UnknownOption(f'penalty is {self.penalty!r}: expected "auto" or a number of 0 or more')
        return search.fit(float(self.penalty))


@dataclass(frozen=True)
class Mixed:
    """softmax(h/T + (h V)A' + b): W = I/T + AV'."""

    temperature: float
    directions: FloatArray  # V [K, r]
    mixing: FloatArray  # A [K, r]
    bias: FloatArray  # [K]
    penalty: float

    def latent(self, h: FloatArray) -> FloatArray:
        found: FloatArray = h / self.temperature + (h @ self.directions) @ self.mixing.T + self.bias
        return found

    def __call__(self, rows: Outputs) -> FloatArray:
        h, predicted = class_logits(rows, len(self.bias))
        return of_predicted(self.latent(h), predicted)[1]


class _Search:
    def __init__(self, told: Told) -> None:
        self.temperature = fit_temperature(told).temperature
        self.h, self.predicted = class_logits(told.rows, n_classes(told.pool))
        self.labels, self.classes = told.labels, self.h.shape[1]
        self.directions = _directions(told.pool, self.classes)

    def fit(self, penalty: float, rows: IntArray | None = None, start: Mixed | None = None) -> Mixed:
        at = np.arange(len(self.h)) if rows is None else rows
        h, labels, predicted = self.h[at], self.labels[at], self.predicted[at]
        seen, base, k = h @ self.directions, h / self.temperature, self.classes

        def energy(v: FloatArray) -> tuple[float, FloatArray]:
            mixing, bias = v[k:].reshape(k, -1), v[:k]
            fit, slope = likelihood_of(base + seen @ mixing.T + bias, labels, predicted, np.ones(len(at)))
            gradient = penalty * v
            gradient[:k] -= slope.sum(0)
            gradient[k:] -= (slope.T @ seen).ravel()
            return float(0.5 * penalty * (v @ v) - fit), gradient

        begin: Any = np.zeros(k * (1 + seen.shape[1])) if start is None else np.append(start.bias, start.mixing)
        options: Any = {"maxiter": 500 if k <= RANK else 60}
        v = minimize(energy, begin, jac=True, method="L-BFGS-B", options=options).x
        return Mixed(self.temperature, self.directions, v[k:].reshape(k, -1), v[:k], penalty)

    def best_penalty(self) -> float:
        """From strong to weak, as long as the held-out likelihood grows."""
        parts = folds(len(self.h), 5 if self.classes <= RANK else 2, seed=0)
        best, score = PENALTIES[0], -np.inf
        starts: list[Mixed | None] = [None] * len(parts)
        for penalty in PENALTIES:
            starts = [self.fit(penalty, rest, start) for (rest, _), start in zip(parts, starts, strict=True)]
            held = sum(self._held_out(fit, part) for fit, (_, part) in zip(starts, parts, strict=True))
            if held < score:
                break
            best, score = penalty, held
        return best

    def _held_out(self, fit: Mixed | None, part: IntArray) -> float:
        assert fit is not None
        return likelihood_of(fit.latent(self.h[part]), self.labels[part], self.predicted[part], np.ones(len(part)))[0]


def _directions(pool: Outputs, classes: int) -> FloatArray:
    if classes <= RANK:
        return np.eye(classes)
    h = class_logits(pool, classes)[0]
    _, vectors = np.linalg.eigh(h.T @ h)
    strongest: FloatArray = vectors[:, ::-1][:, :RANK]
    return strongest
