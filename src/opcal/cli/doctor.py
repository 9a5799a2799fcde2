"""`opcal doctor`."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

import opcal

CORE = (
    *("numpy", "scipy", "scikit-learn", "threadpoolctl", "pyarrow", "click", "rich", "matplotlib", "safetensors"),
    "sqlalchemy",
)
OPTIONAL = {"pandas": "tables", "polars": "tables", "pillow": "images", "torch": "torch", "transformers": "huggingface"}
OPTIONAL |= {"onnx": "onnx", "onnxruntime": "onnx", "skops": "skops", "ray": "ray"}
OPTIONAL |= {"psycopg": "postgres"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(as_json: bool) -> None:
    """Versions, threads, and what is missing. Exits with 1 when something that opcal needs is missing.

    \b
    Example:  opcal doctor --json
    """
    found = examine()
    click.echo(json.dumps(found, indent=1) if as_json else _readable(found))
    sys.exit(1 if found["missing"] else 0)


def examine() -> dict[str, Any]:
    needed = {name: _version(name) for name in CORE}
    optional = {name: _version(name) for name in OPTIONAL}
    return {
        "opcal": opcal.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "sqlite": sqlite3.sqlite_version,
        "sessions": _sessions(),
        "needed": needed,
        "missing": [name for name, found in needed.items() if found is None],
        "optional": optional,
        "blas": _blas(),
    }


def _sessions() -> str:
    """Which database settings labelling sessions get, and why."""
    try:
        from opcal.session import sqlite
    except ImportError as error:  # what is missing is told as missing
        return f"none, {error}"
    return sqlite.explanation(sqlite.library().sqlite_version_info)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _blas() -> list[dict[str, Any]]:
    try:
        import numpy  # noqa: F401  loads its BLAS, which is then listed
        import scipy.linalg  # noqa: F401
        from threadpoolctl import threadpool_info
    except ImportError:  # it is told as missing, which is what a doctor is for
        return []
    keys = ("internal_api", "version", "num_threads", "threading_layer")
    return [{key: library.get(key) for key in keys} for library in threadpool_info() if library["user_api"] == "blas"]


def _readable(found: dict[str, Any]) -> str:
    lines = [f"opcal {found['opcal']}, Python {found['python']}, {found['platform']}, {found['cores']} cores"]
    lines += [f"  {name:<14}{have or 'MISSING: pip install ' + name}" for name, have in found["needed"].items()]
    for name, have in found["optional"].items():
        lines.append(f"  {name:<14}{have or f'not installed (optional: pip install opcal[{OPTIONAL[name]}])'}")
    lines += [f"  SQLite        {found['sqlite']}; labelling sessions: {found['sessions']}"]
    lines += [f"  BLAS          {b['internal_api']} {b['version']}, {b['num_threads']} threads" for b in found["blas"]]
    lines.append("All that opcal needs is here." if not found["missing"] else f"Missing: {', '.join(found['missing'])}")
    return "\n".join(lines)
