"""Density-aware scaling: items far from what the model knows are cooled more (after Tomani et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from opcal.baselines.base import Baseline, Fitted, Told, whole
from opcal.baselines.logits import fit_temperature
from opcal.baselines.reference import Distances, distances_to, reference_of
from opcal.core.embedding import class_logits, n_classes
from opcal.core.method import FloatArray, Outputs
from opcal.core.softmax import likelihood_of, of_predicted
from opcal.pool import Pool

PRIOR = 1.0
"""Weight of ½(slope)², in nats: one label alone says nothing of how heat grows with distance."""


class DensityAwareScaling(Baseline):
    """softmax(h/T(z)), log T = a + b·s, s the standardised log distance to the k nearest reference items.

    Fitted by maximum likelihood, b held back by ½b². `reference=` is a pool of training items; without one, the field
    pool's own confident items stand in for them, and `reference_` says so.
    """

    def __init__(self, *, k: int = 10, reference: Pool | None = None) -> None:
        self.k = k
        self.reference = reference

    def _learn(self, told: Told) -> Fitted:
        reference = reference_of(told, self.reference)
        k = min(whole("k", self.k, 1), len(reference))
        distance = LogDistance(distances_to(reference.features, skip_self=reference.of_field), k)
        s = distance(told.rows)
        spread = float(s.std()) or 1.0
        log_t, slope = self._search(told, (s - s.mean()) / spread)
        heat = slope / spread
        return Heated(distance, log_t - heat * float(s.mean()), heat, n_classes(told.pool), reference.told)

    def _search(self, told: Told, s: FloatArray) -> tuple[float, float]:
        cooled = fit_temperature(told)
        h, predicted = class_logits(told.rows, cooled.classes)

        def energy(v: FloatArray) -> tuple[float, FloatArray]:
            colder = np.exp(-(v[0] + v[1] * s))[:, None] * h
            fit, slope = likelihood_of(colder, told.labels, predicted, told.weight)
            each = (slope * colder).sum(1)
            return float(0.5 * PRIOR * v[1] ** 2 - fit), np.array([each.sum(), each @ s + PRIOR * v[1]])

        start = np.array([np.log(cooled.temperature), 0.0])
        bounds = [(-5.0, 5.0), (-3.0, 3.0)]
        a, b = minimize(energy, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return float(a), float(b)

    @property
    def reference_(self) -> str:
        """What the items were compared with, in words."""
        return str(self.fitted_.reference)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class LogDistance:
    distances: Distances
    k: int

    def __call__(self, rows: Outputs) -> FloatArray:
        found = np.empty(len(rows))
        for block, d2 in self.distances.blocks(rows.features):
            near = np.sqrt(np.partition(d2, self.k - 1, axis=1)[:, : self.k])
            finite = np.isfinite(near)
            mean = np.where(finite, near, 0).sum(1) / np.maximum(finite.sum(1), 1)
            found[block] = np.log(np.maximum(mean, 1e-6))
        return found


@dataclass(frozen=True)
class Heated:
    distance: LogDistance
    intercept: float
    slope: float
    classes: int
    reference: str

    def __call__(self, rows: Outputs) -> FloatArray:
        h, predicted = class_logits(rows, self.classes)
        log_t = np.clip(self.intercept + self.slope * self.distance(rows), -8.0, 8.0)
        return of_predicted(np.exp(-log_t)[:, None] * h, predicted)[1]
