"""`opcal paper` from made data to tables: without torch, stopped and gone on with, the same figures every time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opcal.cli import main
from opcal.errors import InvalidInput, MissingDependency, PoolError
from opcal.experiments import run, store, tasks
from opcal.experiments.settings import Settings, quick
from opcal.experiments.stages import STAGES, context
from opcal.experiments.telling import page


def paper(made: Path, out: Path, *more: str) -> list[str]:
    found = CliRunner().invoke(
        main, ["paper", "--quick", "--data", str(made), "--out", str(out), "--workers", "1", *more]
    )
    assert found.exit_code == 0, found.output
    return found.output.splitlines()


def figures(out: Path) -> dict[str, object]:
    """All that is no time."""
    found = {}
    for path in sorted((out / "runs").glob("*.json")):
        run_ = json.loads(path.read_text(encoding="utf-8"))
        run_["figures"].pop("cpu seconds", None)
        found[path.name] = run_["figures"]
    return found


@pytest.fixture(scope="module")
def done(made, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("paper")
    paper(made, out, "--task", "5", "--splits", "1", "--repeats", "1")
    return out


def test_a_task_is_told_in_tables_figures_and_one_page(done):
    text = (done / "paper.md").read_text(encoding="utf-8")
    for heading in (
        "## Table 1",
        "## Table 2",
        "## Table 3",
        "Problem 1",
        "decomposition",
        "u ≤ .11",
        "Execution time",
    ):
        assert heading in text
    assert "(0.226)" in text  # what the paper printed
    assert "`opcal paper --task 5 --models 1 --splits 1 --repeats 1 --quick --data DATA --out OUT`" in text
    names = {path.name for path in (done / "figures").iterdir()}
    for name in ("lce", "data-efficiency", "efficiency", "fine-tuning", "decomposition", "selections"):
        assert {f"{name}.png", f"{name}.svg"} <= names
    assert {"examples-t5.png", "examples-t5.svg"} <= names
    html = (done / "index.html").read_text(encoding="utf-8")
    assert html.count("<table>") >= 8
    pictures = re.findall(r'<img alt="[^"]*" src="([^"]*)"', html)
    assert len(pictures) >= 7
    assert all((done / picture).exists() for picture in pictures)


def test_every_stage_left_a_run_with_settings_seed_versions_and_figures(done):
    runs = store.all_runs(done)
    assert {r["stage"] for r in runs} == set(STAGES)
    for kept in runs:
        assert kept["settings"] == {"quick": True, "size": "default", "models": 1}
        assert kept["versions"]["numpy"] == np.__version__
        assert kept["seed"] == 0


def test_another_run_gives_the_same_figures(done, made, tmp_path):
    paper(made, tmp_path, "--task", "5", "--splits", "1", "--repeats", "1")
    assert figures(tmp_path) == figures(done)


def test_what_is_there_is_not_run_again_and_what_is_missing_is(done, made):
    runs = sorted((done / "runs").glob("*.json"))
    before = {path: path.stat().st_mtime_ns for path in runs}
    lost = next(path for path in runs if "few" in path.name)
    content = lost.read_bytes()
    lost.unlink()
    paper(made, done, "--task", "5", "--splits", "1", "--repeats", "1")
    assert json.loads(lost.read_bytes())["figures"] == json.loads(content)["figures"]
    assert [p for p in runs if p.stat().st_mtime_ns != before[p]] == [lost]


def test_a_run_of_other_settings_is_made_again(done, made):
    other = Settings(made, done, quick=False, models=1)
    assert store.kept(quick(made, done), "5", 0, "few") is not None
    assert store.kept(other, "5", 0, "few") is None


def test_a_run_of_other_code_is_made_again(done, made, monkeypatch):
    monkeypatch.setattr(store, "code", lambda: "another")
    assert store.kept(quick(made, done), "5", 0, "few") is None


def test_workers_do_not_change_the_figures(done, made, tmp_path):
    script = (
        "import sys; from opcal.cli import main\n"
        f"if __name__ == '__main__': main(['paper', '--quick', '--data', {str(made)!r}, '--out', {str(tmp_path)!r},"
        "'--workers', '2', '--task', '5', '--splits', '1', '--repeats', '1'])"
    )
    file = tmp_path / "script.py"
    file.write_text(script, encoding="utf-8")
    subprocess.run([sys.executable, str(file)], check=True, capture_output=True)
    assert figures(tmp_path) == figures(done)


def test_many_classes_finish_without_training_images(made, tmp_path):
    paper(made, tmp_path, "--task", "6", "--splits", "1", "--repeats", "1")
    efficacy = store.all_runs(tmp_path)
    methods = next(r for r in efficacy if r["stage"] == "efficacy")["figures"]["methods"]
    assert {"SAR", "SAR-D", "paper", "auto", "PS-logit"} <= set(methods)


def test_the_runs_as_json_are_readable_by_a_program(done, made):
    asked = ["paper", "--quick", "--json", "--data", str(made), "--out", str(done), "--workers", "1", "--task", "5"]
    found = CliRunner().invoke(main, [*asked, "--splits", "1", "--repeats", "1"])
    assert {r["task"] for r in json.loads(found.stdout)} == {"5"}


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--data", "no-such-folder"], "is no folder", 1),
        (["--data", ".", "--task", "5"], "pacs_effnetlite0.npz is missing", 1),
        (["--data", ".", "--task", "7"], "'7' is not one of", 2),
        ([], "--data", 2),
        (["--data", ".", "--models", "0"], "--models", 2),
    ],
)
def test_mistakes_are_told_by_name(arguments, words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(main, ["paper", "--workers", "1", *arguments])
    assert found.exit_code == code
    assert words in found.output


def test_settings_and_names_are_checked(made):
    with pytest.raises(InvalidInput, match="splits is 0"):
        Settings(made, made, splits=0)
    with pytest.raises(Exception, match="task is '9'"):
        tasks.task("9")
    assert [t.name for t in tasks.chosen(("2",))] == ["2", "2b"]
    assert [t.name for t in tasks.chosen(("all",))] == ["1", "2", "2b", "3", "4", "5", "6"]
    with pytest.raises(PoolError, match="polarity_v1"):
        tasks.task("2").data(Settings(made / "none", made))


def test_a_missing_torch_is_told_before_hours_are_spent(made, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependency, match=r"torch==2\.13\.0"):
        run.check(quick(made, tmp_path), [tasks.task("1")])
    run.check(quick(made, tmp_path), [tasks.task("5")])


def test_a_page_can_be_written_from_half_of_the_runs(done, tmp_path):
    (tmp_path / "runs").mkdir()
    for name in ("t5-accuracy-s0.json", "t5-efficacy-s0.json"):
        (tmp_path / "runs" / name).write_bytes((done / "runs" / name).read_bytes())
    page.write(tmp_path)
    assert "## Table 2" in (tmp_path / "paper.md").read_text(encoding="utf-8")


def test_pool_and_unseen_items_are_apart_and_the_quick_field_is_cut(done, made):
    found = context.Context(quick(made, done), tasks.task("5"), 0)
    split = found.split
    assert not set(split.here.rows) & set(split.unseen.rows)
    assert len(split.here) + len(split.unseen) == 150
    assert (np.diff(split.random(20)[:5]) != 0).all()
    assert list(split.random(5)) == list(split.random(20)[:5])


SLEEPERS = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from opcal.experiments.run import _alone
with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=_alone) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    list(pool.map(time.sleep, [60, 60]))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells processes by /proc")
def test_a_worker_ends_when_its_parent_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", SLEEPERS], stdout=subprocess.PIPE, text=True)
    with parent:
        worker = int(parent.stdout.readline())
        parent.kill()
    ended = any(not running(worker) or time.sleep(0.1) for _ in range(300))
    assert ended


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
