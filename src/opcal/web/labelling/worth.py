"""What the labels are worth so far: the figures of the side panel, from a calibrator."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from opcal import costs
from opcal.assess import Accuracy, accuracy
from opcal.assess.crossfit import audit_rows, confidence_from
from opcal.calibrator import OperationalCalibrator
from opcal.core.cost_matrix import CostMatrix
from opcal.core.method import FloatArray
from opcal.errors import NotEnoughLabels
from opcal.report.curves import reliability

STEP = 20
"""Labels ahead that the panel looks."""
FEWEST_FOR_A_FIGURE = 4
"""Audit labels below which no accuracy is shown as measured."""
FEWEST_FOR_A_DIAGRAM = 16
POINTS = 8
"""Points of the efficiency curve that are worked out again after a restart."""


@dataclass
class Worth:
    """Keeps the efficiency curve as it grows."""

    confidence: FloatArray | None = None
    """Calibrated, of every item of the pool."""
    _points: dict[int, dict[str, float]] = field(default_factory=dict)

    def measure(self, cal: OperationalCalibrator, left: int | None) -> dict[str, Any]:
        """Figures for a panel. `left` is how much of the budget is left."""
        labels, pool = len(cal.answers_), cal.pool_
        found = _accuracy(cal)
        confidence = cal.confidence(pool) if found is None else found.crossfit.fitted
        self.confidence = confidence
        return {
            "claimed": float(pool.confidence.mean()),
            "expected": float(confidence.mean()) if labels else None,
            "measured": None if found is None else _measured(found, cal.audit, left),
            "audited": len(audit_rows(cal)),
            "reliability": _reliability(found),
            "efficiency": self._curve(cal, confidence, labels),
            "threshold": None if isinstance(cal.costs, CostMatrix) else cal.threshold_,
        }

    def _curve(self, cal: OperationalCalibrator, confidence: FloatArray, labels: int) -> list[dict[str, float]]:
        self._points = {n: p for n, p in self._points.items() if n < labels}
        if len(self._points) < min(labels, 2):
            for n in sorted({round(labels * j / POINTS) for j in range(1, POINTS)} - {0, labels}):
                earlier = confidence_from(cal, np.arange(n), cal.pool_.outputs)
                self._points[n] = _sure(cal, earlier)
        self._points[0] = _sure(cal, cal.pool_.confidence)
        if labels:
            self._points[labels] = _sure(cal, confidence)
        return [{"labels": n, **self._points[n]} for n in sorted(self._points)]


def _accuracy(cal: OperationalCalibrator) -> Accuracy | None:
    if len(audit_rows(cal)) < FEWEST_FOR_A_FIGURE:
        return None
    try:
        return accuracy(cal, level=0.95)
    except NotEnoughLabels:
        return None


def _measured(a: Accuracy, share: float, left: int | None) -> dict[str, Any]:
    low, high = (float(np.clip(end, 0, 1)) for end in (a.lower, a.upper))
    half, more = (high - low) / 2, STEP if left is None else min(STEP, left)
    n, size = a.labels, len(a.pool)
    then = min(n + more * share, size)
    shrunk = half * sqrt(n / then * max(1 - then / size, 0) / max(1 - n / size, 1e-9))
    return {
        "estimate": float(np.clip(a.estimate, 0, 1)),
        "lower": low,
        "upper": high,
        "labels": n,
        "half": half,
        "more": more,
        "half_then": shrunk,
    }


def _reliability(a: Accuracy | None) -> dict[str, Any] | None:
    if a is None or a.labels < FEWEST_FOR_A_DIAGRAM:
        return None
    return reliability(a.crossfit, a.pool.confidence[a.crossfit.audit])


def _sure(cal: OperationalCalibrator, confidence: FloatArray) -> dict[str, float]:
    """The share of items that one would act on, and the share that one would then act on wrongly, as expected."""
    if isinstance(cal.costs, CostMatrix):
        sure = costs.decisions(cal.costs, cal.pool_, confidence).action == 0
    else:
        sure = confidence >= cal.threshold_
    return {"sure": float(sure.mean()), "wrong": float((1 - confidence)[sure].sum() / len(confidence))}
