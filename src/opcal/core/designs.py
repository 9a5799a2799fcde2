"""Which item next: the designs "random", "kmeans" and "paper" (section 4.4 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opcal.core.gp import Kernel, PoolGP
from opcal.core.medoids import cluster
from opcal.core.method import Answers, BoolArray, Field, FloatArray, IntArray, Learner
from opcal.core.paper import Paper, PaperLearner
from opcal.core.rows import ClusterRows
from opcal.core.step import NEVER, Find, finder


@dataclass(frozen=True)
class Random:
    """Uniformly at random, in one order fixed at the beginning."""

    def begin(self, field: Field, learner: Learner) -> RandomChooser:
        return RandomChooser(field.generator("random design").permutation(len(field.pool)))


class RandomChooser:
    def __init__(self, order: IntArray) -> None:
        self.order = order
        self.answers = Answers.none()

    def tell(self, answers: Answers) -> None:
        self.answers = answers

    def choose(self, k: int, pending: IntArray) -> IntArray:
        free = ~taken(len(self.order), self.answers, pending)
        return self.order[free[self.order]][:k]


@dataclass(frozen=True)
class KMeans:
    """Medoids of as many clusters as the budget has labels; without a budget, of those that hold no label yet."""

    def begin(self, field: Field, learner: Learner) -> KMeansChooser:
        return KMeansChooser(field)


class KMeansChooser:
    def __init__(self, field: Field) -> None:
        self.field = field
        self.answers = Answers.none()

    def tell(self, answers: Answers) -> None:
        self.answers = answers

    def choose(self, k: int, pending: IntArray) -> IntArray:
        used = taken(len(self.field.pool), self.answers, pending)
        chosen = [j for j in self._for_budget if not used[j]][:k]
        while len(chosen) < k and not used.all():
            used[chosen] = True
            chosen += self._medoids_of_empty(used, k - len(chosen))
        return np.array(chosen, dtype=np.intp)

    @cached_property
    def _for_budget(self) -> IntArray:
        """Medoids of `budget` clusters, the largest cluster's first, so that a prefix of the order is good as well."""
        if self.field.budget is None:
            return np.empty(0, dtype=np.intp)
        found = cluster(self.field.pool.features, self.field.budget, self.field.generator("kmeans design"))
        largest_first: IntArray = found.medoids[_by_size(found.assignment, len(found.medoids))]
        return largest_first

    def _medoids_of_empty(self, used: BoolArray, k: int) -> list[int]:
        wanted = min(int(used.sum()) + k, len(used))
        found = cluster(self.field.pool.features, wanted, self.field.generator(f"kmeans design {wanted}"))
        empty = np.bincount(found.assignment[used], minlength=len(found.medoids)) == 0
        fresh = [int(found.medoids[c]) for c in _by_size(found.assignment, len(found.medoids)) if empty[c]]
        # Duplicates leave fewer clusters than wanted: then any free item serves as well as another.
        return fresh[:k] or np.flatnonzero(~used)[:k].tolist()


def _by_size(assignment: IntArray, n: int) -> IntArray:
    return np.argsort(-np.bincount(assignment, minlength=n), kind="stable")


NOTHING = NEVER, 0
"""Score and position of the best item of a cluster in which nobody has looked."""


@dataclass(frozen=True)
class PaperSelection:
    """The medoids first, then argmin |μ_tn − λ| / σ_tn, one at a time."""

    threshold: float = 0.9

    def begin(self, field: Field, learner: Learner) -> PaperChooser:
        own = learner if isinstance(learner, PaperLearner) else Paper().begin(field)
        return PaperChooser(own, self.threshold)


class PaperChooser:
    """Posterior and score of every pool item, kept up to date one answer at a time.

    Only the touched cluster's scores change with a label; the next item is the least of the clusters' bests.
    """

    def __init__(self, learner: PaperLearner, threshold: float) -> None:
        self.learner, self.threshold = learner, threshold
        self.answers = Answers.none()
        self.rows = ClusterRows(learner)
        self._checkpoint = self._followed = 0
        self._medoids: list[tuple[int, int]] = []
        self.posteriors = [PoolGP(z, norms, Kernel()) for z, norms in self.rows]
        self._taken = [np.zeros(len(p.points), dtype=bool) for p in self.posteriors]
        self._find: dict[int, Find] = {}
        self._begin_again(0)

    def tell(self, answers: Answers) -> None:
        """Only remembered: the posterior follows when it is needed."""
        self.answers = answers
        if self.learner.answers is not answers:
            self.learner.tell(answers)

    def choose(self, k: int, pending: IntArray) -> IntArray:
        self._follow()
        saved: dict[int, _Saved] = {}
        for j in pending:
            self._expect(int(j), saved)
        chosen: list[int] = []
        while len(chosen) < k and (j := self._next()) is not None:
            chosen.append(j)
            if len(chosen) < k:
                self._expect(j, saved)
        for c, state in saved.items():
            self._restore(c, state)
        return np.array(chosen, dtype=np.intp)

    def _follow(self) -> None:
        """Add the answers that came since; all over again where the hyper-parameters changed."""
        n = len(self.answers)
        if self.learner.checkpoint(n) != self._checkpoint:
            self._begin_again(n)
        at, weight = self.answers.positions[self._followed :], self.answers.weight[self._followed :]
        residual = self.answers.correct[self._followed :] - self.learner.field.pool.confidence[at]
        for j, y, w in zip(at.tolist(), residual.tolist(), weight.tolist(), strict=True):
            c, row = self.rows.locate(j)
            self.posteriors[c].add(row, y, w)
            self._take(c, row)
        self._followed = n
        if self._medoids:
            self._medoids = [(c, row) for c, row in self._medoids if not self._taken[c][row]]

    def _begin_again(self, n: int) -> None:
        """New kernels; the labels that they were estimated on enter together, whatever calls brought them."""
        kernels, self._checkpoint = self.learner.kernels(n), self.learner.checkpoint(n)
        at = self.answers.positions[: self._checkpoint]
        residual = self.answers.correct[: self._checkpoint] - self.learner.field.pool.confidence[at]
        weight = self.answers.weight[: self._checkpoint]
        told = {c: (rows, residual[places], weight[places]) for c, rows, places in self.rows.grouped(at)}
        none = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
        for c, (posterior, kernel) in enumerate(zip(self.posteriors, kernels, strict=True)):
            rows, y, w = told.get(c, none)
            posterior.begin(kernel, rows, y, w)
            self._taken[c][:] = False
            self._taken[c][rows] = True
        self._best = [NOTHING] * len(self.posteriors)
        self._stale = set(range(len(self.posteriors)))
        self._medoids = list(enumerate(self.rows.medoids))
        self._followed = self._checkpoint

    def _expect(self, j: int, saved: dict[int, _Saved]) -> None:
        c, row = self.rows.locate(j)
        if c not in saved:
            best = None if c in self._stale else self._best[c]
            saved[c] = _Saved(self.posteriors[c].snapshot(), self._taken[c].copy(), best)
        self.posteriors[c].expect(row)
        self._take(c, row)

    def _restore(self, c: int, state: _Saved) -> None:
        self.posteriors[c].restore(state.posterior)
        self._taken[c][:] = state.taken
        if state.best is not None:
            self._best[c] = state.best
            self._stale.discard(c)

    def _take(self, c: int, row: int) -> None:
        self._taken[c][row] = True
        self._stale.add(c)

    def _next(self) -> int | None:
        for c, row in self._medoids:
            if not self._taken[c][row]:
                return self.rows.position(c, row)
        for c in self._stale:
            self._best[c] = self._best_of(c)
        self._stale.clear()
        # Ties between clusters go to the lowest pool position, as within one.
        score, j = min(self._best)
        return j if score < NEVER else None

    def _best_of(self, c: int) -> tuple[float, int]:
        score, row = self._scored(c)
        self.posteriors[c].expect_next(score)
        return float(score[row]), self.rows.position(c, row)

    def _scored(self, c: int) -> tuple[FloatArray, int]:
        """|μ_tn − λ| / σ_tn of the cluster's items and the row of the least."""
        posterior = self.posteriors[c]
        if c not in self._find:
            bound = posterior.mean, posterior.variance, self.rows.confidence[c], self._taken[c]
            self._find[c] = finder(*bound, self.threshold)
        return self._find[c](posterior.count > 0)


@dataclass(frozen=True)
class _Saved:
    posterior: tuple[FloatArray, FloatArray, int, int, int]
    taken: BoolArray
    best: tuple[float, int] | None


def taken(n: int, answers: Answers, pending: IntArray) -> BoolArray:
    """Which of n items are answered or asked already."""
    used = np.zeros(n, dtype=bool)
    used[answers.positions] = True
    used[pending] = True
    return used
