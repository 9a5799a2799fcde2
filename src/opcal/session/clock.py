"""The session's own clock, by which leases end: it never goes back and does not jump when somebody sets the time.

It counts the seconds that the machine has been up, which nobody can set. A machine, or a start of one, that is new to
the session joins where the clock stands, plus what the wall clock says has passed since, but never more than GAP.
"""

from __future__ import annotations

import platform
import time
from pathlib import Path

from sqlalchemy import Connection, insert, select, update

from opcal.session import schema

GAP = 24 * 3600.0
UPTIME, BOOT = Path("/proc/uptime"), Path("/proc/sys/kernel/random/boot_id")


def ticks() -> tuple[str, float]:
    """Which start of which machine this is, and the seconds since it."""
    try:
        return BOOT.read_text(encoding="ascii").strip(), float(UPTIME.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):  # not Linux
        return platform.node() or "machine", time.monotonic()


def now(connection: Connection) -> float:
    """The session's time; inside a write transaction, for it also winds the clock."""
    boot, seconds = ticks()
    elapsed, wall = connection.execute(select(schema.ledger.c.elapsed, schema.ledger.c.wall)).one()
    ahead = connection.execute(select(schema.clock.c.ahead).where(schema.clock.c.boot == boot)).scalar()
    if ahead is None:
        gap = min(max(0.0, time.time() - wall), GAP) if wall else 0.0
        ahead = elapsed + gap - seconds
        connection.execute(insert(schema.clock).values(boot=boot, ahead=ahead))
    found: float = max(elapsed, seconds + ahead)
    connection.execute(update(schema.ledger).values(elapsed=found, wall=time.time()))
    return found


def at(connection: Connection) -> float:
    """The same without winding, for readers."""
    boot, seconds = ticks()
    elapsed: float = connection.execute(select(schema.ledger.c.elapsed)).scalar_one()
    ahead: float | None = connection.execute(select(schema.clock.c.ahead).where(schema.clock.c.boot == boot)).scalar()
    return elapsed if ahead is None else max(elapsed, seconds + ahead)
