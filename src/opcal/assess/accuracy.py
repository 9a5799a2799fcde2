"""How accurate is this model here? An interval from few labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opcal.assess import words
from opcal.assess.crossfit import CrossFitted, cross_fitted
from opcal.assess.groups import Group, by_group, recall_by_class
from opcal.assess.looks import looks
from opcal.calibrator import OperationalCalibrator
from opcal.core import assess as core
from opcal.core import exact, plan, strata
from opcal.core.assess import Estimate
from opcal.core.checks import within
from opcal.core.method import BoolArray, FloatArray, IntArray
from opcal.core.sequence import Sequence
from opcal.errors import NotEnoughLabels, UnknownOption
from opcal.pool import Pool

MINIMUM = 10
"""Labels below which a group's accuracy is not told."""
KINDS = ("asymptotic", "exact", "anytime")


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The share of the pool's predictions that are right."""

    estimate: float
    lower: float
    upper: float
    level: float
    interval: str
    """Which interval `lower` and `upper` are: "asymptotic", "exact" or "anytime"."""
    labels: int
    """Labels drawn at random that it rests on."""
    claimed: float
    """What the model's own confidence claims: its mean over the pool."""
    required: float | None
    pool: Pool = field(repr=False)
    crossfit: CrossFitted = field(repr=False)
    inclusion: FloatArray | None = field(repr=False)
    calibrator: OperationalCalibrator | None = field(repr=False)

    @cached_property
    def difference(self) -> Estimate:
        """The difference estimator with cross-fitted predictions: `estimate` is its value."""
        return core.estimate(self._sample, self.level)

    @cached_property
    def simple(self) -> Estimate:
        """The plain share of right ones among the labels drawn at random."""
        c = self.crossfit
        return core.estimate(
            core.weighted(c.correct.astype(np.float64), c.audit, None, self._inclusion, len(self.pool)), self.level
        )

    @cached_property
    def stratified(self) -> Estimate:
        """The labels drawn at random weighed within strata of the model's own confidence."""
        c = self.crossfit
        return strata.post_stratified(c.correct.astype(float), c.audit, self.pool.confidence, self.level)

    @cached_property
    def exact(self) -> tuple[float, float]:
        """An interval without any approximation, from the labels drawn at random alone."""
        if self.inclusion is not None:
            raise UnknownOption('interval="exact" needs labels drawn uniformly at random: leave out inclusion=')
        return exact.of_pool(int(self.crossfit.correct.sum()), self.labels, len(self.pool), self.level)

    @cached_property
    def sequence(self) -> Sequence:
        """The confidence sequence: valid after every label, so that one may stop when it says enough."""
        if self.inclusion is not None:
            raise UnknownOption('interval="anytime" needs labels drawn uniformly at random: leave out inclusion=')
        return looks(self.calibrator, self.crossfit, self.pool, self.level)

    @property
    def anytime(self) -> tuple[float, float]:
        """Where the confidence sequence stands now."""
        return float(self.sequence.lower[-1]), float(self.sequence.upper[-1])

    @property
    def saving(self) -> float:
        """How many times more labels a plain random sample would need for the same precision."""
        return self.difference.effective / max(self.simple.effective, 1e-12)

    def by(self, groups: str | ArrayLike, *, minimum: int = MINIMUM) -> dict[str, Group]:
        """Accuracy in groups: "predicted" class, "cluster", a column of the pool, or one value for each item.

        "true" gives the recall of each class. Groups with fewer than `minimum` labels say so instead of a figure.
        """
        if isinstance(groups, str) and groups == "true":
            return recall_by_class(self.pool, self.crossfit, self.level, minimum)
        return by_group(self.pool, self.calibrator, self.crossfit, groups, self.level, minimum)

    def labels_for(self, points: float = 3) -> int:
        """Labels drawn at random, in all, until the interval is ± so many percentage points."""
        return plan.labels_for(points / 100, self.estimate, self._one_label_variance, len(self.pool), self.level)

    @property
    def verdict(self) -> str:
        """ "go", "no-go" or "undecided" against the required accuracy; "not asked" without one."""
        if self.required is None:
            return "not asked"
        if self.lower >= self.required:
            return "go"
        return "no-go" if self.upper < self.required else "undecided"

    @property
    def more(self) -> int:
        """About how many labels more the verdict takes; 0 when it stands."""
        if self.verdict != "undecided" or self.required is None:
            return 0
        distance = abs(self.estimate - self.required)
        needed = plan.labels_to_decide(distance, self.estimate, self._one_label_variance, len(self.pool), self.level)
        return max(1, needed - self.labels)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return words.of_accuracy(self)

    def as_dict(self) -> dict[str, Any]:
        """Every figure, as plain values."""
        return words.figures_of(self)

    def __str__(self) -> str:
        return self.sentence

    @property
    def _one_label_variance(self) -> float:
        share = min(max(self.estimate, 0.01), 0.99)
        left = 1 - self.labels / len(self.pool)
        return share * (1 - share) * self.labels * max(left, 1e-9) / max(self.difference.effective, 1e-9)

    @property
    def _inclusion(self) -> FloatArray:
        n = len(self.crossfit.audit)
        return np.full(n, n / len(self.pool)) if self.inclusion is None else self.inclusion

    @property
    def _sample(self) -> core.Sample:
        c = self.crossfit
        return core.weighted(c.correct.astype(np.float64), c.audit, c.prediction, self._inclusion, len(self.pool))


def accuracy(
    source: OperationalCalibrator | Pool,
    positions: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    correct: ArrayLike | None = None,
    inclusion: ArrayLike | None = None,
    level: float = 0.95,
    interval: str = "asymptotic",
    required: float | None = None,
) -> Accuracy:
    """The model's accuracy on the pool with an interval, from a calibrator's audit items.

    Or from a pool and labels of positions that you drew at random yourself: uniformly, or with the probabilities
    `inclusion` with which each came in. Items that were chosen teach the predictions and are never averaged.
    `required` is the accuracy that you need: see `.verdict` and `.sentence`.
    """
    level = within(level, "level", 0, 1, below=True)
    if interval not in KINDS:
        raise UnknownOption(f"interval is {interval!r}: known are {', '.join(KINDS)}")
    required = None if required is None else within(required, "required", 0, 1)
    cal, fitted, pool, chances = _known(source, positions, labels, correct, inclusion)
    if len(fitted.audit) == 0:
        raise NotEnoughLabels(
            "no label of an item drawn at random: accuracy is measured on those alone. Ask with audit=0.25 or more, "
            "or pass audit= to tell which of your items were drawn uniformly at random"
        )
    claimed = float(pool.confidence.mean())
    rough = Accuracy(0.0, 0.0, 1.0, level, interval, len(fitted.audit), claimed, required, pool, fitted, chances, cal)
    found = rough.difference
    ends = (found.lower, found.upper) if interval == "asymptotic" else getattr(rough, interval)
    told: Mapping[str, Any] = {**vars(rough), "estimate": found.value, "lower": ends[0], "upper": ends[1]}
    kept = {name: told[name] for name in Accuracy.__dataclass_fields__}
    return Accuracy(**kept)


def _known(
    source: OperationalCalibrator | Pool,
    positions: ArrayLike | None,
    labels: ArrayLike | None,
    correct: ArrayLike | None,
    inclusion: ArrayLike | None,
) -> tuple[OperationalCalibrator | None, CrossFitted, Pool, FloatArray | None]:
    from opcal.assess.given import from_pool

    if isinstance(source, Pool):
        fitted, chances = from_pool(source, positions, labels, correct, inclusion)
        return None, fitted, source, chances
    if any(given is not None for given in (positions, labels, correct, inclusion)):
        raise UnknownOption("a calibrator knows its labels: pass positions and labels only with a Pool")
    return source, cross_fitted(source), source.pool_, None


__all__ = ["Accuracy", "BoolArray", "IntArray", "accuracy"]
