"""A session's folder: `session.json` says where its database and its pool are."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url

from opcal.errors import SessionError

SCHEMA = 1
DATABASE = "session.db"
POOL = "pools/1"
ENVIRONMENT = "OPCAL_DB"


@dataclass(frozen=True)
class Place:
    """Where a session lies."""

    folder: Path
    url: str | URL

    @classmethod
    def of(cls, where: str | Path) -> Place | str:
        """The place of a session's folder; a URL is given back as it is."""
        if isinstance(where, str) and "://" in where:
            return where
        folder = Path(where)
        about = _about(folder)
        stored = about.get("database", DATABASE)
        if "://" not in stored:
            return cls(folder, sqlite_url(folder / stored))
        return cls(folder, os.environ.get(ENVIRONMENT) or stored)


def sqlite_url(file: Path) -> URL:
    """Not a text: a path may hold what means something in one."""
    return URL.create("sqlite", database=str(file.resolve()))


def write_about(folder: Path, name: str, url: str | None) -> None:
    """Passwords stay out of the file: the server takes them from PGPASSWORD, ~/.pgpass or OPCAL_DB."""
    database = DATABASE if url is None else make_url(url).set(password=None).render_as_string()
    about = {"schema": SCHEMA, "session": name, "database": database}
    with (folder / "session.json").open("w", encoding="utf-8") as file:
        json.dump(about, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def refuse_what_is_there(folder: Path) -> None:
    if folder.is_dir() and (folder / "session.json").exists():
        raise SessionError(f"{folder} holds a session already: open it, or choose another folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SessionError(f"{folder} exists and is not empty: choose another folder, nothing was written")


def _about(folder: Path) -> dict[str, Any]:
    if not folder.exists():
        raise SessionError(f"{folder} does not exist: make a session with `opcal start POOL --out {folder}`")
    try:
        about: dict[str, Any] = json.loads((folder / "session.json").read_text(encoding="utf-8"))
        version = about["schema"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = (
            "it is a pool: start a session on it with `opcal start`"
            if (folder / "pool.json").exists()
            else ("it has no readable session.json")
        )
        raise SessionError(f"{folder} is no session: {remedy}") from error
    if version != SCHEMA:
        raise SessionError(f"{folder} has session schema {version!r}, this opcal reads {SCHEMA}: use a newer opcal")
    return about
