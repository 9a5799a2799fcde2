"""Table 3: a tenth of the labels, chosen by each method itself; high-confidence predictions right and false."""

from __future__ import annotations

from typing import Any

import numpy as np

from opcal.core import metrics
from opcal.experiments.methods import METHODS
from opcal.experiments.shift import Split
from opcal.experiments.stages.asking import ASKING, asked, step_of
from opcal.experiments.stages.context import Context
from opcal.experiments.stages.scores import CONFIDENT, confident, rounded, scores
from opcal.experiments.store import Figures

SHARE = 0.1
RIVALS = ("TS", "PS-logit", "Venn–Abers", "RFR", "SAR", "DAC")


def measure(context: Context) -> Figures:
    split = context.split
    labels = max(8, round(SHARE * len(split.here)))
    found: dict[str, Any] = {"uncalibrated": scores(split.unseen.pool.confidence, split.unseen.correct)}
    found["paper"] = {f"λ={level}": _own(split, "paper", labels, level) for level in CONFIDENT}
    found["auto"] = {"any λ": _own(split, "auto", labels, CONFIDENT[-1])}
    for name in RIVALS:
        confidence = METHODS[name](split, split.random(labels))(split.unseen)
        found[name] = scores(confidence, split.unseen.correct)
    return {
        "labels": labels,
        "unseen": len(split.unseen),
        "accuracy": rounded(float(split.unseen.correct.mean())),
        "methods": rounded(found),
    }


def _own(split: Split, method: str, labels: int, level: float) -> Figures:
    calibrator = ASKING[method](split, labels, level)
    for _ in asked(calibrator, split, [labels], step_of(method, labels)):
        pass
    here, unseen = calibrator.confidence(split.here.pool), calibrator.confidence(split.unseen.pool)
    told = calibrator.answers_.positions
    rest = np.setdiff1d(np.arange(len(split.here)), told)
    return scores(unseen, split.unseen.correct) | {
        "on the pool": metrics.brier(here, split.here.correct),
        "on what it asked for": metrics.brier(here[told], split.here.correct[told]),
        "on the rest of the pool": metrics.brier(here[rest], split.here.correct[rest]),
        "pool, confident": confident(here, split.here.correct, level),
    }
