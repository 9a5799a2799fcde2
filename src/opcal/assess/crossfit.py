"""Predictions in which no item's own label takes part: the calibrator is fitted anew without each fold."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from opcal._threads import one_thread
from opcal.core.method import Answers, BoolArray, FloatArray, IntArray, Learner, Outputs
from opcal.methods import method_named

if TYPE_CHECKING:
    from opcal.calibrator import OperationalCalibrator

FOLDS = 8


@dataclass(frozen=True)
class CrossFitted:
    """What the calibrator says about the pool and about its audit items, honestly."""

    audit: IntArray  # [n] positions of the items drawn uniformly at random, in the order of the draw
    correct: BoolArray  # [n]
    labels: IntArray  # [n]
    prediction: FloatArray  # [N]; at a labelled item, by the fit without its fold; elsewhere, the mean over the fits
    fitted: FloatArray  # [N], by the fit to all answers

    @property
    def held_out(self) -> FloatArray:
        """The calibrated confidence of the audit items, each without its own label [n]."""
        return self.prediction[self.audit]


def cross_fitted(cal: OperationalCalibrator, folds: int = FOLDS) -> CrossFitted:
    """Every labelled item teaches the fits of the other folds and is predicted by that of its own.

    Chosen items too: were they predicted by fits that know them, an audit item that would have been chosen, had it not
    been drawn first, would no longer stand for them.
    """
    answers, rows = cal.answers_, audit_rows(cal)
    at = answers.positions[rows]
    with one_thread():
        fitted = cal.learner_.predict(cal.pool_.outputs).mean
        prediction = fitted.copy() if len(rows) == 0 else _predictions(cal, answers, min(folds, len(answers)))
    return CrossFitted(at, answers.correct[rows], answers.labels[rows], prediction, fitted)


def audit_rows(cal: OperationalCalibrator) -> IntArray:
    """Which of `answers_` are audit items: in the order of the audit's walk, else, where they were declared, as told.

    By the walk they are a uniform sample at every length; in the order told they need not be.
    """
    rows = np.flatnonzero(cal.audit_)
    rank = np.full(len(cal.pool_), -1)
    rank[cal.walked_] = np.arange(len(cal.walked_))
    places = rank[cal.answers_.positions[rows]]
    return rows if (places < 0).any() else rows[np.argsort(places, kind="stable")]


def _predictions(cal: OperationalCalibrator, answers: Answers, folds: int) -> FloatArray:
    fold = np.random.default_rng([*b"folds", len(answers)]).permutation(len(answers)) % folds
    total, own = np.zeros(len(cal.pool_)), np.empty(len(answers))
    for f in range(folds):
        found = confidence_from(cal, np.flatnonzero(fold != f), cal.pool_.outputs)
        total += found / folds
        own[fold == f] = found[answers.positions[fold == f]]
    total[answers.positions] = own
    return total


def confidence_from(cal: OperationalCalibrator, rows: IntArray, outputs: Outputs) -> FloatArray:
    """Confidence of any items by a fit to these of the answers alone; one thread is ten times quicker here."""
    with one_thread():
        return refitted(cal, rows).predict(outputs).mean


def refitted(cal: OperationalCalibrator, rows: IntArray) -> Learner:
    """The calibrator's method told only these of its answers; what the unlabelled pool says is not worked out again."""
    learner = method_named(cal.method).begin(cal.field_)
    learner.tell(subset(cal.answers_, rows))
    return learner


def subset(answers: Answers, rows: IntArray) -> Answers:
    """These answers, in the order told."""
    return Answers(*(getattr(answers, f.name)[rows] for f in fields(answers)))
