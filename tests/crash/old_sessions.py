"""Sessions of earlier schema versions, made by the first steps of the migrations and filled as that opcal did.

python old_sessions.py SESSION opens one, which migrates it, after telling that it is about to.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from sqlalchemy import make_url, text

from opcal.session import migrations
from opcal.session.database import Database
from opcal.session.folder import sqlite_url, write_about
from opcal.session.values import Settings

AT = "2026-01-05T10:00:00.000+00:00"


def make_old(folder: Path, pool, labels: int, version: int, db: str | None) -> None:
    """As `Session.start` and `labels` answers left it with that schema."""
    folder.mkdir()
    pool.save(folder / "pools" / "1")
    write_about(folder, "old", db)
    settings = Settings("old", method="paper", design="random", n_classes=pool.n_classes)
    database = Database(db or sqlite_url(folder / "session.db"))
    migrations.migrate(database, version)
    events = [{"kind": "start", "data": {"items": len(pool), "settings": settings.as_json()}}]
    for position in range(labels):
        item = pool.id_of(position)
        asked = {"purpose": "chosen", "inclusion": 1.0, "wanted": 1, "walked": 0, "predicted": 0}
        events.append({"kind": "ask", "item": item, "position": position, "data": asked})
        said = {"annotator": "ann", "label": position % 4, "data": {"counted": True}}
        events.append({"kind": "answer", "item": item, "position": position, **said})
    rows = [
        {"annotator": None, "item": None, "position": None, "label": None, "seq": seq, "id": f"old{seq}", "at": AT}
        | event
        | {"data": json.dumps(event["data"])}
        for seq, event in enumerate(events, 1)
    ]
    about = {"settings": json.dumps(settings.as_json()), "name": "old", "folder": str(folder), "pool": "pools/1"}
    names = ("seq", "id", "kind", "at", "annotator", "item", "position", "label", "data")
    with database.making() as connection:
        values = ", ".join(f":{name}" for name in names)
        connection.execute(text(f"INSERT INTO event ({', '.join(names)}) VALUES ({values})"), rows)
        connection.execute(text("UPDATE ledger SET seq = :seq"), {"seq": len(rows)})
        meta = [{"key": key, "value": value} for key, value in about.items()]
        connection.execute(text("INSERT INTO meta (key, value) VALUES (:key, :value)"), meta)
        connection.execute(text("INSERT INTO lease (position, annotator, until) VALUES (9999, 'ann', 1e12)"))
    database.close()


def restored(tmp_path: Path, number: int, db: str | None, postgres) -> Path:
    """A fresh copy of the old session."""
    folder = tmp_path / f"copy{number}"
    folder.mkdir()
    (folder / "pools").symlink_to(tmp_path / "old" / "pools")
    if db is None:
        shutil.copy(tmp_path / "old" / "session.db", folder / "session.db")
        write_about(folder, "old", None)
    else:
        write_about(folder, "old", postgres.copy(make_url(db).database))
    return folder


if __name__ == "__main__":
    from opcal.session import Session

    print("now", flush=True)
    Session.open(sys.argv[1]).close()
