"""A calibrator to a file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import opcal
from opcal._threads import one_thread
from opcal.artifact import container, signing
from opcal.artifact.artifact import Artifact
from opcal.artifact.gains import gains_of
from opcal.artifact.manifest import Layout, Manifest
from opcal.artifact.scorers import scorer_of
from opcal.artifact.tree import Encoder
from opcal.calibrator import OperationalCalibrator
from opcal.core.cost_matrix import CostMatrix
from opcal.core.costs import Costs
from opcal.core.fence import FEW, Fence
from opcal.core.method import OUTSIDE, WRONG
from opcal.errors import InvalidInput, NotBegun


def save(
    calibrator: OperationalCalibrator,
    path: str | Path,
    *,
    key: str | Path | None = None,
    audit: dict[str, Any] | None = None,
) -> Path:
    """Write what is needed to score, and a manifest that says on what it rests; whole or not at all.

    `key` is a PEM file with an Ed25519 private key that signs it. `audit` adds figures to those of the audit slice.
    """
    if not hasattr(calibrator, "learner_"):
        raise NotBegun("the calibrator has seen no pool: call begin(pool) or fit(pool, positions, labels=...) first")
    place = Path(path)
    if place.is_dir():
        raise InvalidInput(f"{path} is a folder: expected the name of a file, such as ward3.opcal")
    signer = None if key is None else signing.read_private_key(key)
    with one_thread():
        method, scorer = scorer_of(calibrator.learner_)
        encode = Encoder()
        fence = Fence.of(calibrator.pool_.features, calibrator.field_.generator("fence"), FEW)
        description = {"scorer": encode(scorer), "fence": encode(fence)}
    if (gains := gains_of(calibrator)) is not None:
        description["gains"] = encode(gains)
    manifest = described(calibrator, method, audit or {})
    container.write(place, manifest.as_json() | description, encode.arrays, signer)
    return place


def artifact_of(calibrator: OperationalCalibrator) -> Artifact:
    """What `load` would give after `save`, without a file."""
    with one_thread():
        method, scorer = scorer_of(calibrator.learner_)
        fence = Fence.of(calibrator.pool_.features, calibrator.field_.generator("fence"), FEW)
    return Artifact(described(calibrator, method, {}), scorer, fence, "not saved", gains=gains_of(calibrator))


def described(calibrator: OperationalCalibrator, method: str, figures: dict[str, Any]) -> Manifest:
    pool, answers = calibrator.pool_, calibrator.answers_
    # A whole matrix is stored beside the method, as `Gains`.
    costs = calibrator.costs.u if isinstance(calibrator.costs, Costs) else calibrator.costs
    costs = None if isinstance(costs, CostMatrix) else costs
    fitted = {
        "items": len(pool),
        "answers": len(answers),
        "right": int(answers.correct.sum()),
        "wrong_without_class": int((answers.labels == WRONG).sum()),
        "outside_the_classes": int((answers.labels == OUTSIDE).sum()),
        "weight": float(answers.weight.sum()),
        "random_state": calibrator.field_.seed,
    }
    return Manifest(
        method=method,
        layout=Layout.of(pool),
        threshold=calibrator.threshold_,
        costs=None if costs is None else float(costs),
        classes=pool.classes,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        opcal=opcal.__version__,
        model=dict(pool.model),
        fitted=fitted,
        audit=audit_figures(calibrator) | figures,
        assumptions=assumptions(calibrator),
    )


def audit_figures(calibrator: OperationalCalibrator) -> dict[str, Any]:
    """Accuracy in the field and the model's own Brier score on the items drawn uniformly at random.

    The calibrated confidence is not measured here: these labels taught it. `opcal export` adds held-out figures.
    """
    from scipy.special import betaincinv

    answers, drawn = calibrator.answers_, calibrator.audit_
    n, right = int(drawn.sum()), int(answers.correct[drawn].sum())
    if n == 0:
        return {"items": 0, "note": "no label was drawn uniformly at random: nothing can be said of the field"}
    own = calibrator.pool_.confidence[answers.positions[drawn]]
    low = 0.0 if right == 0 else float(betaincinv(right, n - right + 1, 0.025))
    high = 1.0 if right == n else float(betaincinv(right + 1, n - right, 0.975))
    return {
        "items": n,
        "accuracy": right / n,
        "accuracy_interval_95": [low, high],
        "brier_of_the_models_own_confidence": float(np.mean((own - answers.correct[drawn]) ** 2)),
    }


def assumptions(calibrator: OperationalCalibrator) -> tuple[str, ...]:
    n, answers = len(calibrator.pool_), calibrator.answers_
    weighed = int((answers.weight < 1).sum())
    return (
        f"The outputs come from the same model and the same layer: {Layout.of(calibrator.pool_)}.",
        f"The field is still the one that the {n} unlabelled items came from; `opcal watch` tests that.",
        f"The {len(answers)} answers are true"
        + (f", but for {weighed} that count less than whole." if weighed else "."),
        "A confidence is the share of right predictions among items like this one, not a promise for one item.",
    )
