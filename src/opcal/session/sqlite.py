"""SQLite settings that survive: which library, which journal, and why."""

from __future__ import annotations

import sqlite3
from types import ModuleType
from typing import Any

FIXED = ((3, 44, 6), (3, 50, 7))
"""Branches in which the WAL-reset corruption was fixed; all from `FIXED_FROM` on have the fix."""
FIXED_FROM = (3, 51, 3)
BUSY_SECONDS = 60


def library() -> ModuleType:
    """Python's own SQLite; `pysqlite3`, where installed, if only that one may use a write-ahead log."""
    if wal_is_safe(sqlite3.sqlite_version_info):
        return sqlite3
    try:
        from pysqlite3 import dbapi2
    except ImportError:
        return sqlite3
    newer: ModuleType = dbapi2
    return newer if wal_is_safe(newer.sqlite_version_info) else sqlite3


def wal_is_safe(version: tuple[int, int, int]) -> bool:
    """Whether this version has the fix for the corruption when a write-ahead log starts anew."""
    return version >= FIXED_FROM or any(version[:2] == fixed[:2] and version >= fixed for fixed in FIXED)


def journal_mode(version: tuple[int, int, int]) -> str:
    return "wal" if wal_is_safe(version) else "delete"


def explanation(version: tuple[int, int, int]) -> str:
    """Which settings a session's database gets here and why, for `opcal doctor`."""
    shown = ".".join(map(str, version))
    common = "synchronous=FULL, BEGIN IMMEDIATE, one writer"
    if wal_is_safe(version):
        return f"write-ahead log, {common}: SQLite {shown} has the fix for the WAL-reset corruption"
    return (
        f"rollback journal, {common}: SQLite {shown} lacks the fix for the WAL-reset corruption "
        "(it is in 3.44.6, 3.50.7 and from 3.51.3 on)"
    )


def configure(connection: Any, _: Any) -> None:
    """Settings of one new connection; transactions are begun by us, never by the driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA secure_delete = ON")
    wanted = journal_mode(library().sqlite_version_info)
    if cursor.execute("PRAGMA journal_mode").fetchone()[0].lower() != wanted:
        cursor.execute(f"PRAGMA journal_mode = {wanted}")
    cursor.close()
