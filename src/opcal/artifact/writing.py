"""A file that is replaced whole or not at all, whatever dies meanwhile."""

from __future__ import annotations

import glob
import os
import secrets
from pathlib import Path

from opcal.pool.replacing import sync

try:
    import fcntl
except ImportError:  # Windows: what a saving that died left behind stays there
    fcntl = None  # type: ignore[assignment]


def replace_file(path: Path, data: bytes) -> None:
    """Written under another name, synced, renamed; through a link, so that the file is replaced and not the link."""
    place = path.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    _sweep(place)
    beside = place.parent / f".{place.name}.writing-{secrets.token_hex(4)}"
    try:
        with beside.open("xb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            beside.replace(place)
        sync(place.parent)
    finally:
        beside.unlink(missing_ok=True)


def _sweep(place: Path) -> None:
    """Remove what savings that died have left; one that lives holds the lock of its file."""
    if fcntl is None:
        return
    for left in place.parent.glob(glob.escape(f".{place.name}.writing-") + "*"):
        try:
            with left.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink(missing_ok=True)
        except OSError:
            continue
