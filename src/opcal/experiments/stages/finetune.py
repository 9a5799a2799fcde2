"""Fine-tuning as a rival: the last layer and the whole network, alone and before calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from opcal.calibrator import OperationalCalibrator
from opcal.core.method import FloatArray, IntArray
from opcal.experiments.shift import Part, Side, Split
from opcal.experiments.stages.context import Context
from opcal.experiments.stages.curves import counts_of
from opcal.experiments.stages.scores import rounded, scores
from opcal.experiments.store import Figures
from opcal.experiments.tasks.base import Examples, Model
from opcal.pool import Pool

SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)
QUICK_SHARES = (0.1, 0.5)
FIRST = 0.5
"""Fine-tune, then calibrate: half of the labels for the one, what comes after them for the other."""


def measure(context: Context) -> Figures:
    split = context.split
    counts = counts_of(len(split.here), QUICK_SHARES if context.settings.quick else SHARES)
    whole_network = context.task.whole_network or context.settings.size == "full"
    layers = {"last layer": False} | ({"whole network": True} if whole_network else {})
    found: dict[str, Any] = {name: _tuned(context, split, counts, whole) for name, whole in layers.items()}
    best = "whole network" if whole_network else "last layer"
    found["then calibrated"] = _then_calibrated(context, split, counts, best == "whole network")
    return {"tuned": rounded(found), "before": _before(split), "pool": len(split.here), "then calibrated": best}


def _before(split: Split) -> Figures:
    right = split.unseen.correct
    return dict(rounded(scores(split.unseen.pool.confidence, right) | {"accuracy": float(right.mean())}))


def _examples(context: Context, split: Split, rows: IntArray) -> Examples:
    return context.domains.field.take(split.here.rows[rows])


def _tuned(context: Context, split: Split, counts: list[int], whole: bool) -> list[Figures]:
    quick = context.settings.quick
    found = []
    for n in counts:
        examples = _examples(context, split, split.random(n))
        tuned = context.model.fine_tuned(examples, context.seed, whole=whole, quick=quick)
        found.append(_judged(n, _side(context, tuned, split.unseen)))
    return found


def _judged(labels: int, side: Side, confidence: FloatArray | None = None) -> Figures:
    """A fine-tuned model is judged by its own predictions: they may differ from the original ones."""
    c = side.pool.confidence if confidence is None else confidence
    return {"labels": labels, "accuracy": float(side.correct.mean())} | scores(c, side.correct)


def _side(context: Context, model: Model, side: Side) -> Side:
    inputs = context.domains.field.inputs[side.rows]
    part = Part(*model.outputs(inputs), side.labels)
    return Side(part, Pool.from_arrays(part.features, part.logits, head=model.head), side.rows)


def _then_calibrated(context: Context, split: Split, counts: list[int], whole: bool) -> Figures:
    """The first half of all labels fine-tunes; those beyond it calibrate the fine-tuned model."""
    first = round(FIRST * len(split.here))
    order = split.random(len(split.here))
    examples = _examples(context, split, order[:first])
    tuned = context.model.fine_tuned(examples, context.seed, whole=whole, quick=context.settings.quick)
    here, unseen = _side(context, tuned, split.here), _side(context, tuned, split.unseen)
    found: Figures = {"fine-tuned with": first, "before": _judged(first, unseen), "paper": [], "auto": []}
    for more in counts_of(len(split.here) - first, (0.1, 0.3, 1.0)):
        rows = np.sort(order[first : first + more])
        for method in ("paper", "auto"):
            made = OperationalCalibrator(method, random_state=context.seed)
            made.fit(here.pool, rows, labels=here.labels[rows])
            found[method].append(_judged(first + more, unseen, made.confidence(unseen.pool)))
    return found
