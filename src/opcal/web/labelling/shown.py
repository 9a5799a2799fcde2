"""Items and answers as the page gets them: plain JSON values."""

from __future__ import annotations

import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

from opcal.core.cost_matrix import CostMatrix
from opcal.core.costs import Costs
from opcal.pool import Pool
from opcal.session import Receipt, Session, Settings, Task
from opcal.session.options import costs_of
from opcal.session.values import Said
from opcal.session.wording import said
from opcal.web.labelling.media import text_of, what_it_is
from opcal.web.security import Caller, Refusal


def task(task: Task, session: Session, root: Path | None) -> dict[str, Any]:
    """One item with everything that shows it."""
    pool = session.pool
    kind = what_it_is(task.payload)
    return {
        "item": task.item,
        "kind": kind,
        "text": _text(task.payload, kind, root),
        "columns": columns(pool, task.position),
        "predicted": task.predicted,
        "confidence": task.confidence,
        "blind": task.blind,
        "opinion": task.opinion,
        "seconds": task.seconds,
    }


def _text(payload: str | None, kind: str, root: Path | None) -> str | None:
    if kind in ("text", "link"):
        return payload
    if kind != "file" or payload is None:
        return None
    try:
        return text_of(root, payload)
    except Refusal:
        return None


def columns(pool: Pool, position: int) -> list[list[str]]:
    """The user's own columns of an item, as name and text."""
    return [[name, plain(values[position])] for name, values in pool.columns.items()]


def plain(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)


def class_names(session: Session) -> list[str]:
    """As many as the model has; numbers where nobody named them."""
    settings = session.settings
    if settings.classes is not None:
        return list(settings.classes)
    count = settings.n_classes or int(session.pool.predicted.max()) + 1
    return [str(k) for k in range(count)]


def myself(session: Session, caller: Caller) -> dict[str, Any]:
    """What a page must know before its first item."""
    settings = session.settings
    return {
        "name": caller.name,
        "role": caller.role,
        "session": settings.name,
        "classes": class_names(session),
        "blind": settings.blind,
        "budget": settings.budget,
        "items": len(session.pool),
        "threshold": threshold(settings),
    }


def threshold(settings: Settings) -> float:
    """The confidence from which one would act."""
    costs = costs_of(settings)
    if costs is None:
        return settings.threshold
    return costs.threshold if isinstance(costs, CostMatrix) else Costs(costs).threshold


def receipt(receipt: Receipt) -> dict[str, Any]:
    return dict(vars(receipt))


def answer(told: Said, settings: Settings) -> dict[str, Any]:
    return {**vars(told), "said": said(told.label, settings)}
