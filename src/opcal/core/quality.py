"""How good a confidence is, with intervals, from items drawn uniformly at random.

Means (Brier score, LCE) use the difference estimator: what an honest confidence would score predicts them. What is no
mean (calibration errors, the parts of the Brier score, AURC) gets a bootstrap interval, and calibration errors also
what a perfectly honest confidence would show on so few items, since they are never 0 by luck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opcal.core import assess, metrics
from opcal.core.costs import loss_from_threshold
from opcal.core.method import BoolArray, FloatArray, IntArray

DRAWS = 200
SLOW = {"ece_smooth": 50}
"""Draws of what takes milliseconds a time."""
FEWEST = 20
"""Labels below which nothing but "not enough" is said."""


@dataclass(frozen=True)
class Figure:
    """One measure with its interval; None where the labels do not suffice."""

    value: float | None
    lower: float | None
    upper: float | None
    honest: float | None = None
    """What a perfectly honest confidence would show on as many items."""


MEASURES: dict[str, Callable[[FloatArray, BoolArray], float]] = {
    "ece": metrics.ece,
    "ece_mass": lambda c, i: metrics.ece(c, i, binning="mass"),
    "ece_smooth": lambda c, i: metrics.ece(c, i, binning="smooth"),
    "reliability": lambda c, i: metrics.brier_decomposition(c, i).reliability,
    "resolution": lambda c, i: metrics.brier_decomposition(c, i).resolution,
    "uncertainty": lambda c, i: metrics.brier_decomposition(c, i).uncertainty,
    "aurc": metrics.aurc,
}
ERRORS = ("ece", "ece_mass", "ece_smooth", "reliability")


def quality(
    conf: FloatArray, correct: BoolArray, at: IntArray, pool: FloatArray, threshold: float, level: float, seed: int = 0
) -> dict[str, Figure]:
    """All measures of `conf` [n] at the drawn items; `pool` [N] is what the same confidence says everywhere."""
    names = ("brier", "lce", *MEASURES)
    if len(conf) < FEWEST:
        return dict.fromkeys(names, Figure(None, None, None))
    found = {"brier": brier(conf, correct, at, pool, level), "lce": lce(conf, correct, at, pool, threshold, level)}
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, len(conf), (DRAWS, len(conf)))
    chances = rng.random((DRAWS, len(conf))) < conf
    return found | {name: _by_bootstrap(name, conf, correct, rows, chances, level) for name in MEASURES}


def brier(conf: FloatArray, correct: BoolArray, at: IntArray, pool: FloatArray, level: float) -> Figure:
    """Mean of (c − I)², predicted by c(1 − c), whose variance for an honest c is c(1 − c)(1 − 2c)²."""
    inner = pool * (1 - pool)
    inner[at] = conf * (1 - conf)
    return _mean((conf - correct) ** 2, at, inner, inner * (1 - 4 * inner), level)


def lce(conf: FloatArray, correct: BoolArray, at: IntArray, pool: FloatArray, threshold: float, level: float) -> Figure:
    """LCE at λ, scaled to [0, 1] while it is estimated: acting loses u(1 − I), not acting I."""
    u = loss_from_threshold(threshold)
    top = max(1.0, u)
    everywhere = pool.copy()
    everywhere[at] = conf
    acts = everywhere >= threshold
    g = np.where(acts, u * (1 - everywhere), everywhere) / top
    spread = everywhere * (1 - everywhere) * (np.where(acts, u, 1.0) / top) ** 2
    y = np.where(acts[at], u * ~correct, correct) / top
    found = _mean(y, at, g, spread, level)
    assert found.value is not None
    assert found.lower is not None
    assert found.upper is not None
    return Figure(found.value * top, found.lower * top, found.upper * top)


def _mean(y: FloatArray, at: IntArray, g: FloatArray, spread: FloatArray, level: float) -> Figure:
    found = assess.estimate(assess.uniform(y, at, g, len(g), spread), level)
    return Figure(found.value, found.lower, found.upper)


def _by_bootstrap(
    name: str, conf: FloatArray, correct: BoolArray, rows: IntArray, chances: BoolArray, level: float
) -> Figure:
    """The central interval of the resampled values, shifted by what resampling alone adds."""
    measure = MEASURES[name]
    value = measure(conf, correct)
    draws = SLOW.get(name, DRAWS)
    drawn = np.array([measure(conf[r], correct[r]) for r in rows[:draws]])
    honest = float(np.mean([measure(conf, i) for i in chances[: draws // 2]])) if name in ERRORS else None
    tail = (1 - level) / 2
    low, high = np.quantile(drawn - (drawn.mean() - value), [tail, 1 - tail])
    return Figure(value, float(max(0.0, low)), float(min(1.0, high)), honest)
