"""Runs and models on disk: each written whole or not at all, and not made again where it is there already."""

from __future__ import annotations

import hashlib
import json
import platform
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import opcal
from opcal.experiments.settings import Settings

Figures = dict[str, Any]
APART = {"store.py", "command.py", "run.py", "settings.py", "layouts.py", "pictures.py"}


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary name that becomes `path` once the block has ended well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def model_path(settings: Settings, task: str, seed: int) -> Path:
    return settings.out / "models" / f"t{task}-m{seed}.npz"


def run_path(settings: Settings, task: str, seed: int, stage: str) -> Path:
    return settings.out / "runs" / f"t{task}-{stage}-s{seed}.json"


def kept(settings: Settings, task: str, seed: int, stage: str) -> Figures | None:
    """The run of that task, seed and stage, where it is there and was made with the same settings and the same code."""
    path = run_path(settings, task, seed, stage)
    if not path.exists():
        return None
    found: Figures = json.loads(path.read_text(encoding="utf-8"))
    same = found["settings"] == settings.of_run() and found["versions"]["code"] == code()
    return found if same else None


def keep(settings: Settings, task: str, seed: int, stage: str, figures: Figures, seconds: float) -> Figures:
    run = {
        "task": task,
        "stage": stage,
        "seed": seed,
        "settings": settings.of_run(),
        "versions": versions(),
        "cpu_seconds": round(seconds, 2),
        "figures": figures,
    }
    with whole(run_path(settings, task, seed, stage)) as temporary:
        temporary.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return run


def made(settings: Settings, task: str, seed: int, stage: str, make: Callable[[], Figures]) -> Figures:
    if (found := kept(settings, task, seed, stage)) is not None:
        return found
    started = time.process_time()
    figures = make()
    return keep(settings, task, seed, stage, figures, time.process_time() - started)


def all_runs(out: Path) -> list[Figures]:
    """Every stored run, ordered by task, stage and seed."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((out / "runs").glob("*.json"))]
    return sorted(runs, key=lambda run: (run["task"], run["stage"], run["seed"]))


@cache
def code() -> str:
    """Of the sources that figures follow from: all but how they are told and kept."""
    root = Path(opcal.__file__).parent
    used = [*(root / "core").glob("*.py"), *(root / "baselines").glob("*.py"), *(root / "experiments").rglob("*.py")]
    named = sorted(p for p in [*used, root / "calibrator.py"] if p.parent.name != "telling" and p.name not in APART)
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in named)).hexdigest()[:12]


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "opcal": opcal.__version__, "code": code()}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
