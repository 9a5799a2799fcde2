"""Accuracy in parts of the pool; where the labels do not suffice, it says so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from opcal.assess.crossfit import CrossFitted
from opcal.calibrator import OperationalCalibrator
from opcal.core import assess as core
from opcal.core.exact import clopper_pearson
from opcal.core.method import IntArray
from opcal.errors import LengthMismatch, UnknownOption
from opcal.pool import Pool


@dataclass(frozen=True)
class Group:
    """A part of the pool; the three figures are None where fewer labels than the minimum fell into it."""

    items: int | None
    """None where nobody knows: how many items are truly of a class."""
    labels: int
    estimate: float | None
    lower: float | None
    upper: float | None

    @property
    def enough(self) -> bool:
        return self.estimate is not None

    def __str__(self) -> str:
        if self.estimate is None or self.lower is None or self.upper is None:
            return f"not enough: {self.labels} labels"
        return f"{self.estimate:.1%} ({self.lower:.1%} to {self.upper:.1%}, {self.labels} labels)"


def by_group(
    pool: Pool,
    cal: OperationalCalibrator | None,
    c: CrossFitted,
    groups: str | ArrayLike,
    level: float,
    minimum: int,
) -> dict[str, Group]:
    """The difference estimator within each group."""
    names, of = members(pool, cal, groups)
    return {name: _group(c, of == g, level, minimum) for g, name in enumerate(names)}


def _group(c: CrossFitted, inside: np.ndarray[tuple[int], np.dtype[np.bool_]], level: float, minimum: int) -> Group:
    drawn, size = inside[c.audit], int(inside.sum())
    n = int(drawn.sum())
    if n < min(minimum, size):
        return Group(size, n, None, None, None)
    place = np.cumsum(inside) - 1
    sample = core.uniform(c.correct[drawn].astype(np.float64), place[c.audit[drawn]], c.prediction[inside], size)
    found = core.estimate(sample, level)
    return Group(size, n, found.value, found.lower, found.upper)


def recall_by_class(pool: Pool, c: CrossFitted, level: float, minimum: int) -> dict[str, Group]:
    """Of the items that truly are of a class, the share that the model calls so; exact intervals."""
    found = {}
    for label in np.unique(c.labels[c.labels >= 0]).tolist():
        true = c.labels == label
        n, k = int(true.sum()), int(c.correct[true].sum())
        ends = clopper_pearson(k, n, level) if n >= minimum else (None, None)
        found[class_name(pool, label)] = Group(None, n, k / n if n >= minimum else None, *ends)
    return found


def members(pool: Pool, cal: OperationalCalibrator | None, groups: str | ArrayLike) -> tuple[list[str], IntArray]:
    """Names of the groups and each item's group [N]."""
    if isinstance(groups, str) and groups == "predicted":
        classes, of = np.unique(pool.predicted, return_inverse=True)
        return [class_name(pool, int(k)) for k in classes], of.astype(np.intp)
    if isinstance(groups, str) and groups == "cluster":
        if cal is None:
            raise UnknownOption('groups="cluster" needs a calibrator: pass it instead of the pool')
        clustering = cal.field_.clustering
        return [str(k) for k in range(len(clustering.medoids))], clustering.assignment
    return _of_values(_values(pool, groups), len(pool))


def _values(pool: Pool, groups: str | ArrayLike) -> ArrayLike:
    if not isinstance(groups, str):
        return groups
    if groups not in pool.columns:
        known = ", ".join(["predicted", "true", "cluster", *pool.columns])
        raise UnknownOption(f"groups is {groups!r}: known are {known}; or pass one value for each item of the pool")
    return pool.columns[groups]


def _of_values(values: ArrayLike, size: int) -> tuple[list[str], IntArray]:
    texts = np.array([str(value) for value in np.asarray(values, dtype=object).ravel()])
    if len(texts) != size:
        raise LengthMismatch(f"groups has {len(texts)} values for {size} items: pass one for each item of the pool")
    names, of = np.unique(texts, return_inverse=True)
    return [str(name) for name in names], of.astype(np.intp)


def class_name(pool: Pool, label: int) -> str:
    """The class's name, or its number."""
    return pool.classes[label] if pool.classes is not None and 0 <= label < len(pool.classes) else str(label)
