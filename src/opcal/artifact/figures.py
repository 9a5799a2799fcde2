"""Held-out figures on the audit slice, for the manifest of an export."""

from __future__ import annotations

from typing import Any

import numpy as np

from opcal.calibrator import OperationalCalibrator
from opcal.core.method import WRONG, Answers, IntArray

FOLDS = 5
FEWEST = 10


def held_out_figures(calibrator: OperationalCalibrator) -> dict[str, Any]:
    """Brier score and mean of the calibrated confidence on audit items that did not teach it (5 folds)."""
    answers, drawn = calibrator.answers_, calibrator.audit_
    at = np.flatnonzero(drawn)
    if len(at) < FEWEST:
        return {"held_out_note": f"{len(at)} labels were drawn at random, held-out figures need {FEWEST}"}
    found = np.empty(len(at))
    for fold in range(FOLDS):
        out = np.arange(len(at)) % FOLDS == fold
        kept = np.setdiff1d(np.arange(len(answers)), at[out])
        other = _taught(calibrator, answers, kept)
        found[out] = other.confidence(calibrator.pool_.take(answers.positions[at[out]]))
    loss = (found - answers.correct[at]) ** 2
    return {
        "brier_held_out": float(loss.mean()),
        "brier_held_out_standard_error": float(loss.std(ddof=1) / np.sqrt(len(at))),
        "mean_confidence_held_out": float(found.mean()),
    }


def _taught(calibrator: OperationalCalibrator, answers: Answers, kept: IntArray) -> OperationalCalibrator:
    other = calibrator.anew()
    for row in kept.tolist():
        position, weight = answers.positions[[row]], answers.weight[[row]]
        if answers.labels[row] == WRONG:
            other.tell(position, correct=[False], weight=weight)
        else:
            other.tell(position, answers.labels[[row]], weight=weight)
    return other
