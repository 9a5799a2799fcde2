"""A folder that is replaced whole or not at all, whatever dies meanwhile."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two savings at once are not told apart there
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replacing(path: Path, check: Callable[[Path], None]) -> Iterator[Path]:
    """A new folder that takes the place of `path` once the block has ended well.

    `check(path)` may refuse what lies there; no other saving is between its renames meanwhile.
    A crash leaves the old folder or the new one; between the two renames the old one lies at `previous(path)`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.parent / f".{path.name}.writing-{secrets.token_hex(4)}"
    with _locked(path.parent):
        check(path)
        _sweep(path)
        folder.mkdir()
        held = _lock(folder)
    try:
        yield folder
        for file in folder.iterdir():
            sync(file)
        sync(folder)
        with _locked(path.parent):
            _swap(folder, path)
        sync(path.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def put(folder: Path, path: Path, check: Callable[[Path], None]) -> None:
    """A folder that is whole already takes the place of `path`, as at the end of `replacing`."""
    for file in folder.iterdir():
        sync(file)
    sync(folder)
    with _locked(path.parent):
        check(path)
        _swap(folder, path)
    sync(path.parent)


def hold(folder: Path) -> int:
    """A handle that keeps the folder from other processes until it is closed; BlockingIOError where one has it."""
    return _lock(folder, wait=False)


def previous(path: Path) -> Path:
    return path.parent / f".{path.name}.previous"


def _swap(folder: Path, path: Path) -> None:
    aside = previous(path)
    if path.exists():
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    try:
        folder.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _sweep(path: Path) -> None:
    """Remove what savings that died have left; one that lives holds the lock of its folder."""
    if path.exists():
        shutil.rmtree(previous(path), ignore_errors=True)
    for left in path.parent.glob(glob.escape(f".{path.name}.writing-") + "*"):
        try:
            os.close(_lock(left, wait=False))
        except OSError:
            continue
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = _lock(folder)
    try:
        yield
    finally:
        os.close(handle)


def _lock(folder: Path, *, wait: bool = True) -> int:
    """A handle whose closing, or the process's end, lets the lock go; file systems without locks do without."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        if not wait:
            os.close(handle)
            raise
    return handle


def sync(path: Path) -> None:
    """A file, or a folder's list of names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
