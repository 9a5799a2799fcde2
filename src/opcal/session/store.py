"""A session's database and what its log comes to, kept up to date; shared by all threads of the process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from opcal.errors import SessionError
from opcal.session import log, migrations, schema
from opcal.session.database import Database
from opcal.session.standing import Standing
from opcal.session.values import Settings


class Store:
    """One session's tables."""

    def __init__(self, database: Database) -> None:
        self.database = database
        migrations.migrate(database)
        with database.read() as connection:
            self.about = meta(connection)
        if "settings" not in self.about:
            raise SessionError(f"{database.shown} holds no session: make one with `opcal start` or Session.start(...)")
        self.settings = Settings.from_json(json.loads(self.about["settings"]))
        self._standing = Standing(self.settings)
        self._lock = RLock()

    @contextmanager
    def step(self) -> Iterator[tuple[Connection, Standing]]:
        """A write transaction and where the session stands in it. What is appended counts from the next step on."""
        with self.database.write() as connection:
            self._catch_up(connection)
            # Nobody appends while we are in the transaction, so that the standing stays as it is without the lock.
            yield connection, self._standing

    @contextmanager
    def standing(self) -> Iterator[Standing]:
        """Where the session stands, for reading."""
        with self.database.read() as connection:
            self._catch_up(connection)
        with self._lock:
            yield self._standing

    def asked(self, item: str) -> bool:
        """Whether the item was asked for when the log was last read."""
        return item in self._standing.asked_item

    @property
    def pool_folder(self) -> str:
        """Where the pool lay when the log was last read, relative to the session's folder."""
        return self._standing.folder or self.about["pool"]

    def renewed_folder(self) -> str:
        with self.standing():
            return self.pool_folder

    def _catch_up(self, connection: Connection) -> None:
        events = log.after(connection, self._standing.seq)
        with self._lock:
            self._standing.take(events)


def meta(connection: Connection) -> dict[str, str]:
    return {row.key: row.value for row in connection.execute(select(schema.meta))}


def put_meta(connection: Connection, **values: Any) -> None:
    for key, value in values.items():
        connection.execute(delete(schema.meta).where(schema.meta.c.key == key))
        connection.execute(insert(schema.meta).values(key=key, value=str(value)))
