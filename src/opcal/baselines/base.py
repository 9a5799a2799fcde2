"""What every baseline shares: answers checked as the calibrator checks them, and a map that is replaced whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from opcal._params import Params
from opcal._threads import one_thread
from opcal.answers import AnswerBook
from opcal.core.method import BoolArray, FloatArray, IntArray, Outputs
from opcal.errors import IncompatiblePool, InvalidInput, NotBegun, UnknownOption
from opcal.pool import Pool


@dataclass(frozen=True)
class Told:
    """The labelled items, in the order told, and the pool that they come from."""

    pool: Outputs
    positions: IntArray  # [n]
    labels: IntArray  # [n], a class, OUTSIDE or WRONG
    correct: BoolArray  # [n], I in the paper

    @property
    def rows(self) -> Outputs:
        return self.pool.take(self.positions)

    @property
    def confidence(self) -> FloatArray:
        return self.pool.confidence[self.positions]

    @property
    def residual(self) -> FloatArray:
        """I − c [n]: what the paper's regressions learn."""
        gap: FloatArray = self.correct - self.confidence
        return gap

    @property
    def weight(self) -> FloatArray:
        """[n], ones: a baseline takes every answer for what it says."""
        return np.ones(len(self))

    def __len__(self) -> int:
        return len(self.positions)


class Fitted(Protocol):
    """A calibration map: the probability that each prediction is right, [N], before it is clipped to [0, 1]."""

    def __call__(self, rows: Outputs) -> FloatArray: ...


class Baseline(Params):
    """`fit` on labelled field items, then `confidence` of any pool of the same model; `fitted_` is the learnt map."""

    def __init__(self) -> None:
        """Without settings unless a baseline declares some."""

    def fit(
        self, pool: Pool, positions: ArrayLike, labels: ArrayLike | None = None, *, correct: ArrayLike | None = None
    ) -> Self:
        """Learn from true classes (`opcal.OUTSIDE` for none of them) or from `correct=`, right or wrong."""
        told = told_of(pool, positions, labels, correct)
        with one_thread():
            fitted = self._learn(told)
        self.fitted_, self.pool_ = fitted, pool
        return self

    def confidence(self, pool: Pool) -> FloatArray:
        """Calibrated confidence of every prediction in a pool of the same model, [N] in [0, 1]."""
        if not hasattr(self, "fitted_"):
            raise NotBegun(f"{type(self).__name__} is not fitted: call fit(pool, positions, labels=...) first")
        same_model(self.pool_, pool, "the pool it was fitted on")
        with one_thread():
            found: FloatArray = np.clip(self.fitted_(pool.outputs), 0, 1)
        return found

    def _learn(self, told: Told) -> Fitted:
        raise InvalidInput(f"{type(self).__name__} is only what baselines share: take one of opcal.baselines")


def told_of(pool: Pool, positions: ArrayLike, labels: ArrayLike | None, correct: ArrayLike | None) -> Told:
    if not isinstance(pool, Pool):
        raise InvalidInput(
            f"pool is a {type(pool).__name__}: expected an opcal.Pool, e.g. Pool.from_arrays(features=z, logits=h)"
        )
    book = AnswerBook(pool)
    book.add(positions, labels, correct, None)
    answers = book.answers
    if not len(answers):
        raise InvalidInput("positions is empty: a baseline learns from at least one labelled item")
    return Told(pool.outputs, answers.positions, answers.labels, answers.correct)


def same_model(mine: Pool, other: Pool, what: str) -> None:
    if not isinstance(other, Pool):
        raise InvalidInput(f"pool is a {type(other).__name__}: expected an opcal.Pool")
    if _layout(mine) != _layout(other):
        raise IncompatiblePool(
            f"the pool has {_layout(other)}, {what} has {_layout(mine)}: pass outputs of the same model and layer"
        )


def _layout(pool: Pool) -> str:
    logits = "no logits" if pool.logits is None else f"logits of {pool.n_classes} classes"
    return f"{pool.features.shape[1]} features and {logits}"


def chosen(name: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise UnknownOption(f"{name} is {value!r}: expected {' or '.join(repr(k) for k in known)}")
    return str(value)


def whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise UnknownOption(f"{name} is {value!r}: expected a whole number of {least} or more")
    return int(value)


@dataclass(frozen=True)
class Constant:
    """The same probability for everything: what is left where all answers were alike."""

    probability: float

    def __call__(self, rows: Outputs) -> FloatArray:
        return np.full(len(rows), self.probability)


def succession(correct: BoolArray) -> float:
    """Laplace's rule, (right + 1) / (n + 2): never 0 or 1 from a few answers that were all alike."""
    return float((correct.sum() + 1) / (len(correct) + 2))


def folds(n: int, parts: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """(rest, part) rows of a random partition of n rows into at most `parts` parts."""
    order = np.random.default_rng(seed).permutation(n)
    pieces = np.array_split(order, min(parts, n))
    return [(np.setdiff1d(order, piece), np.sort(piece)) for piece in pieces if 0 < len(piece) < n]
