"""A session watched over time: its looks, the next round, and the history of all rounds in one view."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from opcal.answers import CARRIED
from opcal.artifact.writing import replace_file
from opcal.core.method import WRONG
from opcal.errors import SessionError
from opcal.monitor.carry import HALF_LIFE, next_round
from opcal.monitor.watch import Watch, watch
from opcal.pool import Pool
from opcal.session import Given, Session, beginning

FILE = "rounds.json"
"""In the session's folder: the earlier rounds, and the looks of this one."""
EARLIER = "earlier round"
"""Who gave the answers that were brought along."""


def look(session: Session, pool: Pool, *, alpha: float = 0.05, name: str = "") -> Watch:
    """Compare new items with the session's field and remember that one has looked: the next look spends less."""
    known = read(session)
    found = watch(session.calibrator(), pool, look=len(known["looks"]) + 1, alpha=alpha)
    known["looks"].append({"time": _now(), "pool": name} | found.as_json())
    _write(session.folder, known)
    return found


def start_next(
    session: Session, pool: Pool, out: str | Path, *, budget: int | None = None, half_life: float = HALF_LIFE
) -> Session:
    """A new session on the new field with the settings of this one, that knows its labels for what they still say."""
    calibrator = session.calibrator()
    plan = next_round(calibrator, pool, days=_days(session, calibrator.pool_), half_life=half_life)
    settings = replace(session.settings, budget=budget, name="")
    beginning.begin(plan.pool, Path(out), settings, None)
    _write(Path(out), {"earlier": [*read(session)["earlier"], summary(session)], "looks": []})
    made = Session.open(out)
    made.background = False
    answers = plan.answers
    made.record(
        [
            Given(
                plan.pool.id_of(position),
                None if label == WRONG else label,
                False if label == WRONG else None,
                annotator=EARLIER,
                drawn=False,
            )
            for position, label in zip(answers.positions.tolist(), answers.labels.tolist(), strict=True)
        ]
    )
    made.refill()
    return made


def _days(session: Session, pool: Pool) -> list[float]:
    """The age of each answer; what was brought along is as old as this round, its weight knows the rest."""
    now = datetime.now(UTC)
    newest = {row["item"]: datetime.fromisoformat(row["time"]) for row in session.answers()}
    positions = session.calibrator().answers_.positions
    times = [newest.get(pool.id_of(p), now) for p in positions.tolist()]
    return [(now - (t if t.tzinfo else t.replace(tzinfo=UTC))).total_seconds() / 86400 for t in times]


def summary(session: Session) -> dict[str, Any]:
    """One round in the history."""
    status, calibrator = session.status(), session.calibrator()
    drawn, answers = calibrator.audit_, calibrator.answers_
    carried = calibrator.pool_.columns.get(CARRIED, [])
    brought = sum(weight is not None for weight in carried)
    return {
        "session": str(session.folder),
        "name": status.name,
        "items": status.items - brought,
        "brought_along": brought,
        "labelled": status.labelled - brought,
        "audited": int(drawn.sum()),
        "accuracy_of_audited": float(answers.correct[drawn].mean()) if drawn.any() else None,
        "mean_confidence": float(np.mean(calibrator.confidence(calibrator.pool_))),
        "looks": read(session)["looks"],
    }


def history(session: Session) -> list[dict[str, Any]]:
    """All rounds, the oldest first, this one last."""
    return [*read(session)["earlier"], summary(session)]


def read(session: Session) -> dict[str, Any]:
    file = session.folder / FILE
    if not file.exists():
        return {"earlier": [], "looks": []}
    try:
        known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(known["earlier"], list) or not isinstance(known["looks"], list):
            raise TypeError("no lists")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SessionError(
            f"{file} is broken ({error}): restore it, or remove it to begin the count of looks anew"
        ) from error
    return known


def _write(folder: Path, known: dict[str, Any]) -> None:
    replace_file(folder / FILE, json.dumps(known, indent=1).encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
