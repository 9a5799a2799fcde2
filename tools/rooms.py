"""The rule between rooms: who may import whom. Run: python tools/rooms.py (exits 1 and names each breach)."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "opcal"

LEVELS = [
    {"errors"},
    {"core"},
    {"pool"},
    {
        "_params",
        "_threads",
        "answers",
        "audit",
        "growing",
        "methods",
        "metrics",
        "calibrator",
        "baselines",
        "assess",
        "costs",
        "data",
    },
    {"session", "artifact", "monitor", "report", "sharded"},
    {"web", "demo", "bridges"},
    {"cli"},
]
"""From the foundation up: a room may import its own level and those before it."""
ONLY = {"core": {"numpy", "scipy"}, "errors": set()}
"""All that these rooms may import besides the standard library and opcal."""
LATE = {
    "torch",
    "sklearn",
    "matplotlib",
    "fastapi",
    "starlette",
    "sqlalchemy",
    "uvicorn",
    "jinja2",
    "PIL",
    "onnxruntime",
    "transformers",
    "ray",
}
"""Never imported at the top of a module outside `ROOMS_OF_THEIR_OWN`."""
DOORS = {("calibrator", "artifact")}
"""`cal.save` opens a room above it, when it is called."""
ROOMS_OF_THEIR_OWN = {"web", "session", "extract", "experiments", "bridges"}


def level(room: str) -> int | None:
    return next((i for i, rooms in enumerate(LEVELS) if room in rooms), None)


def imports(tree: ast.AST) -> list[tuple[str, int, bool]]:
    """Every imported module with its line, and whether it is imported as the module is loaded."""
    inside = {
        id(n) for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) for n in ast.walk(f)
    }
    inside |= {id(n) for f in ast.walk(tree) if isinstance(f, ast.If) and _type_checking(f) for n in ast.walk(f)}
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"opcal.{a.name}" for a in node.names] if node.module == "opcal" else [node.module]
        found += [(name, node.lineno, id(node) not in inside) for name in names]
    return found


def _type_checking(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def breaches(source: Path = SOURCE) -> list[str]:
    found = []
    for file in sorted(source.rglob("*.py")):
        room = file.relative_to(source).parts[0].removesuffix(".py")
        if room in {"__init__", "__main__"}:
            continue
        for name, line, at_load in imports(ast.parse(file.read_text(encoding="utf-8"))):
            if why := breach(room, name, at_load):
                found.append(f"{file.relative_to(source.parent)}:{line}: {why}")
    return found


def breach(room: str, name: str, at_load: bool) -> str | None:
    package, *rest = name.split(".")
    if package == "opcal" and rest:
        return None if (room, rest[0]) in DOORS and not at_load else _between(room, rest[0])
    if room in ONLY and package not in ONLY[room] | set(sys.stdlib_module_names):
        return f"{room} imports {package}; it may import {', '.join(sorted(ONLY[room])) or 'nothing'} only"
    if at_load and package in LATE and room not in ROOMS_OF_THEIR_OWN:
        return f"{package} is imported when {room} is loaded; import it inside the function that needs it"
    return None


def _between(room: str, other: str) -> str | None:
    if room == other or other in ("OUTSIDE", "__version__", "Pool", "OperationalCalibrator"):
        return None
    if other == "experiments":
        return f"{room} imports experiments; nothing may"
    if room == "experiments":
        return "experiments imports web" if other == "web" else None
    if "extract" in (room, other):
        allowed = other in ("pool", "errors") or room in ("cli", "web", "demo", "sharded")
        return None if allowed else f"{room} imports {other}; extract knows only pool"
    mine, theirs = level(room), level(other)
    if mine is None or theirs is None:
        return f"room {room if mine is None else other} has no level in tools/rooms.py"
    return f"{room} imports {other}, which lies above it" if theirs > mine else None


if __name__ == "__main__":
    problems = breaches()
    print("\n".join(problems) or "rooms: in order")
    sys.exit(1 if problems else 0)
