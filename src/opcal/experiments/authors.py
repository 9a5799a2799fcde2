"""Baselines as the authors' figures suggest that they were fitted: to the class label instead of "was it right?".

A regression of the class index (0, 1, 2, …) clipped to [0, 1] is 1 almost everywhere: its Brier score is then
1 − accuracy, the paper's .320 (task 1), .529 (task 3), .364 (task 4). Not for use: they show where figures come from.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from opcal.baselines.base import Told
from opcal.baselines.reference import reference_of
from opcal.baselines.surprise import likelihood_surprise
from opcal.core.method import FloatArray, IntArray
from opcal.experiments.methods import Fit, Scorer
from opcal.experiments.shift import Side, Split


def _clipped(values: Any) -> FloatArray:
    return np.clip(np.asarray(values, np.float64), 0, 1)


def _logistic(x: FloatArray, y: IntArray) -> Any:
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 100 steps are what the default takes, converged or not
        return LogisticRegression().fit(x, y)


def platt_on_classes(split: Split, rows: IntArray) -> Scorer:
    """The predicted class index of a logistic regression of the class on the confidence, taken for a confidence."""
    c, y = split.here.pool.confidence[rows, None], split.here.labels[rows]
    if len(np.unique(y)) < 2:
        return lambda side: _clipped(np.full(len(side), y[0]))
    model = _logistic(c, y)
    return lambda side: _clipped(model.predict(side.pool.confidence[:, None]))


def isotonic_on_classes(split: Split, rows: IntArray) -> Scorer:
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(out_of_bounds="clip").fit(split.here.pool.confidence[rows], split.here.labels[rows])
    return lambda side: _clipped(model.predict(side.pool.confidence))


def new_classifier(split: Split, rows: IntArray) -> Scorer:
    """The highest probability of a logistic regression on the logits, whose class may be another than the model's."""
    y = split.here.labels[rows]
    if len(np.unique(y)) < 2:
        return lambda side: np.ones(len(side))
    assert split.here.pool.logits is not None
    model = _logistic(np.asarray(split.here.pool.logits, np.float64)[rows], y)
    return lambda side: _clipped(model.predict_proba(np.asarray(side.pool.logits, np.float64)).max(1))


def surprise_on_classes(split: Split, rows: IntArray) -> Scorer:
    told_of_split = Told(split.here.pool.outputs, rows, split.here.labels[rows], split.here.correct[rows])
    surprise = likelihood_surprise(reference_of(told_of_split, split.training))
    told = surprise(split.here.pool.outputs.take(rows))
    fit = np.polynomial.Polynomial.fit(told, split.here.labels[rows], 3)

    def score(side: Side) -> FloatArray:
        return _clipped(fit(np.clip(surprise(side.pool.outputs), told.min(), told.max())))

    return score


AUTHORS: dict[str, Fit] = {
    "PS-conf": platt_on_classes,
    "PS-logit": new_classifier,
    "IR": isotonic_on_classes,
    "SAR": surprise_on_classes,
}
MOST_CLASSES = 200
"""A logistic regression of 1,000 classes on 1,000 logits takes many minutes and explains nothing more."""
