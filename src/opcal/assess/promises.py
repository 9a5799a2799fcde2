"""The three promises: error among accepted items, recall of a class, mean gain of accepted items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from opcal.assess.groups import class_name
from opcal.core.certificate import (
    Broken,
    Looks,
    Nested,
    error_bound,
    gain_bound,
    largest_prefix,
    most_false,
    steps,
)
from opcal.core.checks import within
from opcal.core.cost_matrix import CostMatrix, others_by_softmax
from opcal.core.costs import Costs
from opcal.core.exact import binomial
from opcal.core.method import WRONG, BoolArray, FloatArray, IntArray
from opcal.costs import of_pool
from opcal.errors import UnknownItem, UnknownOption
from opcal.pool import Pool

if TYPE_CHECKING:
    from opcal.calibrator import OperationalCalibrator

NOBODY = 2.0
"""A cut that no confidence reaches."""
PLANNED_DOUBT = 0.1
"""δ that a region is planned for; the test uses the one it is given."""


@dataclass(frozen=True)
class Tested:
    """What a test found."""

    certified: bool
    bound: float
    """What holds with probability 1 − δ by this test: an error at most, a recall or a gain at least."""
    counted: int
    """Labels that the test counts: for a recall, those of the class."""
    bad: int
    more: int | None
    """About how many labels more would do; None where no number is likely to, 0 when it is certified."""
    cut: float
    """The confidence from which items are accepted, as far as this test goes."""


class RegionSeen(Protocol):
    """What a test sees of its region."""

    @property
    def confidence(self) -> FloatArray: ...
    @property
    def known(self) -> BoolArray: ...
    @property
    def cuts(self) -> tuple[float, ...]: ...


class Promise(Protocol):
    """What is promised, how its region is cut, what is drawn and how it is tested."""

    looks: dict[float, Looks]
    """The tests made so far, by cut."""

    @property
    def words(self) -> str: ...
    def cuts(self, confidence: FloatArray, likely: FloatArray, known: BoolArray, labels: int) -> tuple[float, ...]:
        """`likely` says how often items are right, in the order of the confidence."""

    def takes(self, confidence: FloatArray, predicted: IntArray, cut: float) -> BoolArray: ...
    def population(self, mask: BoolArray) -> BoolArray: ...
    def test(self, region: RegionSeen, at: IntArray, labels: IntArray, doubt: float) -> Tested: ...


def promised(
    cal: OperationalCalibrator,
    *,
    error: float | None,
    recall: float | None,
    of: str | int | None,
    gain: float | None,
    costs: CostMatrix | Costs | float | None,
    about: str,
) -> Promise:
    """The promise that these options ask for."""
    if sum(option is not None for option in (error, recall, gain)) != 1:
        raise UnknownOption("pass one of error=, recall= and gain=: a region carries one promise")
    if about not in ("pool", "field"):
        raise UnknownOption(f'about is {about!r}: expected "pool" or "field"')
    if (recall is None) != (of is None):
        raise UnknownOption("recall= and of= go together: the share and the class, e.g. recall=.9, of='PNEUMONIA'")
    wrong = np.zeros(len(cal.pool_), bool)
    wrong[cal.answers_.positions[~cal.answers_.correct]] = True
    if error is not None:
        return ErrorPromise(_open("error", error), about == "pool", cal.pool_.predicted, wrong)
    if recall is not None and of is not None:
        return _recall(cal.pool_, _open("recall", recall), of)
    if gain is None:
        raise UnknownOption("pass one of error=, recall= and gain=")
    given = costs if costs is not None else cal.costs
    if given is None:
        raise UnknownOption("gain= needs costs: pass costs= here or to the calibrator")
    return GainPromise(float(gain), of_pool(given, cal.pool_), cal.pool_)


def _open(name: str, value: float) -> float:
    number = within(value, name, 0, 1)
    if number in (0.0, 1.0):
        raise UnknownOption(f"{name} is {number:g}: expected a number strictly between 0 and 1")
    return number


@dataclass(eq=False)
class ErrorPromise:
    """Among accepted items at most ε are wrong: nested regions, tested from safe to wide."""

    error: float
    of_pool: bool
    predicted: IntArray = field(repr=False)
    wrong: BoolArray = field(repr=False)
    """Labelled items that are wrong, [N]."""
    looks: dict[float, Looks] = field(default_factory=dict, repr=False)

    @property
    def words(self) -> str:
        whose = "the accepted items of this pool" if self.of_pool else "accepted items like those drawn from"
        return f"Among {whose}, at most {self.error:.1%} are wrong."

    def cuts(self, confidence: FloatArray, likely: FloatArray, known: BoolArray, labels: int) -> tuple[float, ...]:
        order = np.argsort(-confidence, kind="stable")
        fresh = np.cumsum((~known[order]).astype(np.intp))
        loss = 1 - likely[order]
        error = np.cumsum(loss * ~known[order]) / np.maximum(fresh, 1)
        every = np.cumsum(loss) / np.arange(1, len(loss) + 1)
        nested = Nested(error, every, fresh, np.cumsum(self.wrong[order].astype(np.intp)))
        sizes = steps(nested, self.error, PLANNED_DOUBT, labels, of_pool=self.of_pool)
        found = dict.fromkeys(_above_ties(confidence[order], m) for m in sizes)
        return tuple(cut for cut in found if cut < NOBODY)

    def takes(self, confidence: FloatArray, predicted: IntArray, cut: float) -> BoolArray:
        return confidence >= cut

    def population(self, mask: BoolArray) -> BoolArray:
        return mask

    def test(self, region: RegionSeen, at: IntArray, labels: IntArray, doubt: float) -> Tested:
        """The cuts in their order, until one fails."""
        bad = labels != self.predicted[at]
        best: Tested | None = None
        for cut in region.cuts:
            found = self._one(region, cut, at, bad, doubt)
            if not found.certified:
                return best or found
            best = found
        return best or Tested(False, 0.0, 0, 0, None, NOBODY)

    def _one(self, region: RegionSeen, cut: float, at: IntArray, bad: BoolArray, doubt: float) -> Tested:
        mask = region.confidence >= cut
        inside = mask[at]
        n, false = int(inside.sum()), int((bad & inside).sum())
        fresh, before = int((mask & ~region.known).sum()), int((mask & self.wrong).sum())
        if cut not in self.looks:
            allowed = int(np.floor(self.error * int(mask.sum()) + 1e-9))
            broken = Broken(self.error, fresh, allowed + 1 - before) if self.of_pool else Broken(self.error)
            self.looks[cut] = Looks(broken, doubt)
        looks = self.looks[cut]
        certified = looks.look(n, false)
        more = 0 if certified else more_labels(looks, n, false, fresh - n)
        if more:
            more = int(np.ceil(more * len(at) / max(n, 1)))
        return Tested(certified, self._bound(mask, fresh, before, false, n, doubt), n, false, more, cut)

    def _bound(self, mask: BoolArray, fresh: int, before: int, bad: int, n: int, doubt: float) -> float:
        if not self.of_pool:
            return error_bound(bad, n, doubt) if n else 1.0
        return (before + most_false(bad, n, fresh, doubt)) / int(mask.sum())


@dataclass(eq=False)
class RecallPromise:
    """Of the items of a class, at least r are not lost: named rightly, or not accepted and so seen by somebody."""

    recall: float
    label: int
    name: str
    predicted: IntArray = field(repr=False)
    share: FloatArray = field(repr=False)
    """How likely each item is of the class where its prediction is false, [N]; 1 where nothing is known."""
    looks: dict[float, Looks] = field(default_factory=dict, repr=False)

    @property
    def words(self) -> str:
        return (
            f"Of the items that are truly {self.name}, at least {self.recall:.1%} are either predicted as {self.name} "
            f"or not accepted."
        )

    def cuts(self, confidence: FloatArray, likely: FloatArray, known: BoolArray, labels: int) -> tuple[float, ...]:
        named = self.predicted == self.label
        of_class = np.where(named, likely, (1 - likely) * self.share)
        order = np.argsort(-confidence, kind="stable")
        lost = np.cumsum(np.where(named, 0.0, of_class)[order]) / max(float(of_class.sum()), 1e-12)
        return (_above_ties(confidence[order], largest_prefix(lost, (1 - self.recall) / 2)),)

    def takes(self, confidence: FloatArray, predicted: IntArray, cut: float) -> BoolArray:
        return confidence >= cut

    def population(self, mask: BoolArray) -> BoolArray:
        return np.ones_like(mask)

    def test(self, region: RegionSeen, at: IntArray, labels: IntArray, doubt: float) -> Tested:
        """An answer "wrong" without its class counts as a lost item of the class wherever it can be one."""
        cut = region.cuts[0]
        mask = region.confidence >= cut
        acted = mask[at] & (self.predicted[at] != self.label)
        of_class = (labels == self.label) | ((labels == WRONG) & acted)
        n, bad = int(of_class.sum()), int((of_class & acted).sum())
        looks = self.looks.setdefault(cut, Looks(Broken(1 - self.recall), doubt))
        certified = looks.look(n, bad)
        more = 0 if certified else more_labels(looks, n, bad, int((~region.known).sum()) - len(at))
        more = None if more is None else int(np.ceil(more * len(at) / max(n, 1)))
        if more is not None and more > int((~region.known).sum()) - len(at):
            more = None
        return Tested(certified, 1 - error_bound(bad, n, doubt) if n else 0.0, n, bad, more, cut)


@dataclass(eq=False)
class GainPromise:
    """Accepted items bring at least so much on average."""

    goal: float
    costs: CostMatrix = field(repr=False)
    pool: Pool = field(repr=False)
    looks: dict[float, Looks] = field(default_factory=dict, repr=False)
    """Always empty: bets hold however often one looks."""

    @property
    def words(self) -> str:
        return f"Acting on the accepted items brings at least {self.goal:g} an item on average."

    def cuts(self, confidence: FloatArray, likely: FloatArray, known: BoolArray, labels: int) -> tuple[float, ...]:
        """The lowest of the classes' thresholds: `takes` looks at each class's own."""
        return (float(self.costs.thresholds().min()),)

    def takes(self, confidence: FloatArray, predicted: IntArray, cut: float) -> BoolArray:
        return confidence >= self.costs.thresholds()[predicted]

    def population(self, mask: BoolArray) -> BoolArray:
        return mask

    def test(self, region: RegionSeen, at: IntArray, labels: IntArray, doubt: float) -> Tested:
        predicted, cut = self.pool.predicted[at], region.cuts[0]
        mask = self.takes(region.confidence, self.pool.predicted, cut)
        gains = self.costs.realised(np.zeros(len(at), np.intp), predicted, labels)
        rows = self.costs.act[np.unique(self.pool.predicted[mask])] if mask.any() else np.zeros((1, 1))
        low, high, size = float(rows.min()), float(rows.max()), int((mask & ~region.known).sum())
        found = gain_bound(gains, low, high, size, doubt, self.goal)
        more = 0 if found.passed else _more_for_gain(gains, low, high, size, doubt, self.goal)
        return Tested(found.passed, found.at_least, len(at), int((labels != predicted).sum()), more, cut)


def _more_for_gain(gains: FloatArray, low: float, high: float, size: int, doubt: float, goal: float) -> int | None:
    """Labels more if what was drawn so far came again and again."""
    n = len(gains)
    if n == 0 or gains.mean() <= goal:
        return None
    for times in (1.5, 2, 3, 4, 6, 8, 12, 16):
        m = int(n * times)
        if m > size:
            return None
        if gain_bound(np.resize(gains, m), low, high, size, doubt, goal).passed:
            return m - n
    return None


def more_labels(looks: Looks, n: int, bad: int, left: int) -> int | None:
    """Labels more until a test passes four times in five, if the rest errs as what was drawn; None if none will do."""
    if looks.broken.hopeless:
        return None
    rate = (bad + 0.5) / (n + 1)
    for m in [*range(5, 50, 5), *range(50, 200, 10), *range(200, 1001, 50)]:
        if m > left:
            return None
        room = looks.allowed(n + m) - bad
        if room >= 0 and binomial(m, rate)[: room + 1].sum() >= 0.8:
            return int(m)
    return None


def _recall(pool: Pool, recall: float, of: str | int) -> RecallPromise:
    label = _label_of(pool, of)
    share = others_by_softmax(pool.logits, pool.predicted)[:, label] if pool.logits is not None else np.ones(len(pool))
    return RecallPromise(recall, label, class_name(pool, label), pool.predicted, share)


def _label_of(pool: Pool, of: str | int) -> int:
    if isinstance(of, str):
        if pool.classes is None or of not in pool.classes:
            known = ", ".join(pool.classes or ()) or "numbers, the pool has no class names"
            raise UnknownItem(f"of is {of!r}: the classes are {known}")
        return pool.classes.index(of)
    if isinstance(of, bool) or not 0 <= of < (pool.n_classes or 2**31):
        raise UnknownItem(f"of is {of!r}: expected a class, a name or a number from 0 to {(pool.n_classes or 2) - 1}")
    return int(of)


def _above_ties(ranked: FloatArray, m: int) -> float:
    """The confidence from which exactly the first m are accepted, or fewer where the m-th ties with the next."""
    if m == 0:
        return NOBODY
    if m < len(ranked) and ranked[m] == ranked[m - 1]:
        above = np.flatnonzero(ranked[:m] > ranked[m])
        return float(ranked[above[-1]]) if above.size else NOBODY
    return float(ranked[m - 1])
