"""The calibrator: asks for the few labels that matter and gives an honest confidence for every prediction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from opcal._params import Params
from opcal._threads import one_thread
from opcal.answers import AnswerBook, carried
from opcal.audit import AuditWalk
from opcal.core.cost_matrix import CostMatrix
from opcal.core.costs import Costs
from opcal.core.method import Answers, BoolArray, Chooser, Design, Field, FloatArray, IntArray, Learner, Method
from opcal.core.posterior import Posterior
from opcal.errors import IncompatiblePool, InvalidInput, NotBegun, UnknownOption
from opcal.growing import check_grown, grown
from opcal.methods import design_named, method_named
from opcal.pool import Pool, names


class OperationalCalibrator(Params):
    """Calibrate a deployed classifier's confidence against its field, with few labels. Predictions are never changed.

    Parameters
    ----------
    method : "auto", "paper", or an object of `opcal.methods`
        What turns answers into confidence.
    design : "auto", "paper", "kmeans", "random", or an object with `begin(field, learner)`
        Which items `ask` chooses.
    threshold : float
        The confidence λ from which you would act; designs may look there first.
    costs : None, number, Costs, or a CostMatrix of `opcal.costs`
        The loss u of acting on a wrong prediction (gain of a right one: 1). Where given, λ = u/(1+u) replaces
        `threshold`.
    n_clusters : "auto" or int
        "auto": 10 below 1,000 items, else 30, and never more than half of the budget.
    audit : float in [0, 1]
        The share of asked items that are drawn uniformly at random from the whole pool. Only they measure quality.
    random_state : int, Generator or None
        The same seed asks the same items.
    """

    def __init__(
        self,
        method: str | Method = "auto",
        design: str | Design = "auto",
        *,
        threshold: float = 0.9,
        costs: float | Costs | CostMatrix | None = None,
        n_clusters: int | str = "auto",
        audit: float = 0.25,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.method = method
        self.design = design
        self.threshold = threshold
        self.costs = costs
        self.n_clusters = n_clusters
        self.audit = audit
        self.random_state = random_state

    _pending: dict[int, None]
    _asked: int
    _walk: AuditWalk
    _book: AnswerBook
    learner_: Learner

    def begin(self, pool: Pool, budget: int | None = None) -> Self:
        """Look at the unlabelled pool. `budget` is the number of labels that `ask` may ask for in all."""
        with self._all_or_nothing(), one_thread():
            self._forget(pool, budget)
            self._chooser()
        return self

    def fit(
        self,
        pool: Pool,
        positions: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        correct: ArrayLike | None = None,
        audit: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from labels that you already have: `begin` and `tell` in one, without asking."""
        with self._all_or_nothing():
            self._forget(pool, None)
            return self.tell(positions, labels, correct=correct, audit=audit, weight=weight)

    def ask(self, k: int = 1) -> IntArray:
        """The next k pool positions to label, good as one batch and none twice; fewer when budget or pool end."""
        self._begun()
        if not _whole(k) or k < 0:
            raise InvalidInput(f"k is {k!r}: expected how many items to ask for, a whole number of 0 or more")
        with one_thread():
            return self._ask(min(int(k), self._left()))

    def tell(
        self,
        positions: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        correct: ArrayLike | None = None,
        audit: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> Self:
        """Answers for pool positions: true classes (`opcal.OUTSIDE` for none of them), or `correct=` right or wrong.

        All are taken or, with an error, none. `audit` says which of these items were drawn uniformly at random from
        the whole pool; without it, those that `ask` drew so. `weight` in (0, 1], one number or one for each, says how
        much of an answer each one is: below 1 where it may be mistaken or is old.
        """
        self._begun()
        at = self._book.add(positions, labels, correct, audit, weight)
        for position in at.tolist():
            self._pending.pop(position, None)
        self.learner_.tell(self._book.answers)
        return self

    def confidence(self, pool: Pool) -> FloatArray:
        """Calibrated confidence of every prediction in a pool of the same model, [N] in [0, 1]."""
        return self.posterior(pool).mean

    def posterior(self, pool: Pool) -> Posterior:
        """Confidence with its own uncertainty: `.mean .sd .interval(.9) .above(.9) .sample(100)`."""
        self._begun()
        self._same_model(pool)
        with one_thread():
            return self.learner_.predict(pool.outputs)

    def confidence_one(
        self,
        features: ArrayLike,
        logits: ArrayLike | None = None,
        *,
        confidence: float | None = None,
        predicted: int | None = None,
    ) -> float:
        """Calibrated confidence of one prediction, for a hot path: features [d] with logits [K], or with both others.

        `opcal.load(...).confidence_one` does the same without the pool.
        """
        self._begun()
        from opcal.artifact.manifest import Layout

        with one_thread():
            row = Layout.of(self.pool_).one(features, logits, confidence, predicted)
            return float(self.learner_.predict(row).mean[0])

    def save(self, path: str | Path, *, key: str | Path | None = None) -> Path:
        """Write an artefact that scores without the pool, whole or not at all; `opcal.load(path)` reads it.

        `key` is a PEM file with the Ed25519 private key to sign it with.
        """
        from opcal.artifact import save

        return save(self, path, key=key)

    def anew(self) -> Self:
        """A calibrator with the same settings as just after `begin`, that shares what was prepared on the pool."""
        self._begun()
        other = type(self)(**self.get_params())
        with one_thread():
            other._settle(self.pool_, self.field_)
        other._walk = self._walk.afresh()
        return other

    def extend(self, pool: Pool) -> Self:
        """The same pool with more items of the same field at its end, as more data came in.

        Positions, medoids, answers and what was prepared on the first items stay. The new items can be asked for from
        now on. The audit gets them by a permutation of their own and walks that first until all parts are drawn at the
        same rate; meanwhile `audit_` leaves out what is ahead, so that it always marks one uniform sample of the pool.
        """
        self._begun()
        self._same_model(pool)
        check_grown(self.pool_, pool)
        with self._all_or_nothing(), one_thread():
            field, n = grown(self.field_, pool.outputs), len(self.pool_)
            order = field.generator(f"audit part {len(self._walk.parts)}").permutation(len(pool) - n)
            book, pending, asked = self._book.moved(pool), self._pending, self._asked
            self._settle(pool, field)
            self._walk = self._walk.extended(order + n)
            self._book, self._pending, self._asked = book, pending, asked
            self.learner_.tell(book.answers)
        return self

    def resume(self, pending: ArrayLike, *, asked: int, walked: int) -> Self:
        """Go on asking where another process stopped: what is asked and untold, how much was asked, the audit's walk.

        With the answers told before in their order, `ask` goes on as if nothing had happened.
        """
        self._begun()
        waiting = names.positions("pending", pending, len(self.pool_))
        self._pending.clear()
        self._pending.update((p, None) for p in waiting.tolist() if p not in self._book)
        self._asked = int(asked)
        self._walk.walked = 0
        self._walk.go_on(int(walked), self._book.drawn)
        return self

    def inclusion(self, positions: ArrayLike) -> FloatArray:
        """The probability with which the audit has drawn each of these items by now; 0 for those it has not drawn.

        Before `extend`, it is one number: the share of the pool that the audit has walked.
        """
        self._begun()
        return self._walk.inclusion(names.positions("positions", positions, len(self.pool_)))

    @property
    def walked_(self) -> IntArray:
        """Positions that the audit's permutation has passed so far, in its order: asked by it or known already."""
        self._begun()
        return self._walk.permutation[: self._walk.walked].copy()

    @property
    def answers_(self) -> Answers:
        """Everything told, in the order told."""
        self._begun()
        return self._book.answers

    @property
    def left_out_(self) -> IntArray:
        """Positions that the audit drew and that `audit_` leaves out until all parts of the pool are drawn alike."""
        self._begun()
        return self._walk.uneven() if len(self._walk.parts) > 1 else np.empty(0, dtype=np.intp)

    @property
    def audit_(self) -> BoolArray:
        """Which of `answers_` were drawn uniformly at random from the whole pool."""
        self._begun()
        drawn = self._book.drawn
        if len(self._walk.parts) > 1:
            drawn = drawn.copy()
            drawn[self.left_out_] = False
        marked: BoolArray = drawn[self._book.answers.positions]
        return marked

    @property
    def pending_(self) -> IntArray:
        """Positions asked and not yet told, in the order asked."""
        self._begun()
        return np.fromiter(self._pending, dtype=np.intp, count=len(self._pending))

    @property
    def threshold_(self) -> float:
        """The λ in force: from `costs` where given, else `threshold`."""
        if self.costs is None:
            return _share("threshold", self.threshold)
        return (self.costs if isinstance(self.costs, (Costs, CostMatrix)) else Costs(self.costs)).threshold

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A refusal leaves all as it was: what is known of a pool lies in attributes that `_forget` replaces."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _forget(self, pool: Pool, budget: int | None) -> None:
        if not isinstance(pool, Pool):
            raise InvalidInput(
                f"pool is a {type(pool).__name__}: expected an opcal.Pool, e.g. Pool.from_arrays(features=z, logits=h)"
            )
        if budget is not None and (not _whole(budget) or budget < 1):
            raise InvalidInput(f"budget is {budget!r}: expected a number of labels, 1 or more, or None")
        budget = None if budget is None else min(int(budget), len(pool))
        field = Field(pool.outputs, self._clusters(len(pool), budget), budget, _seed(self.random_state))
        self._settle(pool, field)
        order = field.generator("audit").permutation(len(pool))
        order = order[~np.isin(order, carried(pool))]
        self._walk = AuditWalk(order, _share("audit", self.audit), (len(pool),))

    def _settle(self, pool: Pool, field: Field) -> None:
        method = method_named(self.method)
        design = design_named(self.design, self.threshold_, method)
        learner = method.begin(field)
        self.pool_, self.field_, self.learner_ = pool, field, learner
        self._chosen_design = design
        self._chooser_: Chooser | None = None
        self._book = AnswerBook(pool)
        self._pending = {}
        self._asked = 0

    def _clusters(self, n: int, budget: int | None) -> int:
        if self.n_clusters == "auto":
            wanted = 10 if n < 1000 else 30
            return max(1, min(wanted, n, n if budget is None else budget // 2))
        if not _whole(self.n_clusters) or int(self.n_clusters) < 1:
            raise UnknownOption(f'n_clusters is {self.n_clusters!r}: expected "auto" or a number of 1 or more')
        return min(int(self.n_clusters), n)

    def _chooser(self) -> Chooser:
        if self._chooser_ is None:
            self._chooser_ = self._chosen_design.begin(self.field_, self.learner_)
        return self._chooser_

    def _known(self, position: int) -> bool:
        return position in self._book or position in self._pending

    def _left(self) -> int:
        free = len(self.pool_) - len(self._book) - len(self._pending)
        return free if self.field_.budget is None else min(free, self.field_.budget - self._asked)

    def _ask(self, k: int) -> IntArray:
        if k == 0:
            return np.empty(0, dtype=np.intp)
        audit, walked = self._walk.draw(k, self._asked, self._known)
        chooser = self._chooser()
        chooser.tell(self._book.answers)
        waiting = np.array([*self._pending, *audit], dtype=np.intp)
        chosen = chooser.choose(k - len(audit), waiting) if k > len(audit) else waiting[:0]
        asked = self._walk.weave(chosen.tolist(), audit, self._asked)
        self._walk.go_on(walked, self._book.drawn)
        self._pending.update(dict.fromkeys(asked))
        self._asked += len(asked)
        return np.array(asked, dtype=np.intp)

    def _begun(self) -> None:
        if not hasattr(self, "learner_"):
            raise NotBegun(
                "the calibrator has seen no pool: call begin(pool) or fit(pool, positions, labels=...) first"
            )

    def _same_model(self, pool: Pool) -> None:
        if not isinstance(pool, Pool):
            raise InvalidInput(f"pool is a {type(pool).__name__}: expected an opcal.Pool")
        mine, other = _layout(self.pool_), _layout(pool)
        if mine != other:
            raise IncompatiblePool(
                f"the pool has {other}, the calibrator was fitted on {mine}: pass outputs of the same model and layer"
            )


def _layout(pool: Pool) -> str:
    logits = "no logits" if pool.logits is None else f"logits of {pool.n_classes} classes"
    return f"{pool.features.shape[1]} features and {logits}"


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _share(name: str, value: float) -> float:
    if not isinstance(value, Real) or not 0 <= value <= 1:
        raise UnknownOption(f"{name} is {value!r}: expected a number in [0, 1]")
    return float(value)


def _seed(random_state: int | np.random.Generator | None) -> int:
    if isinstance(random_state, (int, np.integer)) and _whole(random_state):
        if random_state < 0:
            raise UnknownOption(f"random_state is {random_state}: expected 0 or more")
        return int(random_state)
    if random_state is None or isinstance(random_state, (np.random.Generator, np.random.RandomState)):
        source = np.random.default_rng() if random_state is None else random_state
        return int(source.integers(2**31) if isinstance(source, np.random.Generator) else source.randint(2**31))
    raise UnknownOption(f"random_state is {random_state!r}: expected a whole number, a numpy Generator or None")
