"""The control: nothing differs from the origin but a part of every image, which is missing."""

from __future__ import annotations

from opcal.experiments.methods import METHODS
from opcal.experiments.shift import split_of
from opcal.experiments.stages.context import Context
from opcal.experiments.stages.few import SHARE
from opcal.experiments.stages.scores import rounded, scores
from opcal.experiments.store import Figures

COMPARED = ("uncalibrated", "paper", "auto", "TS", "PS-conf", "PS-logit", "IR", "RFR")


def measure(context: Context) -> Figures:
    if context.shift.masked is None:
        return {}
    split = split_of(context.shift, context.seed, context.shift.masked, 0.5)
    found = {}
    for share in (SHARE, 1.0):
        rows = split.random(max(8, round(share * len(split.here))))
        found[f"{share:.0%}"] = {
            name: scores(METHODS[name](split, rows)(split.unseen), split.unseen.correct) for name in COMPARED
        }
    return {
        "shares": rounded(found),
        "accuracy": rounded(float(split.unseen.correct.mean())),
        "pool": len(split.here),
        "unseen": len(split.unseen),
    }
