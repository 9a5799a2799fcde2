"""What a method is given and what it must give back: one small protocol, kept by `paper` and `auto` alike.

A new method is one file: a class with `begin(field)` that returns a `Learner`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from opcal.core.medoids import Clustering
    from opcal.core.posterior import Posterior

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

OUTSIDE = -1
"""Label of an item that belongs to none of the model's classes: every prediction there is wrong."""
WRONG = -2
"""Label of an item of which only this is known: the prediction is wrong."""


@dataclass(frozen=True)
class Head:
    """The model's last layer: logits = features @ weight.T + bias."""

    weight: FloatArray  # [K, d]
    bias: FloatArray  # [K]


@dataclass(frozen=True)
class Outputs:
    """What the model said about N items."""

    features: FloatArray  # [N, d], z in the paper; float32 or float64, possibly memory-mapped
    confidence: FloatArray  # [N] in [0, 1], float64
    predicted: IntArray  # [N]
    logits: FloatArray | None = None  # [N, K], h in the paper
    head: Head | None = None

    def __len__(self) -> int:
        return len(self.predicted)

    def take(self, rows: IntArray | slice) -> Outputs:
        logits = None if self.logits is None else self.logits[rows]
        return Outputs(self.features[rows], self.confidence[rows], self.predicted[rows], logits, self.head)


@dataclass(frozen=True)
class Answers:
    """Everything told so far, in the order told, each pool position once."""

    positions: IntArray  # [n]
    labels: IntArray  # [n], a class, OUTSIDE or WRONG
    correct: BoolArray  # [n], I in the paper: was the prediction right?
    weight: FloatArray  # [n] in (0, 1], how much of an answer each one is: below 1 where it may be mistaken or old

    @classmethod
    def none(cls) -> Answers:
        return cls(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.bool_), np.empty(0))

    def __len__(self) -> int:
        return len(self.positions)

    def first(self, n: int) -> Answers:
        return self.take(slice(n))

    def take(self, which: slice | IntArray) -> Answers:
        return Answers(self.positions[which], self.labels[which], self.correct[which], self.weight[which])


@dataclass(frozen=True)
class Field:
    """The unlabelled pool as methods and designs see it, with the preparation that they share."""

    pool: Outputs
    n_clusters: int
    budget: int | None = None
    seed: int = 0

    @cached_property
    def clustering(self) -> Clustering:
        from opcal.core.medoids import cluster

        return cluster(self.pool.features, self.n_clusters, self.generator("medoids"))

    def generator(self, purpose: str) -> np.random.Generator:
        """A stream of its own for each purpose, so that using one never shifts another."""
        return np.random.default_rng([self.seed, *purpose.encode()])


class Learner(Protocol):
    """What a method knows of one pool after some answers: a pure function of the pool and the answers in order."""

    def tell(self, answers: Answers) -> None:
        """Take all answers so far; the ones given before are their unchanged beginning."""

    def predict(self, rows: Outputs) -> Posterior:
        """The probability that each prediction is right, with its uncertainty, for any rows of the same model."""


class Method(Protocol):
    """Settings only; `begin` does the unsupervised work and leaves the settings untouched."""

    def begin(self, field: Field) -> Learner: ...


class Chooser(Protocol):
    """Picks the next items of one pool."""

    def tell(self, answers: Answers) -> None:
        """Take all answers so far, as `Learner.tell` does."""

    def choose(self, k: int, pending: IntArray) -> IntArray:
        """The next k pool positions, good as one batch; `pending` were asked and are still unanswered."""


class Design(Protocol):
    def begin(self, field: Field, learner: Learner) -> Chooser: ...
