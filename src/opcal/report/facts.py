"""Everything that a report says, as plain values: the page, the card and the JSON are made from these alone."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

import opcal
from opcal import costs as cost
from opcal.assess import Accuracy, Certificate, accuracy, quality
from opcal.assess.crossfit import CrossFitted
from opcal.assess.groups import Group, class_name, members
from opcal.calibrator import OperationalCalibrator
from opcal.core.cost_matrix import CostMatrix
from opcal.core.costs import Costs
from opcal.core.method import IntArray
from opcal.core.quality import FEWEST
from opcal.report import curves

WORST = 5
"""Clusters that are shown as the ones where the model errs most."""
EXAMPLES = 4
LIBRARIES = ("numpy", "scipy", "matplotlib")


@dataclass(frozen=True)
class Source:
    """What a report is about, besides the calibrator."""

    name: str = "this field"
    settings: Mapping[str, Any] | None = None
    annotators: Mapping[str, int] | None = None
    skipped: int = 0
    made: str = ""
    """When, as it should be printed."""


def gather(
    cal: OperationalCalibrator,
    *,
    source: Source | None = None,
    required: float | None = None,
    costs: CostMatrix | Costs | float | None = None,
    certificate: Certificate | Mapping[str, Any] | None = None,
    level: float = 0.95,
    progress: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Measure all of it."""
    source = source or Source()
    progress("accuracy")
    a = accuracy(cal, level=level, required=required)
    c = a.crossfit
    progress("quality of the confidence")
    told = quality(cal, level=level, crossfit=c)
    enough = told.enough
    progress("curves")
    own = cal.pool_.confidence[c.audit]
    facts: dict[str, Any] = {
        "name": source.name,
        "made": source.made,
        "accuracy": a.as_dict() | {"by": _groups(a)},
        "quality": told.as_dict(),
        "reliability": curves.reliability(c, own) if enough else None,
        "losses": curves.losses(c, own) if enough else None,
        "efficiency": curves.efficiency(cal, c) if enough else None,
        "errors": worst_clusters(cal, c.fitted),
        "decisions": _decisions(cal, costs, c),
        "certificate": certificate.as_dict() if isinstance(certificate, Certificate) else certificate,
        "labels": _labels(cal, source),
        "assumptions": _assumptions(cal, source),
        "settings": _settings(cal, source),
        "provenance": _provenance(cal),
    }
    return facts | {"verdict": verdict(facts)}


def verdict(facts: Mapping[str, Any]) -> list[str]:
    """The first screen's sentences."""
    a, q, certificate = facts["accuracy"], facts["quality"], facts["certificate"]
    told = [a["sentence"]]
    if q["enough"]:
        old, new = q["before"]["brier"], q["after"]["brier"]
        change = "down" if new["value"] < old["value"] else "up"
        told.append(
            f"The confidence's squared error (Brier score) went {change} from {old['value']:.3f} to "
            f"{new['value']:.3f}, measured on {q['labels']} items drawn at random that took no part in their own "
            "prediction."
        )
    else:
        told.append(
            f"Not enough labels to judge the confidence: {q['labels']} drawn at random, {FEWEST} are needed at least."
        )
    told.append(certificate["sentence"] if certificate else "Nothing has been certified yet: see `opcal certify`.")
    return told


def _groups(a: Accuracy) -> dict[str, Any]:
    found = {name: a.by(name) for name in ("predicted", "true", "cluster")}
    return {name: {key: _plain(group) for key, group in groups.items()} for name, groups in found.items()}


def _plain(group: Group) -> dict[str, Any]:
    return asdict(group) | {"enough": group.enough}


def worst_clusters(cal: OperationalCalibrator, confidence: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    """The clusters with the greatest expected error, each with items that were found wrong, or else doubtful ones."""
    names, of = members(cal.pool_, cal, "cluster")
    answers = cal.answers_
    wrong = np.zeros(len(cal.pool_), bool)
    wrong[answers.positions[~answers.correct]] = True
    doubt = 1 - confidence
    rate = np.bincount(of, weights=doubt, minlength=len(names)) / np.maximum(np.bincount(of, minlength=len(names)), 1)
    found = []
    for k in np.argsort(-rate, kind="stable")[:WORST].tolist():
        inside = np.flatnonzero(of == k)
        shown = inside[np.argsort(-(doubt[inside] + 2 * wrong[inside]), kind="stable")][:EXAMPLES]
        labels, false = int(np.isin(answers.positions, inside).sum()), int(wrong[inside].sum())
        found.append(
            {
                "cluster": names[k],
                "items": len(inside),
                "expected_error": float(rate[k]),
                "claimed_error": float(1 - cal.pool_.confidence[inside].mean()),
                "labels": labels,
                "wrong": false,
                "examples": [_example(cal, int(i), float(confidence[i]), bool(wrong[i])) for i in shown],
            }
        )
    return found


def _example(cal: OperationalCalibrator, at: int, confidence: float, wrong: bool) -> dict[str, Any]:
    pool, answers = cal.pool_, cal.answers_
    row = np.flatnonzero(answers.positions == at)
    label = int(answers.labels[row[0]]) if row.size else None
    true = None if label is None else class_name(pool, label) if label >= 0 else "outside" if label == -1 else "wrong"
    return {
        "id": pool.id_of(at),
        "payload": None if pool.payload is None else pool.payload[at],
        "predicted": class_name(pool, int(pool.predicted[at])),
        "true": true,
        "before": float(pool.confidence[at]),
        "after": confidence,
        "wrong": wrong,
    }


def _decisions(cal: OperationalCalibrator, costs: CostMatrix | Costs | float | None, c: CrossFitted) -> dict[str, Any]:
    """What to do with the pool, by the costs or, without any, by the threshold alone."""
    given = costs if costs is not None else cal.costs
    if given is None:
        level = min(cal.threshold_, 1 - 1e-9)
        given = Costs(level / (1 - level))
    made = cost.decisions(given, cal.pool_, c.prediction)
    matrix = cost.of_pool(given, cal.pool_)
    classes = [class_name(cal.pool_, k) for k in range(len(matrix.act))]
    thresholds = matrix.thresholds().tolist()
    return {
        "given": costs is not None or cal.costs is not None,
        "counts": made.counts,
        "capacities": dict(zip(matrix.names, matrix.capacities, strict=True)),
        "expected_gain": float(made.expected.mean()),
        "thresholds": {n: t if t <= 1 else None for n, t in zip(classes, thresholds, strict=True)},
        "curve": {
            "items": made.curve.items.tolist(),
            "expected": made.curve.expected.tolist(),
            "regret": made.curve.regret.tolist(),
            "best": made.curve.best,
        },
        "measured": _measured(given, cal, made.action, c),
    }


def _measured(
    costs: CostMatrix | Costs | float, cal: OperationalCalibrator, action: IntArray, c: CrossFitted
) -> dict[str, Any] | None:
    """On audit items, whose actions were decided by fits without their own labels."""
    if len(c.audit) < FEWEST:
        return None
    return asdict(cost.measured(costs, cal.pool_, action, c.audit, c.labels))


def _labels(cal: OperationalCalibrator, source: Source) -> dict[str, Any]:
    answers, drawn = cal.answers_, int(cal.audit_.sum())
    return {
        "labels": len(answers),
        "random": drawn,
        "chosen": len(answers) - drawn,
        "pool": len(cal.pool_),
        "share_random": cal.audit,
        "inclusion": len(cal.walked_) / len(cal.pool_),
        "design": cal.design if isinstance(cal.design, str) else repr(cal.design),
        "annotators": dict(source.annotators or {}),
        "skipped": source.skipped,
    }


def _assumptions(cal: OperationalCalibrator, source: Source) -> list[str]:
    told = [
        "Labels are true. Where annotators disagree, the settled answer counts.",
        "Random items were drawn uniformly from the whole pool before any label was known; accuracy and quality are "
        "measured on them alone. Chosen items teach the predictions and are never averaged.",
        "Every figure is about this pool. It holds for later items as long as they come from the same source.",
        f"No prediction was changed: {len(cal.pool_):,} predictions are those of the model.",
    ]
    if source.skipped:
        told.append(
            f"{source.skipped} asked items were skipped. If the skipped ones are harder than the rest, the true "
            "accuracy is lower than printed."
        )
    return told


def _settings(cal: OperationalCalibrator, source: Source) -> dict[str, str]:
    settings = dict(source.settings or {}) or cal.get_params()
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value)
        for name, value in settings.items()
    }


def _provenance(cal: OperationalCalibrator) -> dict[str, Any]:
    pool, answers = cal.pool_, cal.answers_
    return {
        "opcal": opcal.__version__,
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "model": dict(pool.model),
        "pool_sha256": digest(pool.predicted.astype(np.int64), pool.confidence.astype(np.float64)),
        "answers_sha256": digest(answers.positions.astype(np.int64), answers.labels.astype(np.int64)),
    }


def digest(*arrays: np.ndarray[Any, Any]) -> str:
    """Of predictions and confidences, or of answers in the order told."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
