"""What may I act on? A region that is frozen, labels drawn inside it, one exact test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from opcal._threads import one_thread
from opcal.assess.crossfit import refitted
from opcal.assess.promises import NOBODY, Promise, promised
from opcal.core.method import BoolArray, FloatArray, IntArray, Learner
from opcal.errors import InvalidInput, NotBegun, UnknownOption
from opcal.pool import Pool

if TYPE_CHECKING:
    from opcal.calibrator import OperationalCalibrator
    from opcal.core.cost_matrix import CostMatrix
    from opcal.core.costs import Costs

USUAL = 60
"""Labels that are planned for until `ask` tells their number."""


@dataclass(eq=False)
class Region:
    """The items that a promise is about, fixed by what was known when it was made.

    The order of the items is frozen at once. Where nested regions end is fixed by the first `ask`, from the number of
    labels alone; they are tested from safe to wide, and the widest that passes is the region.
    """

    pool: Pool = field(repr=False)
    learner: Learner | None = field(repr=False)
    """The frozen calibrator; None where the region was read from a file."""
    promise: Promise
    confidence: FloatArray = field(repr=False)
    known: BoolArray = field(repr=False)
    """Which items were labelled before, [N]."""
    planned: int
    order: IntArray = field(repr=False)
    """The draw: a permutation of the pool; those of its items that can be drawn are asked in this order."""
    asked: list[int] = field(default_factory=list, repr=False)
    answers: dict[int, int] = field(default_factory=dict, repr=False)
    """Label of each fresh item that `certify` was told."""
    doubt: float | None = None
    """δ, from the first test on."""
    settled: float | None = None
    """The cut that the tests so far speak for."""
    likely: FloatArray | None = field(default=None, repr=False)
    """What the cuts are planned by where it is not the confidence: a plan weighs what may be wrong itself."""
    _frozen: bool = False

    def thaw(
        self,
        cuts: tuple[float, ...],
        settled: float | None,
        doubt: float | None,
        asked: list[int],
        answers: Mapping[str, int],
    ) -> None:
        """Go on where a stored region was left."""
        self.__dict__["cuts"] = cuts
        self.settled, self.doubt, self.asked, self._frozen = settled, doubt, list(asked), True
        self.answers = {int(position): label for position, label in answers.items()}

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """Confidences from which nested regions would accept, from safe to wide; tested in this order."""
        likely = self.confidence if self.likely is None else self.likely
        return self.promise.cuts(self.confidence, likely, self.known, self.planned)

    @property
    def cut(self) -> float:
        """The confidence from which an item is accepted: of the widest region until a test has settled which."""
        if self.settled is not None:
            return self.settled
        return self.cuts[-1] if self.cuts else NOBODY

    @property
    def mask(self) -> BoolArray:
        """The accepted items, [N]."""
        return self.promise.takes(self.confidence, self.pool.predicted, self.cut)

    @property
    def threshold(self) -> float:
        """The same as `cut`: act where the calibrated confidence reaches it."""
        return self.cut

    @property
    def coverage(self) -> float:
        """The share of the pool that is accepted."""
        return float(self.mask.mean())

    @property
    def positions(self) -> IntArray:
        """The accepted items' positions."""
        return np.flatnonzero(self.mask)

    @property
    def expected_error(self) -> float:
        """The error among accepted items as predicted; the test decides whether it may be promised."""
        return float(1 - self.confidence[self.mask].mean()) if self.mask.any() else 0.0

    @property
    def fresh(self) -> BoolArray:
        """Items that may be drawn: they bear on the promise and were not labelled before it was made, [N]."""
        widest = self.cuts[-1] if self.cuts else NOBODY
        takes = self.promise.takes(self.confidence, self.pool.predicted, widest)
        drawable: BoolArray = self.promise.population(takes) & ~self.known
        return drawable

    def accepts(self, pool: Pool) -> BoolArray:
        """Which items of any pool of the same model lie in the region, [N]."""
        if self.learner is None:
            raise NotBegun(
                "the region was read from a file, which holds no calibrator: use its threshold with your own"
            )
        with one_thread():
            confidence = self.learner.predict(pool.outputs).mean
        return self.promise.takes(confidence, pool.predicted, self.cut)

    def ask(self, k: int = 40) -> IntArray:
        """The next k items of a uniform draw without replacement; fewer when the region ends."""
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise InvalidInput(f"k is {k!r}: expected how many items to ask for, a whole number of 1 or more")
        if not self._frozen:
            self.freeze(int(k))
        waiting = self.order[self.fresh[self.order]][len(self.asked) : len(self.asked) + int(k)]
        self.asked += waiting.tolist()
        return waiting.astype(np.intp)

    def freeze(self, labels: int) -> None:
        """Fix where the region ends, for a test with so many labels; once only."""
        if self._frozen:
            raise UnknownOption("the region is frozen already: make a new one for another plan")
        self.planned, self._frozen = labels, True
        self.__dict__.pop("cuts", None)

    def __str__(self) -> str:
        what = (
            f"{int(self.mask.sum()):,} of {len(self.pool):,} items, those with a confidence of {self.cut:.3f} or more"
        )
        return f"{self.promise.words} Region: {what}." if self.mask.any() else f"{self.promise.words} Region: empty."


def region(
    cal: OperationalCalibrator,
    error: float | None = None,
    *,
    recall: float | None = None,
    of: str | int | None = None,
    gain: float | None = None,
    costs: CostMatrix | Costs | float | None = None,
    about: str = "pool",
    labels: int | None = None,
) -> Region:
    """Freeze what a promise is about; then `region.ask(40)`, label, `certify(region, positions, labels=..., delta=.1)`.

    `error`: at most this share of the accepted items is wrong. `recall` and `of`: of the items of that class at least
    this share is not lost, that is accepted under another name. `gain`: accepted items bring at least this much on
    average, at `costs`. `about="pool"` promises about this pool, labelled items included; `about="field"` about any
    items like those that can be drawn. `labels` plans for so many; without it the first `ask` does.
    """
    learner = refitted(cal, np.arange(len(cal.answers_)))
    with one_thread():
        posterior = learner.predict(cal.pool_.outputs)
    known = np.zeros(len(cal.pool_), bool)
    known[cal.answers_.positions] = True
    promise = promised(cal, error=error, recall=recall, of=of, gain=gain, costs=costs, about=about)
    order = cal.field_.generator(f"region {len(cal.answers_)}").permutation(len(cal.pool_))
    made = Region(cal.pool_, learner, promise, posterior.mean, known, labels or USUAL, order, likely=posterior.likely)
    if labels is not None:
        made.freeze(labels)
    return made
