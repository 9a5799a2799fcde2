"""The curves of a report, all on audit items and with predictions that never saw the item's own label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opcal.assess.crossfit import CrossFitted, audit_rows, confidence_from
from opcal.calibrator import OperationalCalibrator
from opcal.core import metrics
from opcal.core.method import FloatArray, IntArray

POINTS = 6
FOLDS = 4


def reliability(c: CrossFitted, before: FloatArray) -> dict[str, Any]:
    """Accuracy against confidence in bins of equal counts, eight items at least, with exact 90 % bands."""
    bins = max(2, min(10, len(c.audit) // 8))
    found = {}
    for name, confidence in (("before", before), ("after", c.held_out)):
        curve = metrics.reliability_curve(confidence, c.correct, bins=bins, level=0.9, binning="mass")
        found[name] = {
            key: getattr(curve, key).tolist() for key in ("confidence", "accuracy", "lower", "upper", "count")
        }
    return found


def losses(c: CrossFitted, before: FloatArray) -> dict[str, list[float]]:
    """(1 − λ)·LCE against λ, before and after, with "act on nothing" and "act on everything"."""
    levels = [round(0.05 * i, 2) for i in range(1, 20)]
    found: dict[str, list[float]] = {"threshold": levels, "before": [], "after": [], "nothing": [], "everything": []}
    for level in levels:
        old = metrics.lce_comparison(before, c.correct, level, scaled=True)
        new = metrics.lce_comparison(c.held_out, c.correct, level, scaled=True)
        for name, value in zip(
            ("before", "after", "nothing", "everything"),
            (old.lce, new.lce, old.act_on_nothing, old.act_on_everything),
            strict=True,
        ):
            found[name].append(value)
    return found


def efficiency(
    cal: OperationalCalibrator, c: CrossFitted, progress: Callable[[int, int], None] = lambda done, of: None
) -> dict[str, list[float]]:
    """Confident right and false predictions and the Brier score among audit items, as the labels grew."""
    rows, total = audit_rows(cal), len(cal.answers_)
    counts = sorted({round(total * j / POINTS) for j in range(1, POINTS + 1)} - {0})
    found: dict[str, list[float]] = {"labels": [], "right": [], "false": [], "brier": []}
    _note(found, 0, cal.pool_.confidence[c.audit], c, cal.threshold_)
    for done, count in enumerate(counts):
        _note(found, count, _held_out(cal, rows, count), c, cal.threshold_)
        progress(done + 1, len(counts))
    return found


def _held_out(cal: OperationalCalibrator, rows: IntArray, count: int) -> FloatArray:
    """Confidence of the audit items by fits to the first `count` answers without the item's fold."""
    fold = np.arange(len(rows)) % min(FOLDS, len(rows))
    at, held = cal.answers_.positions[rows], np.empty(len(rows))
    for f in np.unique(fold):
        out = fold == f
        held[out] = confidence_from(cal, np.setdiff1d(np.arange(count), rows[out]), cal.pool_.outputs.take(at[out]))
    return held


def _note(found: dict[str, list[float]], count: int, confidence: FloatArray, c: CrossFitted, threshold: float) -> None:
    sure = metrics.confident(confidence, c.correct, threshold)
    found["labels"].append(count)
    found["right"].append(sure.right / len(c.correct))
    found["false"].append(sure.false / len(c.correct))
    found["brier"].append(metrics.brier(confidence, c.correct))
