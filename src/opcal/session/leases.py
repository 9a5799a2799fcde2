"""Who is working on what: one annotator an item, for a time."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, func, select, text, update

from opcal.session import schema
from opcal.session.standing import Question, Standing

lease = schema.lease


def take(connection: Connection, standing: Standing, annotator: str, k: int, now: float) -> list[Question]:
    """What the annotator holds afterwards, at most k: what they held before, then the next open questions.

    The primary key of the table refuses a second lease of an item, whatever this code believes.
    """
    until = now + standing.settings.lease_seconds
    connection.execute(delete(lease).where(lease.c.until <= now))
    wanted = {q.position: q for q in standing.open(annotator)}
    held = {row.position: row.annotator for row in connection.execute(select(lease))}
    mine = [q for p, q in wanted.items() if held.get(p) == annotator][:k]
    if mine:
        of = lease.c.position.in_([q.position for q in mine])
        connection.execute(update(lease).where(of).values(until=until))
    free = (q for p, q in wanted.items() if p not in held)
    for question in free:
        if len(mine) >= k:
            break
        if _insert(connection, question.position, annotator, until):
            mine.append(question)
    return mine


def _insert(connection: Connection, position: int, annotator: str, until: float) -> bool:
    statement = text(
        "INSERT INTO lease (position, annotator, until) VALUES (:p, :a, :u) ON CONFLICT (position) DO NOTHING"
    )
    return connection.execute(statement, {"p": position, "a": annotator, "u": until}).rowcount == 1


def release(connection: Connection, positions: Iterable[int], annotator: str | None = None) -> None:
    """End the leases of these items; only those of one annotator where given."""
    for position in positions:
        of = lease.c.position == position
        connection.execute(delete(lease).where(of if annotator is None else of & (lease.c.annotator == annotator)))


def count(connection: Connection, now: float) -> int:
    found = connection.execute(select(func.count()).select_from(lease).where(lease.c.until > now))
    return int(found.scalar_one())
