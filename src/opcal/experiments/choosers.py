"""Selections that the paper tried and dropped: by uncertainty, by density, by disagreement of a committee."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opcal.core.designs import taken
from opcal.core.kernels import median_distance, rbf, squared_distances
from opcal.core.method import Answers, Field, FloatArray, IntArray, Learner
from opcal.core.paper import Paper, PaperLearner

DENSITY_SAMPLE = 1000
COMMITTEE = 4


@dataclass(frozen=True)
class Uncertainty:
    """The largest posterior standard deviation first (Seo et al. 2000)."""

    def begin(self, field: Field, learner: Learner) -> BestFirst:
        return BestFirst(field, learner, np.ones(len(field.pool)))


@dataclass(frozen=True)
class Density:
    """Uncertainty times the mean similarity to the pool (Zhu et al. 2009)."""

    def begin(self, field: Field, learner: Learner) -> BestFirst:
        z = np.asarray(field.pool.features, np.float64)
        rng = field.generator("density design")
        z = z - z.mean(0)
        sample = z[np.sort(rng.permutation(len(z))[:DENSITY_SAMPLE])]
        kernel = rbf(squared_distances(z, sample), median_distance(sample, rng) or 1.0)
        return BestFirst(field, learner, kernel.mean(1))


class BestFirst:
    """argmax of σ times a weight, one at a time: the variance at the chosen item's neighbours is not foreseen."""

    def __init__(self, field: Field, learner: Learner, weight: FloatArray) -> None:
        self.field, self.learner, self.weight = field, learner, weight
        self.answers = Answers.none()

    def tell(self, answers: Answers) -> None:
        self.answers = answers
        self.learner.tell(answers)

    def choose(self, k: int, pending: IntArray) -> IntArray:
        score = self.learner.predict(self.field.pool).sd * self.weight
        return best_free(score, k, self.answers, pending)


@dataclass(frozen=True)
class Disagreement:
    """The largest spread of a committee's means (Pasolli and Melgani 2011); each member sees half of the features."""

    def begin(self, field: Field, learner: Learner) -> Committee:
        return Committee(field)


class Committee:
    def __init__(self, field: Field) -> None:
        rng, d = field.generator("disagreement design"), field.pool.features.shape[1]
        self.parts = [np.sort(rng.permutation(d)[: max(1, d // 2)]) for _ in range(COMMITTEE)]
        self.fields = [
            Field(
                replace(field.pool, features=np.ascontiguousarray(field.pool.features[:, part])),
                field.n_clusters,
                field.budget,
                field.seed,
            )
            for part in self.parts
        ]
        self.members: list[PaperLearner] = [Paper().begin(part) for part in self.fields]
        self.answers = Answers.none()

    def tell(self, answers: Answers) -> None:
        self.answers = answers
        for member in self.members:
            member.tell(answers)

    def choose(self, k: int, pending: IntArray) -> IntArray:
        means = [m.predict(f.pool).mean for m, f in zip(self.members, self.fields, strict=True)]
        spread = np.std(means, axis=0)
        # Before the first answers all members say c: then any item is as good as another.
        return best_free(spread, k, self.answers, pending)


def best_free(score: FloatArray, k: int, answers: Answers, pending: IntArray) -> IntArray:
    """The k highest scores among items neither answered nor asked; ties go to the lowest position."""
    free = ~taken(len(score), answers, pending)
    order = np.argsort(-score, kind="stable")
    return order[free[order]][:k]
