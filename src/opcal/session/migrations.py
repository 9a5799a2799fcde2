"""Schema versions: version n is what the first n steps make. Each step and its number are one transaction."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, inspect, text

from opcal.errors import SessionError
from opcal.session.database import Database


def _first(connection: Connection) -> None:
    for statement in (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
        """CREATE TABLE event (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, at TEXT NOT NULL,
           annotator TEXT, item TEXT, position INTEGER, label INTEGER, data TEXT NOT NULL)""",
        "CREATE INDEX event_item ON event (item)",
        "CREATE TABLE ledger (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL)",
        "INSERT INTO ledger (id, seq) VALUES (1, 0)",
        "CREATE TABLE lease (position INTEGER PRIMARY KEY, annotator TEXT NOT NULL, until DOUBLE PRECISION NOT NULL)",
        *(_SQLITE_TRIGGERS if connection.dialect.name == "sqlite" else _POSTGRESQL_TRIGGERS),
    ):
        connection.execute(text(statement))


_SQLITE_TRIGGERS = tuple(
    f"""CREATE TRIGGER event_no_{verb.lower()} BEFORE {verb} ON event
        BEGIN SELECT RAISE(ABORT, 'the log of answers is append-only'); END"""
    for verb in ("UPDATE", "DELETE")
)
_POSTGRESQL_TRIGGERS = (
    """CREATE FUNCTION opcal_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN RAISE EXCEPTION 'the log of answers is append-only'; END $$""",
    """CREATE TRIGGER event_no_change BEFORE UPDATE OR DELETE ON event
       FOR EACH ROW EXECUTE FUNCTION opcal_append_only()""",
    "CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event EXECUTE FUNCTION opcal_append_only()",
)


def _second(connection: Connection) -> None:
    """A clock of its own instead of the wall clock (leases under way end: they were told by the other), and notes."""
    for statement in (
        "ALTER TABLE ledger ADD COLUMN elapsed DOUBLE PRECISION NOT NULL DEFAULT 0",
        "ALTER TABLE ledger ADD COLUMN wall DOUBLE PRECISION NOT NULL DEFAULT 0",
        "CREATE TABLE clock (boot TEXT PRIMARY KEY, ahead DOUBLE PRECISION NOT NULL)",
        "CREATE TABLE note (seq INTEGER PRIMARY KEY, text TEXT)",
        "DELETE FROM lease",
    ):
        connection.execute(text(statement))


STEPS: tuple[Callable[[Connection], None], ...] = (_first, _second)
VERSION = len(STEPS)


def version(connection: Connection) -> int:
    """0 for an empty database."""
    if not inspect(connection).has_table("meta"):
        return 0
    found = connection.execute(text("SELECT value FROM meta WHERE key = 'schema'")).scalar()
    return int(found or 0)


def migrate(database: Database, to: int = VERSION) -> None:
    """Bring the tables to a version, step by step; a crash leaves a whole version."""
    with database.read() as connection:
        found = version(connection)
    if found > VERSION:
        raise SessionError(
            f"{database.shown} has schema {found}, this opcal knows {VERSION}: "
            "use the opcal that wrote it or a newer one"
        )
    for number in range(found, to):
        with database.making() as connection:
            if version(connection) == number:  # another process may have been quicker
                STEPS[number](connection)
                connection.execute(text("DELETE FROM meta WHERE key = 'schema'"))
                connection.execute(text("INSERT INTO meta (key, value) VALUES ('schema', :v)"), {"v": str(number + 1)})
