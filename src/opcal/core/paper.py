"""`method="paper"`: Algorithm 1 of Li et al. 2020, one Gaussian process on I − c in each cluster (method.md §1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from opcal.core.evidence import grouped, maximise
from opcal.core.gp import Fitted, Kernel
from opcal.core.kernels import chunks, median_distance, squared_distances
from opcal.core.medoids import Clustering
from opcal.core.method import Answers, Field, FloatArray, IntArray, Outputs
from opcal.core.pathwise import Pathwise
from opcal.core.posterior import Posterior
from opcal.core.truncnorm import TruncatedNormal, location_for_mean, moments
from opcal.errors import UnknownOption

SMALL = 2**18
"""Pools of at most this many numbers are worked on in float64 whatever their dtype."""
ROWS = 8192


@dataclass(frozen=True)
class Paper:
    """The paper's method.

    `hyperparameters="likelihood"` re-estimates the amplitude and one multiplier of the clusters' lengths on exactly
    the first L, 2L, 4L, ... labels (L clusters). `"fixed"` keeps amplitude 1 and each cluster's median distance: it
    can do harm at few labels (Brier .22 against .15 untouched on `t5_pacs_art` of the benchmarks).
    `noise` is the variance v of an observed residual.
    """

    hyperparameters: Literal["likelihood", "fixed"] = "likelihood"
    noise: float = 0.1

    def begin(self, field: Field) -> PaperLearner:
        if self.hyperparameters not in ("likelihood", "fixed"):
            raise UnknownOption(f'hyperparameters is {self.hyperparameters!r}: expected "likelihood" or "fixed"')
        if not isinstance(self.noise, (int, float)) or not 0 <= self.noise < np.inf:
            raise UnknownOption(f"noise is {self.noise!r}: expected a variance, 0 or more")
        return PaperLearner(self, field)


class PaperLearner:
    """The clusters' Gaussian processes given all answers so far."""

    def __init__(self, method: Paper, field: Field) -> None:
        self.method, self.field = method, field
        self.answers = Answers.none()
        self._estimates: dict[int, tuple[float, float]] = {}

    @property
    def clustering(self) -> Clustering:
        return self.field.clustering

    @cached_property
    def dtype(self) -> np.dtype[np.floating]:
        features = self.field.pool.features
        exact = features.dtype == np.float64 or features.size <= SMALL
        return np.dtype(np.float64 if exact else np.float32)

    @cached_property
    def lengths(self) -> FloatArray:
        """ℓ_c [L], the median distance within each cluster; the pool's where a cluster has no two distinct members."""
        rng = self.field.generator("lengths")
        pool = self.field.pool.features
        some = pool if len(pool) <= 1000 else pool[np.sort(rng.choice(len(pool), 1000, replace=False))]
        fallback = median_distance(np.asarray(some), rng) or 1.0
        inside = [median_distance(self._sample(c, rng), rng) for c in range(self.n_clusters)]
        return np.array([length or fallback for length in inside])

    def _sample(self, c: int, rng: np.random.Generator, limit: int = 1000) -> FloatArray:
        members = self.members[c]
        if len(members) > limit:
            members = np.sort(rng.choice(members, limit, replace=False))
        return self.relative(self.field.pool.features[members], c)

    @property
    def n_clusters(self) -> int:
        return len(self.clustering.medoids)

    @cached_property
    def members(self) -> list[IntArray]:
        """Pool positions of each cluster, ascending."""
        order = np.argsort(self.clustering.assignment, kind="stable")
        ends = np.cumsum(np.bincount(self.clustering.assignment, minlength=self.n_clusters))
        return np.split(order, ends[:-1])

    def relative(self, features: FloatArray, c: int) -> FloatArray:
        """Rows of cluster c relative to its medoid: small numbers, which keep squared distances exact in float32."""
        origin = self.field.pool.features[self.clustering.medoids[c]]
        shifted: FloatArray = features.astype(self.dtype, copy=False) - origin.astype(self.dtype, copy=False)
        return shifted

    def tell(self, answers: Answers) -> None:
        self.answers = answers
        self.__dict__.pop("experts", None)

    def kernels(self, n: int) -> list[Kernel]:
        """The clusters' kernels as n answers leave them."""
        amplitude, multiplier = self._estimate(self.checkpoint(n))
        return [Kernel(amplitude, float(length) * multiplier, self.method.noise) for length in self.lengths]

    def checkpoint(self, n: int) -> int:
        """The largest of L, 2L, 4L, ... labels not above n, or 0: the labels that the estimate rests on."""
        if self.method.hyperparameters == "fixed" or n < self.n_clusters:
            return 0
        return self.n_clusters << ((n // self.n_clusters).bit_length() - 1)

    def _estimate(self, n: int) -> tuple[float, float]:
        if n == 0:
            return 1.0, 1.0
        if n not in self._estimates:
            # Half as many labels are near the answer and, being a checkpoint too, the same however calls are cut.
            near = self._estimate(n // 2 if n > self.n_clusters else 0)
            groups = grouped(*self._labelled_distances(self.answers.first(n)))
            self._estimates[n] = maximise(groups, max(self.method.noise, 1e-8), near)
        return self._estimates[n]

    def _labelled_distances(self, answers: Answers) -> tuple[list[FloatArray], ...]:
        distances, residuals, weights = [], [], []
        for c, (points, y, w) in enumerate(self._by_cluster(answers)):
            distances.append(squared_distances(points, points) / self.lengths[c] ** 2)
            residuals.append(y)
            weights.append(w)
        return distances, residuals, weights

    def _by_cluster(self, answers: Answers) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """Labelled points, relative to their medoid, residuals I − c and weights by cluster, in the order told."""
        at = self.clustering.assignment[answers.positions]
        residual = answers.correct - self.field.pool.confidence[answers.positions]
        rows = [np.flatnonzero(at == c) for c in range(self.n_clusters)]
        return [
            (self.relative(self.field.pool.features[answers.positions[r]], c), residual[r], answers.weight[r])
            for c, r in enumerate(rows)
        ]

    @cached_property
    def experts(self) -> list[Fitted | None]:
        """Each cluster's Gaussian process; None where nothing is labelled."""
        kernels = self.kernels(len(self.answers))
        parts = self._by_cluster(self.answers)
        return [Fitted.fit(z, y, w, k) if len(y) else None for (z, y, w), k in zip(parts, kernels, strict=True)]

    def predict(self, rows: Outputs) -> Posterior:
        """Truncated normals; where a row's cluster has no label, the mean is the model's own confidence."""
        at, mean, sd, location, scale = self._moments(rows)
        draws = Pathwise(self, rows, at)
        return Posterior(mean, sd, TruncatedNormal(location, scale), draws)

    def _moments(self, rows: Outputs) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        at = np.empty(len(rows), dtype=np.intp)
        correction, variance = np.empty(len(rows)), np.empty(len(rows))
        for chunk in chunks(len(rows), ROWS):
            features = rows.features[chunk]
            at[chunk] = self.clustering.assign(features)
            correction[chunk], variance[chunk] = self._correct(features, at[chunk])
        location, scale = rows.confidence + correction, np.sqrt(variance)
        mean, sd = moments(location, scale)
        unlabelled = np.array([expert is None for expert in self.experts])[at]
        if unlabelled.any():
            c = rows.confidence[unlabelled]
            location[unlabelled] = location_for_mean(c, scale[unlabelled])
            sd[unlabelled] = moments(location[unlabelled], scale[unlabelled])[1]
            mean[unlabelled] = c
        return at, mean, sd, location, scale

    def _correct(self, features: FloatArray, at: IntArray) -> tuple[FloatArray, FloatArray]:
        """μ and σ² of I − c for rows whose clusters are given."""
        amplitude = self.kernels(len(self.answers))[0].amplitude
        correction, variance = np.zeros(len(at)), np.full(len(at), amplitude)
        order = np.argsort(at, kind="stable")
        ends = np.cumsum(np.bincount(at, minlength=self.n_clusters))
        for c, rows in enumerate(np.split(order, ends[:-1])):
            expert = self.experts[c]
            if expert is not None and len(rows):
                z = self.relative(features[rows], c)
                correction[rows], variance[rows] = expert.moments(z, np.einsum("ij,ij->i", z, z))
        return correction, variance
