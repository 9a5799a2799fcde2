"""Surprise adequacy (Kim, Feldt and Yoo 2019): how unlike the training data an item is, and what that says of I − c."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from opcal.baselines.base import Baseline, Fitted, Told, chosen, whole
from opcal.baselines.reference import Distances, Reference, distances_to, reference_of
from opcal.core.kernels import chunks
from opcal.core.method import FloatArray, IntArray, Outputs
from opcal.pool import Pool

DIMENSIONS = 12
"""Directions that the density is estimated in: with as many as features, its covariance has no inverse."""
FEW = 2 * DIMENSIONS
"""A class with fewer reference items is compared with all of them."""


class SurpriseAdequacy(Baseline):
    """c + a polynomial of an item's surprise, fitted to I − c by least squares.

    `kind="likelihood"`: −log of the kernel density (Scott's bandwidth) of the reference items of the predicted class,
    in at most 12 whitened principal directions. `kind="distance"`: the distance to the nearest reference item of the
    predicted class over that one's distance to the nearest item of another class. `reference=` is a pool of training
    items; without one, the field pool's own confident items stand in for them, and `reference_` says so.
    """

    def __init__(self, *, kind: str = "likelihood", degree: int = 3, reference: Pool | None = None) -> None:
        self.kind = kind
        self.degree = degree
        self.reference = reference

    def _learn(self, told: Told) -> Fitted:
        degree = whole("degree", self.degree, 1)
        reference = reference_of(told, self.reference)
        by_likelihood = chosen("kind", self.kind, ("likelihood", "distance")) == "likelihood"
        surprise = likelihood_surprise(reference) if by_likelihood else distance_surprise(reference)
        return fit_polynomial(surprise, told, degree, reference.told)

    @property
    def reference_(self) -> str:
        """What the items were compared with, in words."""
        return str(self.fitted_.reference)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Polynomial:
    """c + Σ_p a_p u^p, u the surprise between its least (−1) and largest (1) labelled value."""

    surprise: LikelihoodSurprise | DistanceSurprise
    coefficients: FloatArray
    low: float
    high: float
    reference: str

    def scaled(self, surprise: FloatArray) -> FloatArray:
        """Beyond the labelled range the polynomial would run away: held at its ends."""
        width = max(self.high - self.low, 1e-12)
        return 2 * (np.clip(surprise, self.low, self.high) - self.low) / width - 1

    def __call__(self, rows: Outputs) -> FloatArray:
        found: FloatArray = rows.confidence + np.polynomial.polynomial.polyval(
            self.scaled(self.surprise(rows)), self.coefficients
        )
        return found


def fit_polynomial(
    surprise: LikelihoodSurprise | DistanceSurprise, told: Told, degree: int, reference: str
) -> Polynomial:
    values = surprise(told.rows)
    empty = Polynomial(surprise, np.zeros(1), float(values.min()), float(values.max()), reference)
    powers = np.vander(empty.scaled(values), degree + 1, increasing=True)
    fitted = np.linalg.lstsq(powers, told.residual, rcond=1e-9)[0]
    return Polynomial(surprise, fitted, empty.low, empty.high, reference)


@dataclass(frozen=True)
class LikelihoodSurprise:
    """−log (1/m) Σ_j N(x; x_j, h²I) over the m reference items of the predicted class."""

    centre: FloatArray  # [d]
    directions: FloatArray  # [d, r], whitening
    points: FloatArray  # [m, r]
    predicted: IntArray  # [m]
    leave_self_out: bool

    def __call__(self, rows: Outputs) -> FloatArray:
        found = np.empty(len(rows))
        for block in chunks(len(rows), 4096):
            x = (np.asarray(rows.features[block], np.float64) - self.centre) @ self.directions
            predicted = rows.predicted[block]
            for c in np.unique(predicted):
                at = np.flatnonzero(predicted == c)
                found[block.start + at] = self._of_class(x[at], int(c))
        return found

    def _of_class(self, x: FloatArray, c: int) -> FloatArray:
        members = np.flatnonzero(self.predicted == c)
        points = self.points[members] if len(members) >= FEW else self.points
        width = len(points) ** (-1 / (points.shape[1] + 4))
        d2 = (x**2).sum(1)[:, None] + (points**2).sum(1) - 2 * x @ points.T
        logs = -0.5 * np.maximum(d2, 0) / width**2
        if self.leave_self_out and len(points) > 1:
            logs[d2 <= 1e-9] = -np.inf
        # An item whose every neighbour is itself would have no density at all.
        total = np.maximum(logsumexp(logs, axis=1), -1e6)
        surprise: FloatArray = np.log(len(points)) + points.shape[1] * np.log(width) - total
        return surprise


def likelihood_surprise(reference: Reference) -> LikelihoodSurprise:
    z = np.asarray(reference.features, np.float64)
    middle = z.mean(0)
    _, singular, vectors = np.linalg.svd(z - middle, full_matrices=False)
    kept = singular[:DIMENSIONS] > 1e-9 * max(float(singular[0]), 1e-300)
    deviations = singular[:DIMENSIONS][kept] / np.sqrt(max(len(z) - 1, 1))
    directions = vectors[:DIMENSIONS][kept].T / deviations
    points = (z - middle) @ directions
    return LikelihoodSurprise(middle, directions, points, reference.predicted, reference.of_field)


@dataclass(frozen=True)
class DistanceSurprise:
    distances: Distances
    predicted: IntArray  # [m]
    other: FloatArray  # [m], squared distance of each reference item to the nearest one of another class

    def __call__(self, rows: Outputs) -> FloatArray:
        found = np.empty(len(rows))
        for block, d2 in self.distances.blocks(rows.features):
            same = np.where(rows.predicted[block][:, None] == self.predicted, d2, np.inf)
            # A class that no reference item has is compared with all of them.
            near = np.where(np.isfinite(same.min(1, keepdims=True)), same, d2)
            nearest = near.argmin(1)
            own = near[np.arange(len(near)), nearest]
            found[block] = np.sqrt(np.where(np.isfinite(own), own, 0) / np.maximum(self.other[nearest], 1e-12))
        return found


def distance_surprise(reference: Reference) -> DistanceSurprise:
    distances = distances_to(reference.features, skip_self=reference.of_field)
    other = np.empty(len(reference))
    for block, d2 in distances.blocks(reference.features):
        alike = reference.predicted[block][:, None] == reference.predicted
        other[block] = np.where(alike, np.inf, d2).min(1)
    alone = ~np.isfinite(other)
    other[alone] = 1.0 if alone.all() else other[~alone].mean()
    return DistanceSurprise(distances, reference.predicted, other)
