"""How `opcal` tells errors, whatever the command."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import make_case

import opcal
from opcal.cli import main
from opcal.cli.main import COMMANDS, SHORT


def test_every_command_has_help_with_an_example():
    for name in COMMANDS:
        done = CliRunner().invoke(main, [name, "--help"])
        assert (done.exit_code, "Example:  opcal " + name in done.output) == (0, True), done.output


HEAVY = ("scipy", "sklearn", "matplotlib", "fastapi", "torch", "opcal.calibrator")


@pytest.mark.parametrize(
    ("arguments", "besides"),
    [
        (["--help"], ("sqlalchemy", "pyarrow", "pandas")),
        (["status", "SESSION"], ("pyarrow", "pandas")),
        (["ask", "SESSION", "--json"], ("pyarrow.dataset",)),
        (["tell", "SESSION", "ITEM=1", "--annotator", "ann"], ("pyarrow", "pandas")),
    ],
)
def test_a_command_loads_no_mathematics_that_it_does_not_need(tmp_path, arguments, besides):
    from opcal.session import Session

    case = make_case(n=60)
    with Session.start(case.pool, tmp_path / "s", budget=20) as session:
        (task,) = session.lease("ann")
    words = [{"SESSION": str(tmp_path / "s")}.get(a, a.replace("ITEM", task.item)) for a in arguments]
    code = f"""
import sys
from opcal.cli import main
try:
    main({words!r})
except SystemExit as end:
    assert not end.code, end.code
print("LOADED", sorted(set({(*HEAVY, *besides)!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout, done.stdout


def test_help_has_a_line_for_every_command():
    told = CliRunner().invoke(main, ["--help"]).output
    for name in COMMANDS:
        assert f"  {name:<13}  {SHORT[name]}\n" in told


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["doctor", "--nonsense"]])
def test_wrong_usage_is_exit_code_2(arguments):
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_the_version_is_told():
    assert opcal.__version__ in CliRunner().invoke(main, ["--version"]).output


def test_an_error_of_the_system_is_told_with_its_file_and_exit_code_1(tmp_path):
    np.savez(tmp_path / "x.npz", features=np.eye(3), logits=5 * np.eye(3))
    (tmp_path / "file").touch()
    done = CliRunner().invoke(main, ["import", str(tmp_path / "x.npz"), "--out", str(tmp_path / "file" / "pool")])
    assert done.exit_code == 1
    assert f"opcal: {tmp_path / 'file'}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_installed_command_exits_with_1_and_no_traceback(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"garbage")
    command = [
        sys.executable,
        "-c",
        "from opcal.cli import main; main()",
        "import",
        tmp_path / "x.npz",
        "--out",
        tmp_path / "p",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot be read as .npz" in done.stderr
    assert "Traceback" not in done.stderr
