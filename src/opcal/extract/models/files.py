"""Model files by their bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path


def hash_of(path: Path) -> str:
    """A hash of a file's bytes."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()[:32]
