"""The figures by which a confidence is judged, as plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import sem

from opcal.core import metrics
from opcal.core.method import BoolArray, FloatArray
from opcal.experiments.store import Figures

LAMBDAS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97)
CONFIDENT = (0.8, 0.9)
DIGITS = 6


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner) for inner in value]
    if isinstance(value, (float, np.floating)):
        return round(float(value), DIGITS)
    return int(value) if isinstance(value, np.integer) else value


def scores(confidence: FloatArray, correct: BoolArray) -> Figures:
    parts = metrics.brier_decomposition(confidence, correct)
    return {
        "brier": parts.brier,
        "reliability": parts.reliability,
        "resolution": parts.resolution,
        "uncertainty": parts.uncertainty,
        "remainder": parts.remainder,
        "ece": metrics.ece(confidence, correct),
        "aurc": metrics.aurc(confidence, correct),
        "lce": [metrics.lce(confidence, correct, level) for level in LAMBDAS],
    } | {f"confident {level}": confident(confidence, correct, level) for level in CONFIDENT}


def confident(confidence: FloatArray, correct: BoolArray, level: float) -> Figures:
    """High-confidence predictions, and the loss due to confidence error in both scalings."""
    counted = metrics.confident(confidence, correct, level)
    compared = metrics.lce_comparison(confidence, correct, level)
    return {
        "right": counted.right,
        "false": counted.false,
        "lce": compared.lce,
        "lce scaled": compared.lce * (1 - level),
        "nothing": compared.act_on_nothing,
        "everything": compared.act_on_everything,
    }


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean and its standard error, 0 for a single value."""
    return float(np.mean(values)), float(sem(values)) if len(values) > 1 else 0.0
