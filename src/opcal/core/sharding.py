"""`method="paper"` over a pool in several places: each keeps some rows, then whole clusters, and answers questions.

Every sum and product is made on the same arrays as in one process, so the same items are chosen. That is why a place
keeps whole clusters and not a slice of each: a product over part of a cluster's rows differs in its last bits
(OpenBLAS, float32: mostly, see bench/extract.py), and near-ties between 200,000 items are decided by them.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

from opcal.core.designs import PaperChooser
from opcal.core.gp import Kernel, PoolGP
from opcal.core.kernels import CHUNK, chunks
from opcal.core.medoids import Passes, Surveyed
from opcal.core.method import FloatArray, IntArray


def cuts(n: int, shards: int) -> list[tuple[int, int]]:
    """At most `shards` nearly equal ranges of n rows, cut where chunks begin, so that sums come out the same."""
    whole = -(-n // CHUNK)
    at = [min(n, CHUNK * (whole * i // shards)) for i in range(shards + 1)]
    return [(a, b) for a, b in pairwise(at) if b > a]


def owners(sizes: IntArray, shards: int) -> IntArray:
    """Which place keeps each cluster, the largest first to the emptiest; [L]."""
    load, owner = np.zeros(shards, np.intp), np.empty(len(sizes), np.intp)
    for c in np.argsort(-sizes, kind="stable"):
        owner[c] = load.argmin()
        load[owner[c]] += sizes[c]
    return owner


class Shard:
    """Rows [start, stop) of a pool, and the posterior of some clusters."""

    def __init__(self, features: FloatArray, start: int) -> None:
        self.features, self.start = features, start
        self._parts: dict[int, list[FloatArray]] = {}
        self._posteriors: Posteriors | None = None

    # passes over the rows

    def sums(self) -> list[FloatArray]:
        """The sum of each chunk of rows, as `kernels.centre` adds them up."""
        return [self.features[rows].sum(axis=0, dtype=np.float64) for rows in chunks(len(self.features))]

    def surveyed(self, centre: FloatArray, nearest: Any) -> list[Surveyed]:
        return [part for _, part in Passes(self.features, centre).surveyed(nearest)]

    def off(self, centre: FloatArray, means: FloatArray, assignment: IntArray) -> FloatArray:
        return Passes(self.features, centre).off(means, assignment)

    def rows(self, positions: IntArray) -> FloatArray:
        """Rows at positions of the whole pool."""
        return np.asarray(self.features[positions - self.start])

    # the clusters' rows go to whoever keeps the cluster

    def members(self, clusters: list[int], assignment: IntArray) -> list[FloatArray]:
        """The rows of this slice that belong to each of these clusters."""
        return [np.asarray(self.features[np.flatnonzero(assignment == c)]) for c in clusters]

    def receive(self, clusters: list[int], parts: list[FloatArray]) -> None:
        """Rows of clusters that this place keeps, slice after slice."""
        for c, part in zip(clusters, parts, strict=True):
            self._parts.setdefault(c, []).append(part)

    def lay_out(self, origins: dict[int, FloatArray], confidence: dict[int, FloatArray], threshold: float) -> None:
        """All rows have come: relative to the medoid, as in one process."""
        points: dict[int, FloatArray] = {}
        for c, origin in origins.items():
            z = np.concatenate(self._parts.pop(c)).astype(origin.dtype, copy=False)
            points[c] = z - origin
        self._posteriors = Posteriors(points, confidence, threshold)

    def posterior(self, name: str, *arguments: Any) -> Any:
        """Call a method of `Posteriors`."""
        return getattr(self._posteriors, name)(*arguments)


class Posteriors(PaperChooser):
    """The posterior and scores of some clusters: the paper's design without the choice between clusters."""

    def __init__(self, points: dict[int, FloatArray], confidence: dict[int, FloatArray], threshold: float) -> None:
        self.threshold = threshold
        norms = {c: np.einsum("ij,ij->i", z, z) for c, z in points.items()}
        self.posteriors: Any = {c: PoolGP(z, norms[c], Kernel()) for c, z in points.items()}
        self.rows: Any = SimpleNamespace(confidence=confidence, position=lambda c, row: row)
        self._taken: Any = {c: np.zeros(len(z), dtype=bool) for c, z in points.items()}
        self._find = {}
        self._saved: dict[int, tuple[Any, Any]] = {}

    def begin(self, c: int, rows: IntArray, *arguments: Any) -> None:
        """Anew with these labels."""
        kernel, *rest = arguments
        self.posteriors[c].begin(kernel, rows, *rest)
        self._taken[c][:] = False
        self._taken[c][rows] = True

    def add(self, c: int, row: int, *arguments: Any) -> None:
        self.posteriors[c].add(row, *arguments)
        self._taken[c][row] = True

    def expect(self, c: int, row: int) -> None:
        self.posteriors[c].expect(row)
        self._taken[c][row] = True

    def save(self, c: int) -> None:
        self._saved[c] = self.posteriors[c].snapshot(), self._taken[c].copy()

    def go_back(self, c: int) -> None:
        posterior, self._taken[c][:] = self._saved.pop(c)
        self.posteriors[c].restore(posterior)

    def best(self, clusters: list[int]) -> list[tuple[float, int]]:
        """Least score and its row in each of these clusters."""
        return [self._best_of(c) for c in clusters]
