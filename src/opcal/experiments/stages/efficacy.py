"""Table 2 and what belongs to it: every method with all labels of the pool, judged on unseen items."""

from __future__ import annotations

import time

from opcal.core import metrics
from opcal.experiments.authors import AUTHORS, MOST_CLASSES
from opcal.experiments.methods import available, every
from opcal.experiments.shift import Split
from opcal.experiments.stages.context import Context
from opcal.experiments.stages.scores import rounded, scores
from opcal.experiments.store import Figures


def measure(context: Context) -> Figures:
    split, shift = context.split, context.shift
    rows, found, seconds = every(split), {}, {}
    for name, fit in available(split).items():
        started = time.process_time()
        scorer = fit(split, rows)
        confidence = scorer(split.unseen)
        seconds[name] = round(time.process_time() - started, 3)
        found[name] = scores(confidence, split.unseen.correct)
        found[name]["brier on the pool"] = metrics.brier(scorer(split.here), split.here.correct)
        for group, mask in shift.groups.items():
            inside = mask[split.unseen.rows]
            found[name][f"brier, {group}"] = metrics.brier(confidence[inside], split.unseen.correct[inside])
    return {
        "methods": rounded(found),
        "authors": rounded(_as_the_authors(split)),
        "accuracy": rounded(float(split.unseen.correct.mean())),
        "labels": len(rows),
        "unseen": len(split.unseen),
        "cpu seconds": seconds,
    }


def _as_the_authors(split: Split) -> Figures:
    if split.here.part.logits.shape[1] > MOST_CLASSES:
        return {}
    rows = every(split)
    return {name: metrics.brier(fit(split, rows)(split.unseen), split.unseen.correct) for name, fit in AUTHORS.items()}
