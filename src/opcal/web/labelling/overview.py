"""The owner's view of a session: who did what, what was found, where in the field."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from opcal.calibrator import OperationalCalibrator
from opcal.core.method import FloatArray, IntArray
from opcal.session import Session
from opcal.session.wording import said
from opcal.web.labelling.media import what_it_is
from opcal.web.labelling.shown import class_names

MISTAKES = 12
EXAMPLES = 5


def summary(session: Session) -> dict[str, Any]:
    cal = session.calibrator()
    confidence = cal.confidence(cal.pool_)
    return {
        "status": asdict(session.status()),
        "agreement": asdict(session.agreement()),
        "mistakes": mistakes(session, cal, confidence),
        "clusters": clusters(session, cal, confidence),
        "pictures": has_pictures(session),
    }


def has_pictures(session: Session) -> bool:
    payload = session.pool.payload
    return payload is not None and any(what_it_is(p) == "image" for p in payload[:100])


def mistakes(session: Session, cal: OperationalCalibrator, confidence: FloatArray) -> list[dict[str, Any]]:
    """Labelled items on which the model was wrong, the surest first."""
    wrong = cal.answers_.positions[~cal.answers_.correct]
    surest = wrong[np.argsort(-cal.pool_.confidence[wrong], kind="stable")][:MISTAKES]
    return [detail(session, int(at), confidence) for at in surest]


def detail(session: Session, position: int, confidence: FloatArray | None) -> dict[str, Any]:
    """An item with everything that is known of it."""
    cal = session.calibrator()
    pool, names = cal.pool_, class_names(session)
    row = np.flatnonzero(cal.answers_.positions == position)
    label = int(cal.answers_.labels[row[0]]) if row.size else None
    after = calibrated(session, confidence)[position]
    return {
        "item": pool.id_of(position),
        "position": position,
        "predicted": names[int(pool.predicted[position])],
        "before": float(pool.confidence[position]),
        "after": float(after),
        "answer": None if label is None else said(label, session.settings),
        "right": bool(cal.answers_.correct[row[0]]) if row.size else None,
    }


def calibrated(session: Session, known: FloatArray | None) -> FloatArray:
    """The confidence that the panel found last, or a fresh one."""
    cal = session.calibrator()
    return known if known is not None and len(known) == len(cal.pool_) else cal.confidence(cal.pool_)


def answered(session: Session) -> bytes:
    """One byte an item: 0 without a label, 1 where the prediction is right, 2 where it is wrong."""
    cal = session.calibrator()
    found = np.zeros(len(cal.pool_), dtype=np.uint8)
    found[cal.answers_.positions] = np.where(cal.answers_.correct, 1, 2)
    return found.tobytes()


def clusters(session: Session, cal: OperationalCalibrator, confidence: FloatArray) -> list[dict[str, Any]]:
    """Groups of alike items, those with the largest expected number of mistakes first."""
    belongs, pool = cal.field_.clustering.assignment, cal.pool_
    medoids = cal.field_.clustering.medoids
    told = cal.answers_
    found = []
    for number, medoid in enumerate(medoids.tolist()):
        members = np.flatnonzero(belongs == number)
        mine = belongs[told.positions] == number
        found.append(
            {
                "size": len(members),
                "before": float(pool.confidence[members].mean()),
                "after": float(confidence[members].mean()),
                "labelled": int(mine.sum()),
                "wrong": int((~told.correct[mine]).sum()),
                "examples": [pool.id_of(int(i)) for i in _examples(members, medoid)],
            }
        )
    return sorted(found, key=lambda c: -c["size"] * (1 - c["after"]))


def _examples(members: IntArray, medoid: int) -> list[int]:
    """The medoid, then members spread evenly over the pool."""
    others = members[members != medoid]
    picked = others[np.unique(np.linspace(0, len(others) - 1, min(EXAMPLES - 1, len(others))).astype(np.intp))]
    return [medoid, *picked.tolist()]
