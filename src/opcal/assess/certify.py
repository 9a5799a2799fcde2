"""The test of a region's promise, in words and figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opcal.answers import AnswerBook
from opcal.assess.promises import ErrorPromise, GainPromise, RecallPromise
from opcal.assess.region import Region
from opcal.assess.words import count
from opcal.core.checks import within
from opcal.core.method import WRONG, BoolArray, IntArray
from opcal.errors import InvalidInput, UnknownItem, UnknownOption


@dataclass(frozen=True)
class Certificate:
    """The answer of one test."""

    certified: bool
    promise: str
    delta: float
    threshold: float
    """The calibrated confidence from which items are accepted."""
    coverage: float
    """Share of the pool that is accepted."""
    accepted: int
    labels: int
    """Fresh labels that the test used, skipped items included."""
    counted: int
    """Those of them that the test counts: all, or for a recall the ones of the class."""
    wrong: int
    skipped: int
    """Asked items without an answer, before the last one answered; each counts as wrong."""
    bound: float
    """What this test alone shows with probability 1 − δ: an error of at most, a recall or a gain of at least this."""
    more: int | None
    """About how many labels more would probably do; 0 when certified, None where no number is likely to."""
    assumptions: tuple[str, ...]
    mask: BoolArray = field(repr=False, compare=False)
    """The accepted items, [N]."""

    def __bool__(self) -> bool:
        return self.certified

    @property
    def sentence(self) -> str:
        """The answer in words."""
        chance = f"with probability {1 - self.delta:.0%} or more"
        basis = f"{count(self.counted, 'fresh label')} count, {self.wrong} wrong"
        where = f"confidence {self.threshold:.3f} or more: {self.accepted:,} items, {self.coverage:.1%} of the pool"
        if self.certified:
            return f"Certified, {chance}: {self.promise} ({where}; {basis}.)"
        if self.accepted == 0:
            return f"Cannot certify: no item is sure enough. Wanted, {chance}: {self.promise}"
        more = "no number of labels is likely to do: ask for less, or label more to learn first"
        if self.more is not None:
            more = f"about {count(self.more, 'label')} more are needed"
        return f"Cannot certify with these labels; {more}. Wanted, {chance}: {self.promise} ({where}; {basis}.)"

    def as_dict(self) -> dict[str, Any]:
        """Every figure, as plain values."""
        plain = {name: value for name, value in asdict(self).items() if name != "mask"}
        return plain | {"assumptions": list(self.assumptions), "sentence": self.sentence}

    def __str__(self) -> str:
        return self.sentence


def certify(
    region: Region,
    positions: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    correct: ArrayLike | None = None,
    delta: float = 0.1,
) -> Certificate:
    """Test the region's promise with the answers of items that `region.ask` gave; more can follow, all are kept.

    The promise is wrongly certified with probability `delta` at most, however many tests are made of it.
    """
    if not isinstance(region, Region):
        raise InvalidInput(f"region is a {type(region).__name__}: expected what opcal.assess.region(cal, ...) gives")
    doubt = within(delta, "delta", 0, 1, below=True)
    if doubt == 0 or (region.doubt is not None and region.doubt != doubt):
        raise UnknownOption(
            f"delta is {delta!r}: expected more than 0 and, for a region that was tested before, the same as then "
            f"({region.doubt}): make a new region for another"
        )
    _take(region, positions, labels, correct)
    region.doubt = doubt
    at, told, skipped = _used(region)
    tested = region.promise.test(region, at, told, doubt)
    region.settled = tested.cut
    return Certificate(
        certified=tested.certified,
        promise=region.promise.words,
        delta=doubt,
        threshold=region.cut,
        coverage=region.coverage,
        accepted=int(region.mask.sum()),
        labels=len(at),
        counted=tested.counted,
        wrong=tested.bad,
        skipped=skipped,
        bound=tested.bound,
        more=tested.more,
        assumptions=_assumptions(region),
        mask=region.mask,
    )


def _take(region: Region, positions: ArrayLike, labels: ArrayLike | None, correct: ArrayLike | None) -> None:
    """All answers or none."""
    book = AnswerBook(region.pool)
    before = np.array(list(region.answers), np.intp), np.array(list(region.answers.values()), np.intp)
    classless = before[1] == WRONG
    book.add(before[0][~classless], before[1][~classless], None, None)
    book.add(before[0][classless], None, np.zeros(int(classless.sum()), bool), None)
    at = book.add(positions, labels, correct, None)
    strangers = sorted(set(at.tolist()) - set(region.asked))
    if strangers:
        raise UnknownItem(
            f"position {strangers[0]} was not asked by this region: only items of its own random draw may test it, "
            "get them from region.ask(...)"
        )
    answers = book.answers
    region.answers = dict(zip(answers.positions.tolist(), answers.labels.tolist(), strict=True))


def _used(region: Region) -> tuple[IntArray, IntArray, int]:
    """Asked items up to the last one answered; skipped ones count as wrong, since what is skipped is rarely easy."""
    answered = [i for i, position in enumerate(region.asked) if position in region.answers]
    at = np.array(region.asked[: answered[-1] + 1] if answered else [], np.intp)
    told = np.array([region.answers.get(int(position), WRONG) for position in at], np.intp)
    return at, told, len(at) - len(answered)


def _assumptions(region: Region) -> tuple[str, ...]:
    drawn = "The items tested were drawn uniformly at random after the region was fixed, and their labels are true."
    spent = "Skipped items count as wrong. Further tests of the same promise share δ by exact calculation."
    promise = region.promise
    if isinstance(promise, ErrorPromise) and promise.of_pool:
        about = (
            "The promise is about this pool, its labelled items included; for later items it holds as long as they "
            "come from the same source: let the watch tell when they no longer do."
        )
    elif isinstance(promise, RecallPromise):
        about = "An item that is not accepted is seen by somebody who names it rightly."
    elif isinstance(promise, GainPromise):
        about = "The costs are what was given; an answer outside all classes counts as the worst mistake."
    else:
        about = "Later items come from the same source as those that could be drawn."
    then = (
        "The threshold is of the confidence as it was when the region was fixed; a calibrator that has learned more "
        "since needs a new certificate."
    )
    return drawn, about, spent, then
