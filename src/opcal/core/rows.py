"""The pool's rows laid out cluster by cluster, so that the per-label step reads memory in one sweep."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from opcal.core.kernels import chunks
from opcal.core.method import FloatArray, IntArray

if TYPE_CHECKING:
    from opcal.core.paper import PaperLearner

IN_MEMORY = 2**26
"""Pools of more bytes than this are reordered into a temporary file; the operating system keeps of it what fits."""


class ClusterRows:
    """For each cluster its rows relative to its medoid and their squared norms; iterates over the clusters."""

    def __init__(self, learner: PaperLearner) -> None:
        self.members = learner.members
        self._cluster_of = learner.clustering.assignment
        self.confidence = [learner.field.pool.confidence[rows] for rows in self.members]
        self.medoids = [
            int(np.searchsorted(rows, j)) for rows, j in zip(self.members, learner.clustering.medoids, strict=True)
        ]
        self._parts = _laid_out(learner)
        self._norms = [np.einsum("ij,ij->i", z, z) for z in self._parts]

    def __iter__(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        return zip(self._parts, self._norms, strict=True)

    def locate(self, j: int) -> tuple[int, int]:
        """Cluster and row in it of a pool position."""
        c = int(self._cluster_of[j])
        return c, int(self.members[c].searchsorted(j))

    def grouped(self, positions: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Number, rows inside, and places in the list for each cluster that holds some of these positions."""
        at = self._cluster_of[positions]
        for c in np.unique(at).tolist():
            places = np.flatnonzero(at == c)
            yield c, self.members[c].searchsorted(positions[places]), places

    def position(self, c: int, row: int) -> int:
        return int(self.members[c][row])


def _laid_out(learner: PaperLearner) -> list[FloatArray]:
    features = learner.field.pool.features
    if features.size * learner.dtype.itemsize <= IN_MEMORY:
        return [learner.relative(features[rows], c) for c, rows in enumerate(learner.members)]
    with tempfile.TemporaryFile(prefix="opcal-") as file:
        reordered = np.memmap(file, dtype=learner.dtype, mode="w+", shape=features.shape)
    return _scatter(learner, features, reordered)


def _scatter(learner: PaperLearner, features: FloatArray, out: FloatArray) -> list[FloatArray]:
    """One sequential pass over the features; within a chunk, each cluster's rows go to their place together."""
    sizes = [len(rows) for rows in learner.members]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    filled = starts[:-1].copy()
    for chunk in chunks(len(features), 65_536):
        part = np.asarray(features[chunk])
        at = learner.clustering.assignment[chunk]
        for c in np.unique(at):
            rows = learner.relative(part[at == c], int(c))
            out[filled[c] : filled[c] + len(rows)] = rows
            filled[c] += len(rows)
    return [out[starts[c] : starts[c + 1]] for c in range(len(sizes))]
