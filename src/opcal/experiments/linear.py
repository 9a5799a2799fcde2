"""A linear head on given features, trained and fine-tuned with NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from opcal.baselines.base import folds
from opcal.core.method import FloatArray, IntArray
from opcal.experiments.store import whole as written_whole
from opcal.experiments.tasks.base import Examples, Inputs

RATE, DECAY, DROPPED = 1e-3, 1e-4, 0.1
PATIENCE = 8
HELD_OUT = 5
"""One in five labels decides when fine-tuning stops."""


@dataclass(frozen=True)
class LinearModel:
    weight: FloatArray  # [K, d]
    bias: FloatArray  # [K]

    @property
    def head(self) -> tuple[FloatArray, FloatArray]:
        return self.weight, self.bias

    def outputs(self, inputs: Inputs) -> tuple[FloatArray, FloatArray]:
        z = np.asarray(inputs, np.float32)
        return z, z @ self.weight.T.astype(np.float32) + self.bias.astype(np.float32)

    def with_dropout(self, inputs: Inputs, passes: int, seed: int) -> None:
        """No part of this model drops out."""

    def fine_tuned(self, examples: Examples, seed: int, *, whole: bool, quick: bool) -> LinearModel:
        """The last layer, whatever `whole` asks: features are all that is at hand."""
        weight, bias = fine_tuned_head(
            self.weight, self.bias, np.asarray(examples.inputs, np.float32), examples.labels, seed, 15 if quick else 60
        )
        return LinearModel(weight, bias)

    def save(self, path: Path) -> None:
        with written_whole(path) as temporary, temporary.open("wb") as file:
            np.savez(file, weight=self.weight, bias=self.bias)


def load(path: Path) -> LinearModel:
    with np.load(path, allow_pickle=False) as found:
        return LinearModel(found["weight"], found["bias"])


def trained(examples: Examples, classes: int, penalty: float) -> LinearModel:
    """Logistic regression with ½·penalty·‖W‖² on the mean loss's sum, by L-BFGS."""
    z = np.asarray(examples.inputs, np.float64)
    target = np.eye(classes)[examples.labels]

    def energy(v: FloatArray) -> tuple[float, FloatArray]:
        w, b = v[classes:].reshape(classes, -1), v[:classes]
        p = softmax(z @ w.T + b, axis=1)
        loss = -np.log(np.maximum(p[target > 0], 1e-300)).sum() + 0.5 * penalty * (w**2).sum()
        slope = p - target
        return float(loss), np.append(slope.sum(0), slope.T @ z + penalty * w)

    start: Any = np.zeros(classes * (1 + z.shape[1]))
    best = minimize(energy, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    return LinearModel(best[classes:].reshape(classes, -1).astype(np.float32), best[:classes].astype(np.float32))


def fine_tuned_head(
    weight: FloatArray, bias: FloatArray, z: FloatArray, labels: IntArray, seed: int, epochs: int
) -> tuple[FloatArray, FloatArray]:
    """Adam on all rows at once with weight decay and features dropped at random; the epoch that serves held-out labels
    best is kept, the untouched head included."""
    rest, held = folds(len(labels), HELD_OUT, seed)[0] if len(labels) >= HELD_OUT else (np.arange(len(labels)),) * 2
    rng = np.random.default_rng([seed, 17])
    search = _Adam(weight, bias)
    best, least, since = (weight, bias), _loss(weight, bias, z[held], labels[held]), 0
    for _ in range(epochs):
        kept = (rng.random(z[rest].shape) >= DROPPED).astype(np.float32) / np.float32(1 - DROPPED)
        search.step(z[rest] * kept, labels[rest])
        loss = _loss(search.weight, search.bias, z[held], labels[held])
        since += 1
        if loss < least:
            best, least, since = (search.weight, search.bias), loss, 0
        if since >= PATIENCE:
            break
    return best


def _loss(weight: FloatArray, bias: FloatArray, z: FloatArray, labels: IntArray) -> float:
    p = softmax(z @ weight.T + bias, axis=1)
    return float(-np.log(np.maximum(p[np.arange(len(labels)), labels], 1e-12)).mean())


class _Adam:
    def __init__(self, weight: FloatArray, bias: FloatArray) -> None:
        self.start = weight.astype(np.float32), bias.astype(np.float32)
        self.weight, self.bias = self.start
        self.mean = [np.zeros_like(a) for a in self.start]
        self.square = [np.zeros_like(a) for a in self.start]
        self.steps = 0

    def step(self, z: FloatArray, labels: IntArray) -> None:
        slope = softmax(z @ self.weight.T + self.bias, axis=1)
        slope[np.arange(len(labels)), labels] -= 1
        slope /= len(labels)
        gradients = slope.T @ z + DECAY * (self.weight - self.start[0]), slope.sum(0)
        self.steps += 1
        self.weight, self.bias = (
            self._moved(i, value, gradient)
            for i, (value, gradient) in enumerate(zip((self.weight, self.bias), gradients, strict=True))
        )

    def _moved(self, i: int, value: FloatArray, gradient: FloatArray) -> FloatArray:
        self.mean[i] = 0.9 * self.mean[i] + 0.1 * gradient
        self.square[i] = 0.999 * self.square[i] + 0.001 * gradient**2
        m, s = self.mean[i] / (1 - 0.9**self.steps), self.square[i] / (1 - 0.999**self.steps)
        moved: FloatArray = (value - RATE * m / (np.sqrt(s) + 1e-8)).astype(np.float32)
        return moved
