"""Eager medoid swaps on a matrix of distances (the loss decomposition of FasterPAM; Schubert and Rousseeuw 2021).

For a candidate x the change of loss by swapping medoid i out is shared + removal_i + correction_i: `shared` is what x
saves everywhere, `removal` what losing i costs without x, and the correction touches only items whose two nearest
medoids are farther than x. One candidate costs O(n), whatever the number of medoids.
"""

from __future__ import annotations

import numpy as np

from opcal.core.method import BoolArray, FloatArray, IntArray

PRECISION = 1e-9
"""Of the loss: smaller gains are rounding, and swapping for them might never end."""


class Swaps:
    """Medoids among c candidates, which are the first of n items; d [c, n], weights [n]."""

    def __init__(self, d: FloatArray, weights: FloatArray, medoids: list[int]) -> None:
        self.d, self.weights, self.medoids = d, weights, np.array(medoids, dtype=np.intp)
        n = d.shape[1]
        self.first, self.second = np.empty(n, np.intp), np.empty(n, np.intp)
        self.near, self.next = np.empty(n), np.empty(n)
        self._find(np.arange(n))
        self._total()

    def run(self, order: IntArray) -> IntArray:
        """Swap at every gain, candidate after candidate, until none of them gains any more."""
        quiet = 0
        while quiet < len(order):
            for x in order:
                quiet = 0 if self._improve(int(x)) else quiet + 1
                if quiet >= len(order):
                    break
        return self.medoids

    def _improve(self, x: int) -> bool:
        if self.near[x] == 0:
            return False
        medoid, change = self._best(x)
        if change >= -PRECISION * self.loss:
            return False
        self._swap(medoid, x)
        return True

    def _best(self, x: int) -> tuple[int, float]:
        """The medoid to give up for x and the change of loss that this brings."""
        rows = np.flatnonzero(self.d[x] < self.next)
        to_x, near, w = self.d[x, rows].astype(np.float64), self.near[rows], self.weights[rows]
        farther = np.maximum(to_x, near)
        change = self.removal + np.bincount(self.first[rows], w * (farther - self.next[rows]), len(self.medoids))
        medoid = int(change.argmin())
        return medoid, float(change[medoid] - w @ (farther - to_x))

    def _swap(self, medoid: int, x: int) -> None:
        self.medoids[medoid] = x
        to_x = self.d[x]
        lost: BoolArray = (self.first == medoid) | (self.second == medoid)
        nearest = ~lost & (to_x < self.near)
        between = ~lost & (to_x < self.next) & ~nearest
        self.next[between], self.second[between] = to_x[between], medoid
        self.next[nearest], self.second[nearest] = self.near[nearest], self.first[nearest]
        self.near[nearest], self.first[nearest] = to_x[nearest], medoid
        self._find(np.flatnonzero(lost))
        self._total()

    def _find(self, rows: IntArray) -> None:
        """The two nearest medoids of these items."""
        part, at = self.d[np.ix_(self.medoids, rows)], np.arange(len(rows))
        for which, distance in ((self.first, self.near), (self.second, self.next)):
            which[rows] = part.argmin(0)
            distance[rows] = part[which[rows], at]
            part[which[rows], at] = np.inf

    def _total(self) -> None:
        self.removal = np.bincount(self.first, self.weights * (self.next - self.near), len(self.medoids))
        self.loss = float(self.weights @ self.near)


def spread_seeds(d: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator) -> list[int]:
    """Up to k candidates, each drawn with probability by its distance from those before; all distinct points."""
    candidates = len(d)
    seeds = [int(_draw(weights[:candidates], rng))]
    distance = d[seeds[0], :candidates].astype(np.float64)
    while len(seeds) < k and distance.any():
        seeds.append(int(_draw(weights[:candidates] * distance, rng)))
        np.minimum(distance, d[seeds[-1], :candidates], out=distance)
    return seeds


def _draw(mass: FloatArray, rng: np.random.Generator) -> np.intp:
    return np.argmax(mass / rng.standard_exponential(len(mass)))


def best_medoids(
    d: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator, start: list[int] | None = None
) -> IntArray:
    """At most k medoids among the candidates, no single swap of which lowers Σ w_j min_i d_ij."""
    seeds = spread_seeds(d, weights, k, rng) if start is None else start
    if len(seeds) == 1:
        return np.array([int((d @ weights.astype(d.dtype)).argmin())])
    return Swaps(d, weights, seeds).run(rng.permutation(len(d)))
