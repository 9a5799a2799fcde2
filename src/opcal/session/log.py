"""The log: appended to, never changed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from opcal.session import schema
from opcal.session.values import Event


@dataclass(frozen=True)
class Entry:
    """An event before it has its place in the order."""

    kind: str
    id: str = ""
    annotator: str | None = None
    item: str | None = None
    position: int | None = None
    label: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    at: str | None = None


def append(connection: Connection, entries: Iterable[Entry]) -> list[Event]:
    """Give the entries the next numbers; inside a write transaction only."""
    last: int = connection.execute(select(schema.ledger.c.seq)).scalar_one()
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    events = [
        Event(seq, e.id or uuid.uuid4().hex, e.kind, e.at or now, e.annotator, e.item, e.position, e.label, e.data)
        for seq, e in enumerate(entries, last + 1)
    ]
    if events:
        connection.execute(insert(schema.event), [_row(e) for e in events])
        connection.execute(update(schema.ledger).values(seq=events[-1].seq))
    return events


def after(connection: Connection, seq: int) -> list[Event]:
    """All events past this number, in order."""
    rows = connection.execute(select(schema.event).where(schema.event.c.seq > seq).order_by(schema.event.c.seq))
    return [_event(row) for row in rows]


def with_id(connection: Connection, id: str) -> Event | None:
    row = connection.execute(select(schema.event).where(schema.event.c.id == id)).first()
    return None if row is None else _event(row)


def last_seq(connection: Connection) -> int:
    last: int = connection.execute(select(schema.ledger.c.seq)).scalar_one()
    return last


def _row(event: Event) -> dict[str, Any]:
    return {**vars(event), "data": json.dumps(event.data)}


def _event(row: Any) -> Event:
    values = row._asdict()
    return Event(**values | {"data": json.loads(values["data"])})
