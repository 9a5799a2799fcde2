"""Table 1: accuracy at the origin and in operation, and sizes."""

from __future__ import annotations

import numpy as np

from opcal.core import metrics
from opcal.experiments.stages.context import Context
from opcal.experiments.stages.scores import rounded
from opcal.experiments.store import Figures


def measure(context: Context) -> Figures:
    shift, split = context.shift, context.split
    found = {
        "origin": float(shift.origin.correct.mean()),
        "training": float(shift.train.correct.mean()) if len(shift.train) else None,
        "operation": float(shift.field.correct.mean()),
        "origin brier": _brier(shift.pool(shift.origin).confidence, shift.origin.correct),
        "operation brier": _brier(shift.pool(shift.field).confidence, shift.field.correct),
        "trained on": len(shift.train),
        "pool": len(split.here),
        "unseen": len(split.unseen),
        "classes": shift.field.logits.shape[1],
        "features": shift.field.features.shape[1],
    }
    for name, mask in shift.groups.items():
        found[f"operation, {name}"] = float(shift.field.correct[mask].mean())
        found[f"items, {name}"] = int(mask.sum())
    return dict(rounded(found))


def _brier(confidence: np.ndarray, correct: np.ndarray) -> float:
    return metrics.brier(confidence, correct)
