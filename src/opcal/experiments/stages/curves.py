"""Figures of efficiency: how confidence improves with every label spent."""

from __future__ import annotations

import numpy as np

from opcal.experiments.methods import METHODS
from opcal.experiments.shift import Split
from opcal.experiments.stages.asking import ASKING, asked, step_of
from opcal.experiments.stages.context import Context
from opcal.experiments.stages.scores import rounded, scores
from opcal.experiments.store import Figures

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
QUICK_SHARES = (0.02, 0.1, 0.4)
MANY_CLASSES, MANY = 100, 0.2
"""Above 100 classes the default method stops at a fifth of the labels: with all 2,500 one refit takes minutes."""
RIVALS = ("TS", "PS-logit", "RFR", "Venn–Abers")


def measure(context: Context) -> Figures:
    split, quick = context.split, context.settings.quick
    counts = counts_of(len(split.here), QUICK_SHARES if quick else SHARES)
    own = {"paper": counts, "auto": counts}
    if split.here.part.logits.shape[1] > MANY_CLASSES:
        own["auto"] = [n for n in counts if n <= MANY * len(split.here)]
    found = {method: _own(split, method, own[method]) for method in ASKING}
    for name in RIVALS:
        found[name] = [_at(n, METHODS[name](split, split.random(n))(split.unseen), split) for n in counts]
    found["uncalibrated"] = [_at(0, split.unseen.pool.confidence, split)]
    return {"curves": rounded(found), "pool": len(split.here), "unseen": len(split.unseen)}


def counts_of(pool: int, shares: tuple[float, ...]) -> list[int]:
    return sorted({min(pool, max(8, round(share * pool))) for share in shares})


def _own(split: Split, method: str, counts: list[int]) -> list[Figures]:
    calibrator = ASKING[method](split, counts[-1], 0.9)
    # The batch grows with what is known: a twentieth of the labels so far, one at a time for the paper's.
    points, before = [], 0
    for count in counts:
        for told, made in asked(calibrator, split, [count - before], step_of(method, count)):
            points.append(_at(before + told, made.confidence(split.unseen.pool), split))
        before = count
    return points


def _at(labels: int, confidence: np.ndarray, split: Split) -> Figures:
    return {"labels": labels} | scores(confidence, split.unseen.correct)
