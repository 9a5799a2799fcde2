"""`opcal doctor`, for a reader and for a program."""

from __future__ import annotations

import builtins
import json

import numpy
import pytest
from click.testing import CliRunner

import opcal
from opcal.cli import doctor, main


def run(*arguments):
    return CliRunner().invoke(main, ["doctor", *arguments])


def without(monkeypatch, *missing):
    known = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in missing else known(name))


def test_json_tells_a_program_the_versions():
    done = run("--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (found["opcal"], found["needed"]["numpy"], found["missing"]) == (opcal.__version__, numpy.__version__, [])


def test_the_blas_libraries_are_listed_with_their_threads():
    blas = json.loads(run("--json").stdout)["blas"]
    assert blas
    assert all(library["num_threads"] >= 1 for library in blas)


@pytest.mark.parametrize("name", doctor.CORE)
def test_a_needed_package_that_is_missing_is_named_with_exit_code_1(monkeypatch, name):
    without(monkeypatch, name)
    done = run()
    assert done.exit_code == 1
    assert f"MISSING: pip install {name}" in done.stdout
    assert f"Missing: {name}" in done.stdout
    assert json.loads(run("--json").stdout)["missing"] == [name]


def test_an_optional_package_that_is_missing_is_told_and_no_failure(monkeypatch):
    without(monkeypatch, "polars")
    done = run()
    assert done.exit_code == 0
    assert "polars        not installed (optional: pip install opcal[tables])" in done.stdout


@pytest.mark.parametrize("name", ["threadpoolctl", "scipy.linalg"])
def test_a_package_that_cannot_be_imported_does_not_stop_the_doctor(monkeypatch, name):
    imported = builtins.__import__

    def broken(module, *rest, **more):
        if module == name:
            raise ImportError(name)
        return imported(module, *rest, **more)

    without(monkeypatch, name)
    monkeypatch.setattr(builtins, "__import__", broken)
    assert doctor.examine()["blas"] == []


def test_the_needed_packages_are_those_that_installing_brings():
    from importlib.metadata import requires

    declared = {line.split(";")[0].split(">")[0].strip() for line in requires("opcal") if "extra" not in line}
    assert set(doctor.CORE) == declared
