"""What changes a session's pool while people label: items are added, payloads are forgotten."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import select, update

from opcal.core.method import IntArray
from opcal.errors import InvalidInput
from opcal.pool import Pool
from opcal.pool.joining import erased, joined
from opcal.session import log, schema
from opcal.session.standing import Standing
from opcal.session.store import Store
from opcal.session.values import Event

About = dict[str, Any]


class Upkeep:
    """Writes the pool anew beside the old one; the log says from which moment on it is the pool."""

    def __init__(self, store: Store, folder: Path, pool: Callable[[], Pool]) -> None:
        self._store, self._folder, self._pool = store, folder, pool

    def add(self, more: Pool) -> Event:
        return self._replace("pool", lambda *_: {"added": len(more)}, lambda pool, _: joined(pool, more))

    def forget(self, chosen: Callable[[Pool, Standing], IntArray], *, features: bool, reason: str, by: str) -> Event:
        def about(pool: Pool, standing: Standing) -> About:
            found = [p for p in chosen(pool, standing).tolist() if _left(standing, p, features)]
            items = [pool.id_of(p) for p in found]
            return {"positions": found, "items": items, "features": features, "reason": reason}

        def without(pool: Pool, about: About) -> Pool:
            return erased(pool, np.array(about["positions"], dtype=np.intp), features=features)

        event = self._replace("forget", about, without, by)
        self._erase_notes(event.data["positions"])
        return event

    def _replace(
        self,
        kind: str,
        about: Callable[[Pool, Standing], About],
        change: Callable[[Pool, About], Pool],
        by: str | None = None,
    ) -> Event:
        while True:
            pool = self._pool()
            with self._store.standing() as standing:
                old, seq, data = self._store.pool_folder, standing.seq, about(pool, standing)
            if pool is not self._pool():
                continue
            name = f"pools/{seq + 1}-{secrets.token_hex(3)}"
            change(pool, data).save(self._folder / name)
            with self._store.step() as (connection, _):
                fresh = self._store.pool_folder == old
                if fresh:
                    (event,) = log.append(connection, [log.Entry(kind, annotator=by, data=data | {"folder": name})])
            shutil.rmtree(self._folder / (old if fresh else name), ignore_errors=True)
            if fresh:
                return event

    def _erase_notes(self, positions: Sequence[int]) -> None:
        with self._store.step() as (connection, _):
            for position in positions:
                of = select(schema.event.c.seq).where(schema.event.c.position == position)
                connection.execute(update(schema.note).where(schema.note.c.seq.in_(of)).values(text=None))


def _left(standing: Standing, position: int, features: bool) -> bool:
    """Whether there is something to forget."""
    return position not in (standing.erased if features else standing.forgotten)


def arrived_before(pool: Pool, standing: Standing, moment: datetime) -> IntArray:
    """Items that came into the session before a moment."""
    found, start = [], 0
    for count, at in standing.arrivals:
        if datetime.fromisoformat(at) < moment:
            found.append(np.arange(start, start + count))
        start += count
    return np.concatenate(found).astype(np.intp) if found else np.empty(0, dtype=np.intp)


def dated_before(pool: Pool, column: str, moment: datetime) -> IntArray:
    """Items whose own column says a date before a moment; those without a date stay."""
    if column not in pool.columns:
        raise InvalidInput(f"the pool has no column {column!r}: it has {', '.join(pool.columns) or 'none'}")
    return np.array([i for i, value in enumerate(pool.columns[column]) if _before(value, moment)], dtype=np.intp)


def _before(value: Any, moment: datetime) -> bool:
    if value is None:
        return False
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError as error:
        raise InvalidInput(f"{value!r} is no date (expected one like 2026-03-31)") from error
    return at.replace(tzinfo=at.tzinfo or moment.tzinfo) < moment
