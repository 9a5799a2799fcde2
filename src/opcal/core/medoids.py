"""k-medoids without an n² matrix (method.md §6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from opcal.core.kernels import (
    Block,
    FloatArray,
    IntArray,
    Nearest,
    centre,
    chunks,
    squared_distances,
    squared_norms,
    working_dtype,
)
from opcal.core.swaps import best_medoids

WHOLE = 5000
"""Up to so many rows every pair of them is measured; above, so many at most are sampled."""
JUDGES = 20_000
"""Rows that judge the candidates of a round: all up to this number, else a weighted sample."""
CENTRAL, FAR, DRAWN = 900, 150, 150
"""Candidates of a round: nearest the means of their clusters, farthest from their medoids, drawn by distance."""
ROUNDS = 10
"""Most rounds up to 200,000 rows, 2 above. A Gaussian needs one; on a noisy plane the loss over full FasterPAM's is
1.012 after one, then 1.008, 1.006, 1.005."""
_CELLS = 1 << 25
"""Most distances held at once in a round (134 MB of float32)."""


@dataclass(frozen=True)
class Clustering:
    """L rows of a pool that stand for the others, and who belongs to whom."""

    medoids: IntArray  # [L] pool positions, ascending
    assignment: IntArray  # [N], which of the L
    centre: FloatArray  # [d] float64, what features are centred by
    points: FloatArray  # [L, d] float64, the medoids' rows, centred
    loss: float  # Σ_i ‖z_i − its medoid‖

    @cached_property
    def nearest(self) -> Nearest:
        return Nearest(self.centre, self.points)

    def assign(self, features: FloatArray) -> IntArray:
        """The nearest medoid [M] of any rows [M, d] of the same model; a pool row gets its `assignment`."""
        out = np.empty(len(features), np.intp)
        for rows, block in self.nearest.blocks(features):
            out[rows] = block.nearest
        return out


def cluster(features: FloatArray, k: int, rng: np.random.Generator) -> Clustering:
    """At most k medoids of features [N, d], possibly memory-mapped; never more than there are distinct rows.

    Up to 5,000 rows: k-medoids by eager swaps. Above: the same on a sample, then rounds in which rows of the whole
    pool apply to be medoids (`_candidates`) and all rows, or 20,000 weighted to stand for all (`_judges`), decide.
    """
    pool: Passes = features.passes() if hasattr(features, "passes") else local_passes(features)
    if len(features) <= WHOLE:
        return _survey(pool, _among(pool, np.arange(len(features)), k, rng)).clustering
    sample = np.sort(rng.choice(len(features), min(WHOLE, max(WHOLE // 2, 50 * k)), replace=False))
    found = _survey(pool, _among(pool, sample, k, rng, starts=3))
    for _ in range(ROUNDS if len(features) <= 10 * JUDGES else 2):
        tried = _survey(pool, _refined(pool, found, k, rng))
        gain = found.clustering.loss - tried.clustering.loss
        found = tried if gain > 0 else found
        if gain <= 3e-4 * found.clustering.loss:
            break
    return found.clustering


class Passes(NamedTuple):
    features: FloatArray  # [N, d] as given
    centre: FloatArray  # [d] in the working precision

    def centred(self, rows: IntArray | slice) -> FloatArray:
        out: FloatArray = np.subtract(self.features[rows], self.centre, dtype=self.centre.dtype)
        return out

    def surveyed(self, nearest: Nearest) -> Iterator[tuple[slice, Surveyed]]:
        """A pass over all rows: who is nearest to which medoid; a sharded pool makes it where the rows are."""
        points = nearest.points.astype(self.centre.dtype)
        return ((rows, surveyed(block, points)) for rows, block in nearest.blocks(self.features))

    def off(self, means: FloatArray, assignment: IntArray) -> FloatArray:
        """Squared distance [N] of each row to its cluster's mean; another pass."""
        off = np.empty(len(assignment), self.centre.dtype)
        for rows in chunks(len(off)):
            off[rows] = squared_norms(self.centred(rows) - means[assignment[rows]])
        return off


class Surveyed(NamedTuple):
    """A block of rows after a survey."""

    nearest: IntArray  # [B]
    distances: FloatArray  # [B] to the nearest medoid
    sums: FloatArray  # [L, d] of each cluster's centred rows in the block


def surveyed(block: Block, points: FloatArray) -> Surveyed:
    distances = np.sqrt(squared_norms(block.centred - points[block.nearest]))
    members = np.equal.outer(np.arange(len(points)), block.nearest).astype(points.dtype)
    return Surveyed(block.nearest, distances, members @ block.centred)


def local_passes(features: FloatArray) -> Passes:
    return Passes(features, centre(features).astype(working_dtype(features)))


class _Survey(NamedTuple):
    """Everybody with the nearest medoid."""

    clustering: Clustering
    distances: FloatArray  # [N] to the own medoid
    means: FloatArray  # [L, d] of each cluster's centred rows


def _survey(pool: Passes, medoids: IntArray) -> _Survey:
    medoids = np.sort(medoids)
    mean = pool.centre.astype(np.float64)
    nearest = Nearest(mean, pool.features[medoids].astype(np.float64) - mean)
    points = nearest.points.astype(pool.centre.dtype)
    assignment, distances = np.empty(len(pool.features), np.intp), np.empty(len(pool.features), points.dtype)
    sums = np.zeros(points.shape)
    for rows, part in pool.surveyed(nearest):
        assignment[rows], distances[rows] = part.nearest, part.distances
        sums += part.sums
    loss = float(distances.sum(dtype=np.float64))
    sums /= np.bincount(assignment, minlength=len(medoids))[:, None].clip(1)
    return _Survey(Clustering(medoids, assignment, mean, nearest.points, loss), distances, sums.astype(points.dtype))


def _among(pool: Passes, rows: IntArray, k: int, rng: np.random.Generator, starts: int = 1) -> IntArray:
    """The medoids of these rows alone, the best of some starts (one start: 1.012 times FasterPAM's loss at worst)."""
    x = pool.centred(rows)
    distances = _distances(x, x)
    found = [best_medoids(distances, np.ones(len(x)), k, rng) for _ in range(starts)]
    return rows[min(found, key=lambda medoids: float(distances[medoids].min(axis=0).sum(dtype=np.float64)))]


def _refined(pool: Passes, found: _Survey, k: int, rng: np.random.Generator) -> IntArray:
    """Better medoids: swaps between the present ones and the candidates, as the judges see them."""
    candidates = _candidates(pool, found, rng)
    others, stand_for = _judges(found.distances, candidates, min(JUDGES, _CELLS // len(candidates)), rng)
    distances = _distances(pool.centred(candidates), pool.centred(np.concatenate([candidates, others])))
    weights = np.concatenate([np.ones(len(candidates)), stand_for])
    start = _refilled(distances, len(found.clustering.medoids), k, rng)
    return candidates[best_medoids(distances, weights, k, rng, start)]


def _refilled(distances: FloatArray, held: int, k: int, rng: np.random.Generator) -> list[int]:
    """The first `held` candidates and, where a sample full of duplicates gave fewer than k, distinct ones far off."""
    chosen = list(range(held))
    gap = distances[:held, : len(distances)].min(axis=0)
    while len(chosen) < k and gap.any():
        chosen.append(int(np.argmax(gap / rng.standard_exponential(len(gap)))))
        np.minimum(gap, distances[chosen[-1], : len(gap)], out=gap)
    return chosen


def _distances(x: FloatArray, y: FloatArray) -> FloatArray:
    d2 = squared_distances(x, y)
    return np.sqrt(d2, out=d2)


def _candidates(pool: Passes, found: _Survey, rng: np.random.Generator) -> IntArray:
    """The medoids, then members nearest each cluster's mean, the farthest rows, and rows drawn by distance.

    The first are what a sample lacks in high dimension (a Gaussian of 64: loss 1.017 times FasterPAM's, then 1.000),
    the farthest what it lacks under heavy tails (Cauchy: 1.6, then 1.000).
    """
    medoids, distances = found.clustering.medoids, found.distances
    central = _central(pool, found, max(1, CENTRAL // len(medoids)))
    drawn = _largest(distances / rng.standard_exponential(len(distances)), DRAWN)
    others = np.unique(np.concatenate([central, _largest(distances, FAR), drawn]))
    return np.concatenate([medoids, np.setdiff1d(others, medoids, assume_unique=True)])


def _largest(values: FloatArray, count: int) -> IntArray:
    return np.argpartition(values, -min(count, len(values)))[-count:]


def _central(pool: Passes, found: _Survey, count: int) -> IntArray:
    """The `count` members nearest the mean of each cluster."""
    assignment = found.clustering.assignment
    order = np.lexsort((pool.off(found.means, assignment), assignment))
    rank = np.arange(len(order)) - np.searchsorted(assignment[order], assignment[order])
    return order[rank < count]


def _judges(
    distances: FloatArray, candidates: IntArray, size: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Other rows than the candidates and how many each stands for: all, or about `size` judges with the candidates.

    A row is kept with probability π, half of it even, half proportional to its distance, and weighs 1/π.
    """
    rest = np.setdiff1d(np.arange(len(distances)), candidates, assume_unique=True)
    wanted = max(size - len(candidates), 1000)
    if len(rest) <= wanted:
        return rest, np.ones(len(rest))
    far = distances[rest].astype(np.float64)
    chance = np.minimum(1, wanted * (0.5 / len(rest) + 0.5 * far / (far.sum() or 1)))
    kept = rng.random(len(rest)) < chance
    return rest[kept], 1 / chance[kept]
