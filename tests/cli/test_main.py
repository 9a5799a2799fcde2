"""How `opcal` tells errors, whatever the command."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import opcal
from opcal.cli import main
from opcal.cli.main import COMMANDS


def test_every_command_has_help_with_an_example():
    for name in COMMANDS:
        done = CliRunner().invoke(main, [name, "--help"])
        assert (done.exit_code, "Example:  opcal " + name in done.output) == (0, True), done.output


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
