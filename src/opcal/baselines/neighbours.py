"""Nearest labelled neighbours: how often they were right, and the credibility of deep k-nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from opcal.baselines.base import Baseline, Fitted, Told, whole
from opcal.baselines.reference import Distances, distances_to
from opcal.baselines.scalar import platt
from opcal.core.method import BoolArray, FloatArray, IntArray, Outputs
from opcal.errors import UnknownOption

NEIGHBOURS = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80)


class NearestNeighbours(Baseline):
    """The share of right predictions among the k nearest labelled items, drawn to the mean of all by two of them.

    `k="auto"` takes the k of the least squared error when every labelled item is predicted from the others.
    """

    def __init__(self, *, k: int | str = "auto") -> None:
        self.k = k

    def _learn(self, told: Told) -> Fitted:
        correct = told.correct.astype(float)
        distances = distances_to(told.rows.features, skip_self=True)
        shares = Shares(distances, correct, float((correct.sum() + 1) / (len(correct) + 2)), 1)
        if self.k != "auto":
            return Shares(distances, correct, shares.mean, min(number_of(self.k), len(told)))
        order = shares.order(told.rows.features, min(max(NEIGHBOURS), len(told)))
        tried = [k for k in NEIGHBOURS if k <= order.shape[1]]
        best = min(tried, key=lambda k: float(((shares.among(order[:, :k]) - correct) ** 2).sum()))
        return Shares(distances, correct, shares.mean, best)


def number_of(k: int | str) -> int:
    if isinstance(k, str):
        raise UnknownOption(f'k is {k!r}: expected "auto" or a whole number of 1 or more')
    return whole("k", k, 1)


@dataclass(frozen=True)
class Shares:
    distances: Distances
    correct: FloatArray  # [n]
    mean: float
    k: int

    def order(self, features: FloatArray, k: int) -> IntArray:
        """The k nearest labelled items [N, k], the nearest first; ties go to the one told first."""
        return nearest(self.distances, features, k)

    def among(self, neighbours: IntArray) -> FloatArray:
        share: FloatArray = (self.correct[neighbours].sum(1) + 2 * self.mean) / (neighbours.shape[1] + 2)
        return share

    def __call__(self, rows: Outputs) -> FloatArray:
        return self.among(self.order(rows.features, self.k))


def nearest(distances: Distances, features: FloatArray, k: int) -> IntArray:
    found = np.empty((len(features), k), dtype=np.intp)
    for block, d2 in distances.blocks(features):
        found[block] = np.argsort(d2, axis=1, kind="stable")[:, :k]
    return found


class DeepNeighbours(Baseline):
    """Deep k-nearest neighbours (Papernot and McDaniel 2018) over the representation.

    Nonconformity of a class: how many of the k nearest labelled items (by the angle) have another one. Its p-value
    among the labelled items' nonconformity with their own class is the credibility. A credibility is not a
    probability: Platt's sigmoid maps its logarithm to "was it right?", with every labelled item left out of its own.
    """

    def __init__(self, *, k: int = 10) -> None:
        self.k = k

    def _learn(self, told: Told) -> Fitted:
        k = max(1, min(whole("k", self.k, 1), len(told) - 1))
        rows = told.rows
        distances = distances_to(directions(rows.features), skip_self=True)
        around = told.labels[nearest(distances, directions(rows.features), k)]
        # Of an item that is only known to be wrong, no class is known: it conforms with none.
        own = np.sort((around != told.labels[:, None]).sum(1))
        alike = (around != rows.predicted[:, None]).sum(1)
        slope, intercept = platt(np.log(credibility(own, alike, told.correct)), told.correct)
        return Credible(distances, told.labels, own, k, slope, intercept)


def credibility(own: IntArray, nonconformity: IntArray, among: BoolArray | None = None) -> FloatArray:
    """(#{own ≥ a} + 1) / (n + 1), own sorted; rows marked in `among` do not count themselves."""
    at_least = len(own) - np.searchsorted(own, nonconformity, side="left") + 1.0
    n = np.full(len(nonconformity), len(own) + 1.0)
    if among is not None:
        at_least, n = at_least - among, n - among
    found: FloatArray = at_least / n
    return found


def directions(features: FloatArray) -> FloatArray:
    z = np.asarray(features, np.float64)
    unit: FloatArray = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
    return unit


@dataclass(frozen=True)
class Credible:
    distances: Distances
    labels: IntArray  # [n]
    own: IntArray  # [n], sorted nonconformity of the labelled items with their own class
    k: int
    slope: float
    intercept: float

    def credibility(self, rows: Outputs) -> FloatArray:
        around = self.labels[nearest(self.distances, directions(rows.features), self.k)]
        return credibility(self.own, (around != rows.predicted[:, None]).sum(1))

    def __call__(self, rows: Outputs) -> FloatArray:
        found: FloatArray = expit(self.slope * np.log(self.credibility(rows)) + self.intercept)
        return found
