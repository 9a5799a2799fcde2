"""The design "variance": label the item that takes most doubt out of the whole pool (method.md §3).

Greedy argmax_j Σ_i w_i C_ij²/(C_jj + ν) over candidate rows; C is the posterior covariance of the kernel softmax's f
given the items that are answered or asked, w_i = 1 − Σ_c p_c² + .1, p the class probabilities of i. p is renewed
at 8, 11, 16, 23, 32, … answers by a kernel softmax of its own, so the design stands beside any method.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opcal.core.checkpoints import last_checkpoint
from opcal.core.embedding import Preparation, Seen, prepared, uniform_rows
from opcal.core.method import Answers, BoolArray, Field, FloatArray, IntArray, Learner
from opcal.core.softmax import Prior, factor, labelled, mode, of_predicted

CANDIDATES = 3000
NOISE = 4.0
"""ν: one answer says at most ¼ about a log-odds."""
DOUBT = 0.1
"""Weight that a certain item keeps."""
FIRST_RENEWAL = 8
DIGITS = 9
PRIOR = Prior(temperature=1.0, pull=0.5)


@dataclass(frozen=True)
class Variance:
    """Most doubt first; anytime, good in batches, works before the first label."""

    candidates: int = CANDIDATES

    def begin(self, field: Field, learner: Learner) -> VarianceChooser:
        return VarianceChooser(prepared(field), self.candidates)


class VarianceChooser:
    def __init__(self, preparation: Preparation, candidates: int) -> None:
        self.preparation = preparation
        self.rows = uniform_rows(preparation.field, "candidates", candidates)
        self.answers = Answers.none()
        self._doubted: tuple[int, FloatArray] = (-1, np.empty(0))

    def tell(self, answers: Answers) -> None:
        self.answers = answers

    def choose(self, k: int, pending: IntArray) -> IntArray:
        given = np.concatenate([self.answers.positions, pending]).astype(np.intp)
        noise = NOISE / np.append(self.answers.weight, np.ones(len(pending)))
        free = ~np.isin(self.rows, given)
        chosen: list[int] = []
        if k > 0 and free.any():
            covariance = self._covariance(given, noise)
            chosen = [int(self.rows[j]) for j in greedy(covariance, self._weights(), free, k)]
        return np.array(chosen + self._others(given, k - len(chosen)), dtype=np.intp)

    @cached_property
    def _seen(self) -> Seen:
        return self.preparation.see(self.rows)

    @cached_property
    def _prior(self) -> FloatArray:
        return self.preparation.kernel(self._seen, self._seen)

    def _covariance(self, given: IntArray, noise: FloatArray) -> FloatArray:
        """C [m, m] of the candidates after the items that are answered or asked."""
        if not len(given):
            return self._prior.copy()
        seen = self.preparation.see(given)
        kernel = self.preparation.kernel(seen, seen)
        kernel[np.diag_indices_from(kernel)] += noise
        cross = self.preparation.kernel(seen, self._seen)
        reduced = np.linalg.solve(np.linalg.cholesky(kernel), cross)
        left: FloatArray = self._prior - reduced.T @ reduced
        return left

    def _weights(self) -> FloatArray:
        m = last_checkpoint(len(self.answers), FIRST_RENEWAL)
        if self._doubted[0] != m:
            p = self._classes(self.answers.first(m))
            self._doubted = m, 1 - np.einsum("ij,ij->i", p, p) + DOUBT
        return self._doubted[1]

    def _classes(self, answers: Answers) -> FloatArray:
        """Class probabilities of the candidates after these answers [m, K]."""
        data = labelled(self.preparation, answers)
        kernel = self.preparation.kernel
        fit = mode(data, factor(kernel(data.seen, data.seen)), 1.0, PRIOR)
        latent = fit.latent(self._seen, kernel(self._seen, data.seen)) if len(data) else fit.base(self._seen)
        return of_predicted(latent, self._seen.predicted)[0]

    def _others(self, given: IntArray, k: int) -> list[int]:
        """Where every candidate is taken: pool rows in one random order fixed by the field."""
        if k <= 0:
            return []
        taken = np.zeros(len(self.preparation.field.pool), dtype=np.bool_)
        taken[given] = taken[self.rows] = True
        order = self.preparation.field.generator("beyond candidates").permutation(len(taken))
        return [int(j) for j in order[~taken[order]][:k]]


def greedy(covariance: FloatArray, weights: FloatArray, free: BoolArray, k: int) -> list[int]:
    """k rows of C [m, m], each the best given those before it; changes `covariance`. Ties go to the lowest row."""
    chosen: list[int] = []
    free = free.copy()
    for _ in range(min(k, int(free.sum()))):
        gain = np.einsum("i,ij,ij->j", weights, covariance, covariance)
        gain /= np.maximum(covariance.diagonal(), 0) + NOISE
        gain = np.where(free, np.round(gain / max(gain.max(), 1e-300), DIGITS), -1.0)
        j = int(gain.argmax())
        row = covariance[j] / np.sqrt(max(covariance[j, j], 0) + NOISE)
        covariance -= row[:, None] * row
        free[j] = False
        chosen.append(j)
    return chosen
