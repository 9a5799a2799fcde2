"""A new session: its folder, its tables, its pool, all there or nothing."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path

from sqlalchemy import URL

from opcal.errors import SessionError
from opcal.pool import Pool
from opcal.pool.replacing import replacing
from opcal.session import folder as folders
from opcal.session import log, migrations
from opcal.session.database import Database
from opcal.session.store import meta, put_meta
from opcal.session.values import Settings


def begin(pool: Pool, out: Path, settings: Settings, db: str | None) -> None:
    """Write the session; a crash leaves no folder, or one that `start` may write again."""
    settings = replace(settings, classes=pool.classes, n_classes=pool.n_classes, name=settings.name or _name())
    out = Path(out).resolve()
    if db is not None:
        refuse_taken(db)
    with replacing(out, folders.refuse_what_is_there) as made:
        pool.save(made / folders.POOL)
        folders.write_about(made, settings.name, db)
        if db is None:
            _make_tables(folders.sqlite_url(made / folders.DATABASE), pool, out, settings)
    if db is not None:
        try:
            _make_tables(db, pool, out, settings)
        except BaseException:
            (out / "session.json").unlink()
            raise


def _name() -> str:
    return secrets.token_hex(8)


def refuse_taken(url: str) -> None:
    database = Database(url)
    try:
        with database.read() as connection:
            if migrations.version(connection) and "settings" in meta(connection):
                raise SessionError(
                    f"{database.shown} holds session {meta(connection)['name']} already: open it, "
                    "or give each session a database of its own (createdb)"
                )
    finally:
        database.close()


def _make_tables(url: str | URL, pool: Pool, out: Path, settings: Settings) -> None:
    database = Database(url)
    try:
        migrations.migrate(database)
        with database.write() as connection:
            if "settings" in meta(connection):
                raise SessionError(f"{database.shown} holds a session already: open it")
            about = {"name": settings.name, "folder": out, "pool": folders.POOL}
            put_meta(connection, settings=json.dumps(settings.as_json()), **about)
            log.append(connection, [log.Entry("start", data={"items": len(pool), "settings": settings.as_json()})])
    finally:
        database.close()
