"""What the house promises: rooms, quick imports, a README that runs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
import rooms

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "opcal").rglob("*.py"))


def test_no_room_imports_a_room_above_it():
    assert rooms.breaches() == []


@pytest.mark.parametrize(
    ("room", "name", "at_load"),
    [
        ("core", "opcal.pool", True),
        ("core", "sklearn.base", False),
        ("pool", "torch", True),
        ("pool", "opcal.cli", False),
    ],
)
def test_the_rule_between_rooms_sees_a_breach(room, name, at_load):
    assert rooms.breach(room, name, at_load)


def test_importing_opcal_imports_nothing_heavy():
    code = (
        "import sys, opcal; heavy = {'torch', 'sklearn', 'matplotlib', 'pandas', 'scipy', 'pyarrow', 'rich'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_calibrating_imports_neither_torch_nor_sklearn_nor_matplotlib():
    code = (
        "import sys, numpy as np, opcal; r = np.random.default_rng(0);"
        "p = opcal.Pool.from_arrays(r.normal(size=(50, 3)), r.normal(size=(50, 4)));"
        "c = opcal.OperationalCalibrator().begin(p); i = c.ask(12);"
        "c.tell(i, correct=i % 2 == 0); c.posterior(p).sample(2);"
        "print(sorted({'torch', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_readmes_example_runs_as_printed_and_helps():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL).group(1)
    assert len([line for line in code.splitlines() if line.strip()]) <= 14
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    before, after = (float(x) for x in re.search(r"before (\S+) after (\S+)", found.stdout).groups())
    assert after < before


def test_every_public_name_is_there():
    import opcal

    for name in opcal.__all__:
        assert getattr(opcal, name) is not None
    with pytest.raises(AttributeError):
        _ = opcal.no_such_name


def functions(file: Path) -> list[int]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [
        n.end_lineno - n.lineno + 1 for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def test_files_stay_under_400_lines_and_the_median_function_under_12():
    long = {str(f): n for f in SOURCES if (n := len(f.read_text(encoding="utf-8").splitlines())) > 400}
    assert long == {}
    assert median(n for f in SOURCES for n in functions(f)) < 12


def test_every_error_is_drawn_in_the_tree():
    from opcal import errors

    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
    assert all(issubclass(c, errors.OpcalError) for c in classes)
    assert all(c.__name__ in errors.__doc__ for c in classes)
