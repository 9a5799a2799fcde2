"""A copy of a session that is whole at one moment, made while people label."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from sqlalchemy import URL, insert, select, update

from opcal.errors import PoolError
from opcal.pool import Pool
from opcal.pool.replacing import replacing
from opcal.session import folder as folders
from opcal.session import migrations, schema
from opcal.session.beginning import refuse_taken
from opcal.session.database import Database
from opcal.session.store import Store, put_meta

Tables = dict[str, list[dict[str, Any]]]
COPIED = (schema.meta, schema.event, schema.note)
"""Leases and clocks are of this moment and this machine only."""


def backup(store: Store, folder: Path, out: Path, db: str | None) -> int:
    """Write the session again, with SQLite or into another database; gives the number of its last event."""
    out = out.resolve()
    if db is not None:
        refuse_taken(db)
    tables, name, pool = _whole(store, folder)
    seq = int(tables["event"][-1]["seq"])
    with replacing(out, folders.refuse_what_is_there) as made:
        pool.save(made / name)
        folders.write_about(made, store.settings.name, db)
        if db is None:
            _fill(folders.sqlite_url(made / folders.DATABASE), tables, out, seq)
    if db is not None:
        try:
            _fill(db, tables, out, seq)
        except BaseException:
            shutil.rmtree(out, ignore_errors=True)
            raise
    return seq


def _whole(store: Store, folder: Path) -> tuple[Tables, str, Pool]:
    """All rows as of one moment, and the pool of that moment."""
    while True:
        with store.database.snapshot() as source:
            tables: Tables = {
                table.name: [dict(row._mapping) for row in source.execute(select(table).order_by(*table.primary_key))]
                for table in COPIED
            }
        name = _pool_folder(tables)
        try:
            return tables, name, Pool.open(folder / name)
        except PoolError:  # items were added meanwhile, and the old pool is gone
            if store.renewed_folder() == name:
                raise


def _pool_folder(tables: Tables) -> str:
    named = [data["folder"] for row in tables["event"] if "folder" in (data := json.loads(row["data"]))]
    first: str = next(row["value"] for row in tables["meta"] if row["key"] == "pool")
    return named[-1] if named else first


def _fill(url: str | URL, tables: Tables, out: Path, seq: int) -> None:
    database = Database(url)
    try:
        migrations.migrate(database)
        with database.write() as connection:
            connection.execute(insert(schema.event), tables["event"])
            if tables["note"]:
                connection.execute(insert(schema.note), tables["note"])
            connection.execute(update(schema.ledger).values(seq=seq))
            about = {row["key"]: row["value"] for row in tables["meta"] if row["key"] != "schema"}
            put_meta(connection, **about | {"folder": out})
    finally:
        database.close()
