"""Which model? Several candidates on the same items share the same labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opcal.assess.crossfit import audit_rows
from opcal.assess.groups import members
from opcal.calibrator import OperationalCalibrator
from opcal.core import assess as core
from opcal.core.assess import Estimate
from opcal.core.compare import Difference, difference
from opcal.core.method import WRONG, BoolArray, FloatArray, IntArray
from opcal.errors import IncompatiblePool, InvalidInput, NotEnoughLabels
from opcal.pool import Pool, names

FIRST = "this model"
MINIMUM = 10
"""Labelled items on which two models differ, from which a winner within a group is named."""


@dataclass(frozen=True)
class Duel:
    """The candidates within one group of items."""

    difference: dict[str, Difference]
    """Of each other candidate, minus that of the first."""

    @property
    def enough(self) -> bool:
        """Whether there are labels enough to compare every candidate with the first."""
        return all(d.labels >= min(MINIMUM, d.differ) for d in self.difference.values())

    @property
    def winner(self) -> str | None:
        """The best candidate here; None where these labels do not tell."""
        return _winner({n: d for n, d in self.difference.items() if d.differ}) if self.enough else None

    def __str__(self) -> str:
        differing = {name: d for name, d in self.difference.items() if d.differ}
        if not differing:
            return "they predict the same"
        if not self.enough:
            told = ", ".join(f"{d.labels} of {d.differ:,}" for d in differing.values())
            return f"not enough: {told} items on which they differ are labelled"
        told = "; ".join(f"{name} {d.value:+.1%} ({d.lower:+.1%} to {d.upper:+.1%})" for name, d in differing.items())
        return f"{told}: " + (f"{self.winner} is better" if self.winner else "undecided")

    def as_dict(self) -> dict[str, Any]:
        """Every figure, as plain values."""
        told = {name: asdict(d) for name, d in self.difference.items()}
        return {"winner": self.winner, "enough": self.enough, "difference": told}


def _winner(difference: Mapping[str, Difference]) -> str | None:
    better = {name: d.value for name, d in difference.items() if d.winner == "b"}
    if better:
        return max(better, key=lambda name: better[name])
    return FIRST if difference and all(d.winner == "a" for d in difference.values()) else None


@dataclass(frozen=True, eq=False)
class Comparison:
    """Every candidate's accuracy, and its difference from the first model's."""

    accuracy: dict[str, Estimate]
    difference: dict[str, Difference]
    """Of each other candidate, minus that of the first."""
    labels: int
    pools: dict[str, Pool] = field(repr=False)
    calibrator: OperationalCalibrator = field(repr=False)
    audit: IntArray = field(repr=False)
    labelled: IntArray = field(repr=False)
    extra: IntArray = field(repr=False)
    level: float = 0.95

    @property
    def winner(self) -> str | None:
        """The candidate that is surely better than the first, and by most; the first if surely better than all."""
        return _winner(self.difference)

    def by(self, groups: str | ArrayLike) -> dict[str, dict[str, Difference]]:
        """The differences within groups ("predicted" class of the first model, "cluster", a column), by candidate."""
        found, of = members(self.calibrator.pool_, self.calibrator, groups)
        first = self.pools[FIRST]
        return {
            name: {
                group: _difference(first, pool, self.audit, self.labelled, self.level, only=of == g)
                for g, group in enumerate(found)
            }
            for name, pool in self.pools.items()
            if name != FIRST
        }

    def winners(self, groups: str | ArrayLike) -> dict[str, Duel]:
        """The winner within each group, as `by` has them; none is named from fewer than ten labels of a group."""
        by = self.by(groups)
        names = next(iter(by.values()))
        return {group: Duel({name: of[group] for name, of in by.items()}) for group in names}

    @property
    def sentence(self) -> str:
        """The answer in words."""
        told = [
            f"{name} is right {d.value:+.1%} as often as {FIRST} ({d.lower:+.1%} to {d.upper:+.1%}; the two differ on "
            f"{d.differ:,} items, {d.labels} of them labelled)"
            for name, d in self.difference.items()
        ]
        verdict = f"The better one is {self.winner}." if self.winner else "These labels do not tell which is better."
        return "; ".join(told).replace(" as often as ", " compared with ") + ". " + verdict

    def as_dict(self) -> dict[str, Any]:
        """Every figure, as plain values."""
        return {
            "accuracy": {
                name: {"estimate": e.value, "lower": e.lower, "upper": e.upper} for name, e in self.accuracy.items()
            },
            "difference": {name: asdict(d) | {"winner": d.winner} for name, d in self.difference.items()},
            "labels": self.labels,
            "winner": self.winner,
            "sentence": self.sentence,
        }


def compare(
    cal: OperationalCalibrator,
    others: Mapping[str, Pool] | Pool,
    *,
    positions: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    level: float = 0.95,
) -> Comparison:
    """Accuracy of several models on the calibrator's pool, from its audit items' labels.

    `others` are pools of other models on the same items, matched by their ids. `positions` and `labels` add labels of
    items from `disagreements(cal, others)`, which are drawn uniformly among those on which the candidates differ.
    """
    pools = {FIRST: cal.pool_} | {name: aligned(cal.pool_, pool) for name, pool in _named(others).items()}
    rows = audit_rows(cal)
    audit, labelled = cal.answers_.positions[rows], cal.answers_.labels[rows].copy()
    extra = np.empty(0, np.intp)
    if positions is not None:
        if labels is None:
            raise InvalidInput("positions came without labels=: pass the true classes of these items")
        extra, told = _extra(cal, pools, positions, labels)
        keep = np.isin(audit, extra, invert=True)
        audit, labelled = np.concatenate([audit[keep], extra]), np.concatenate([labelled[keep], told])
    if len(audit) == 0:
        raise NotEnoughLabels("no label of an item drawn at random: models are compared on those alone; use audit=0.25")
    _need_classes(pools, audit, labelled)
    uniform = np.isin(audit, extra, invert=True)
    accuracy = {name: _accuracy(pool, audit[uniform], labelled[uniform], level) for name, pool in pools.items()}
    found = {
        name: _difference(cal.pool_, pool, audit, labelled, level) for name, pool in pools.items() if name != FIRST
    }
    return Comparison(accuracy, found, len(audit), pools, cal, audit, labelled, extra, level)


def disagreements(
    cal: OperationalCalibrator, others: Mapping[str, Pool] | Pool, k: int, random_state: int = 0
) -> IntArray:
    """k positions to label, drawn uniformly at random among the unlabelled items on which any two candidates differ."""
    pools = {FIRST: cal.pool_} | {name: aligned(cal.pool_, pool) for name, pool in _named(others).items()}
    free = _differ(list(pools.values()))
    free[cal.answers_.positions] = False
    candidates = np.flatnonzero(free)
    return np.random.default_rng([random_state, *b"differ"]).permutation(candidates)[:k].astype(np.intp)


def aligned(pool: Pool, other: Pool) -> Pool:
    """The other model's pool in this pool's order."""
    missing = set(pool.ids) - set(other.ids)
    if missing:
        raise IncompatiblePool(
            f"the other pool lacks {len(missing)} of {len(pool)} items, e.g. id {min(missing)!r}: compare models on "
            "the same items, matched by their ids"
        )
    if pool.classes is not None and other.classes is not None and pool.classes != other.classes:
        raise IncompatiblePool("the other pool has other class names, or another order of them: give both the same")
    return other if other.ids == pool.ids else other.take(other.positions(pool.ids))


def _named(others: Mapping[str, Pool] | Pool) -> dict[str, Pool]:
    found = {"the other": others} if isinstance(others, Pool) else dict(others)
    if not found or FIRST in found:
        raise InvalidInput(f"others is empty or holds {FIRST!r}: pass names with pools of other models")
    return found


def _differ(pools: list[Pool]) -> BoolArray:
    predicted = np.stack([pool.predicted for pool in pools])
    differ: BoolArray = (predicted != predicted[0]).any(0)
    return differ


def _extra(
    cal: OperationalCalibrator, pools: dict[str, Pool], positions: ArrayLike, labels: ArrayLike
) -> tuple[IntArray, IntArray]:
    at = names.positions("positions", positions, len(cal.pool_))
    told = names.class_indices("labels", labels, cal.pool_.classes, cal.pool_.n_classes)
    if len(told) != len(at):
        raise InvalidInput(f"labels has {len(told)} entries for {len(at)} positions: pass one for each")
    if not _differ(list(pools.values()))[at].all():
        raise InvalidInput("positions holds items on which all candidates agree: take them from disagreements(...)")
    return at, told


def _need_classes(pools: dict[str, Pool], at: IntArray, labels: IntArray) -> None:
    unknown = (labels == WRONG) & _differ(list(pools.values()))[at]
    if unknown.any():
        raise InvalidInput(
            f"{int(unknown.sum())} items on which the models differ were only told to be wrong: their classes are "
            "needed to know whether another model is right there"
        )


def _accuracy(pool: Pool, at: IntArray, labels: IntArray, level: float) -> Estimate:
    y = (pool.predicted[at] == labels).astype(float)
    return core.estimate(core.uniform(y, at, pool.confidence, len(pool)), level)


def _difference(
    a: Pool, b: Pool, at: IntArray, labels: IntArray, level: float, only: BoolArray | None = None
) -> Difference:
    """In `only` [N] where given."""
    rows = np.arange(len(a)) if only is None else np.flatnonzero(only)
    place = np.full(len(a), -1)
    place[rows] = np.arange(len(rows))
    inside = place[at] >= 0
    at, labels = at[inside], labels[inside]
    differ = (a.predicted != b.predicted)[rows]
    guess: FloatArray = (b.confidence - a.confidence)[rows]
    return difference(a.predicted[at] == labels, b.predicted[at] == labels, place[at], differ, guess, level)
