"""Transactions on SQLite and PostgreSQL: one writer at a time, and failures that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from opcal.errors import MissingDependency, SessionError, StorageFull
from opcal.session import sqlite

FULL = ("disk is full", "disk full", "no space left", "disk i/o error", "disk quota", "readonly database")
CONNECTIONS = 100

try:
    import fcntl
except ImportError:  # Windows: SQLite's own lock is the only one between processes
    fcntl = None  # type: ignore[assignment]


class Database:
    """An engine and its two kinds of transaction. Safe to share between threads."""

    def __init__(self, url: str | URL) -> None:
        self.url = url
        self._turn = RLock()
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self._file = Path(self.engine.url.database or "") if self.is_sqlite else None
        self._writers = self.engine.execution_options(opcal_begin="BEGIN IMMEDIATE")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """All or nothing, and nobody else writes meanwhile: what was read inside is still so at the commit."""
        with self._turn, self._queue(), _told(self.shown), self._writers.begin() as connection:
            if not self.is_sqlite:
                connection.execute(text("SELECT seq FROM ledger WHERE id = 1 FOR UPDATE"))
            yield connection

    @contextmanager
    def making(self) -> Iterator[Connection]:
        """As `write`, where the tables are still to be made or changed."""
        with self._turn, self._queue(), _told(self.shown), self._writers.begin() as connection:
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(7150423)"))
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with _told(self.shown), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """For reading several tables as of one moment."""
        level = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with _told(self.shown), self.engine.connect().execution_options(**level) as connection:
            yield connection

    @property
    def shown(self) -> str:
        """Where it is, without the password."""
        return str(self._file) if self._file else self.engine.url.render_as_string(hide_password=True)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _queue(self) -> Iterator[None]:
        """Processes wait in line at a file lock: SQLite's own waiting is by lot, and may take long in a crowd.

        The lock goes with the process that holds it, however it ends.
        """
        if self._file is None or fcntl is None:
            yield
            return
        with Path(f"{self._file}.turn").open("a") as line:
            fcntl.flock(line, fcntl.LOCK_EX)
            yield


def _engine(url: str | URL) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(parsed, module=sqlite.library(), pool_size=5, max_overflow=CONNECTIONS)
        event.listen(engine, "connect", sqlite.configure)
        event.listen(engine, "begin", _begin)
        return engine
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "postgresql":
        raise SessionError(f"{parsed.drivername} is no database of a session: expected SQLite or postgresql://...")
    try:
        # Twenty people on a server share few connections: a transaction takes milliseconds.
        engine = create_engine(parsed, pool_pre_ping=True, pool_size=5, max_overflow=15, pool_timeout=60)
    except ImportError as error:
        raise MissingDependency("PostgreSQL needs psycopg: pip install 'opcal[postgres]'") from error
    event.listen(engine, "connect", _durable)
    return engine


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("opcal_begin", "BEGIN"))


def _durable(connection: Any, _: object) -> None:
    """A server may be set to acknowledge before it has stored."""
    connection.autocommit = True
    connection.execute("SET synchronous_commit TO on")
    connection.autocommit = False


@contextmanager
def _told(where: str) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise translated(error, where) from error


def translated(error: SQLAlchemyError, where: str) -> SessionError:
    cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    if any(sign in cause.lower() for sign in FULL):
        return StorageFull(
            f"{where}: {cause}. Nothing was taken; everything acknowledged before is there. "
            "Make space and send it again"
        )
    if isinstance(error, PoolTimeout) or "locked" in cause:
        return SessionError(f"{where} is busy ({cause}): nothing was taken, send it again")
    if isinstance(error, (OperationalError, DBAPIError)) and error.connection_invalidated:
        return SessionError(f"{where}: the connection broke ({cause}); send it again, with the same id for an answer")
    return SessionError(f"{where}: {cause}")
