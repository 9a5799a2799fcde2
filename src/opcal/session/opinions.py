"""Several annotators: what their errors do to the weight of a label, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from opcal.core import annotators
from opcal.core.annotators import DawidSkene
from opcal.core.method import IntArray
from opcal.session.standing import Settled, Standing, Voice

STEPS = 20
"""Weights are rounded to twentieths, so that most answers leave the weights of the others as they are."""


@dataclass(frozen=True)
class Agreement:
    """How far the annotators of a session agree."""

    items: int
    """Items with two opinions or more."""
    alpha: float | None
    """Krippendorff's α over all annotators; None where it cannot be said."""
    kappa: dict[str, float | None]
    """Cohen's κ of each pair, "ann / bob"."""
    errors: dict[str, float]
    """Estimated share of wrong answers of each annotator (Dawid–Skene); empty without a second opinion."""


@dataclass(frozen=True)
class Opinions:
    """Opinions in force that name a class, as arrays [n]."""

    positions: list[int]
    people: list[str]
    item: IntArray
    annotator: IntArray
    category: IntArray
    classes: int

    @classmethod
    def of(cls, voices: Sequence[Voice], n_classes: int | None) -> Opinions:
        named = [v for v in voices if v.label is not None and v.label >= -1 and not v.arbiter]
        positions, item = np.unique([v.position for v in named], return_inverse=True)
        people, annotator = np.unique([v.annotator for v in named], return_inverse=True)
        label = np.array([v.label for v in named], dtype=np.intp)
        known = n_classes if n_classes is not None else max(int(label.max(initial=0)) + 1, 2)
        # "Outside the classes" is a category of its own, the last one, where somebody used it.
        category = np.where(label < 0, known, label).astype(np.intp)
        classes = known + bool((label < 0).any())
        return cls(positions.tolist(), people.tolist(), item, annotator, category, classes)

    @property
    def several(self) -> int:
        """Items with two opinions or more."""
        return int((np.bincount(self.item) > 1).sum()) if len(self.item) else 0

    def fitted(self) -> DawidSkene:
        return annotators.dawid_skene(self.item, self.annotator, self.category, self.classes)


def weights(standing: Standing, settled: Sequence[Settled]) -> list[float]:
    """Weight of each settled label in the fit: all 1 unless somebody gave a second opinion."""
    voices = standing.everything()
    opinions = Opinions.of(voices, standing.settings.n_classes)
    if opinions.several == 0:
        return [1.0] * len(settled)
    model = opinions.fitted()
    row = {position: i for i, position in enumerate(opinions.positions)}
    errors = dict(zip(opinions.people, model.error.tolist(), strict=True))
    sure = [_certainty(standing, label, model, row, errors) for label in settled]
    weight = annotators.above_chance(np.array(sure), opinions.classes)
    rounded: list[float] = (np.round(weight * STEPS) / STEPS).tolist()
    return rounded


def _certainty(
    standing: Standing, label: Settled, model: DawidSkene, row: dict[int, int], errors: dict[str, float]
) -> float:
    """The probability that a settled label is true."""
    if standing.decision(label.position) is not None:
        return 1.0
    if label.label >= -1 and label.position in row:
        return float(model.posterior[row[label.position]][label.label])  # OUTSIDE, -1, is the last category
    said = [errors.get(v.annotator, 0.0) for v in standing.labels(label.position)]
    return 1 - min(said, default=0.0)


def agreement(standing: Standing) -> Agreement:
    opinions = Opinions.of(standing.everything(), standing.settings.n_classes)
    if opinions.several == 0:
        return Agreement(0, None, {}, {})
    alpha = annotators.krippendorff_alpha(opinions.item, opinions.category)
    errors = dict(zip(opinions.people, opinions.fitted().error.tolist(), strict=True))
    return Agreement(opinions.several, _or_none(alpha), _kappas(opinions), errors)


def _kappas(opinions: Opinions) -> dict[str, float | None]:
    said = [
        dict(zip(opinions.item[opinions.annotator == a], opinions.category[opinions.annotator == a], strict=True))
        for a in range(len(opinions.people))
    ]
    found = {}
    for a, b in combinations(range(len(said)), 2):
        both = sorted(said[a].keys() & said[b].keys())
        if both:
            first, second = (np.array([said[who][i] for i in both]) for who in (a, b))
            found[f"{opinions.people[a]} / {opinions.people[b]}"] = _or_none(annotators.cohen_kappa(first, second))
    return found


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
