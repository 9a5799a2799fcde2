"""A labelling session typed at a prompt, mistakes included."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import make_case

import opcal
from opcal.cli import main
from opcal.cli.main import COMMANDS

CASE = make_case(n=80)
COMMANDS_HERE = [
    name for name, module in COMMANDS.items() if "sessions" in module or "labels" in module or "upkeep" in module
]


def pool(rows=slice(0, 60)):
    ids = [f"x{r}" for r in range(80)[rows]]
    options = dict(classes=["cat", "dog", "owl", "eel"], payload=[f"{i}.png" for i in ids])
    return opcal.Pool.from_arrays(CASE.features[rows], CASE.logits[rows], ids=ids, **options)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPCAL_ANNOTATOR", "ann")
    pool().save("pool")
    assert run("start", "pool", "--out", "ward", "--budget", "12").exit_code == 0
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def told(*arguments):
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_ask_tell_undo_and_status_play_together(here):
    tasks = told("ask", "ward", "-n", 4)
    assert [t["item"] for t in told("ask", "ward", "-n", 4)] == [t["item"] for t in tasks]
    done = run("tell", "ward", *(f"{t['item']}=cat" for t in tasks[:3]), f"{tasks[3]['item']}=outside")
    assert (done.exit_code, "4 stored. 4 of 12" in done.output) == (0, True), done.output
    assert "Taken back" in run("undo", "ward").output
    status = told("status", "ward")
    assert (status["answered"], status["labelled"], status["annotators"]) == (3, 3, {"ann": 3})
    assert "budget 12" in run("status", "ward").output


def test_the_table_of_ask_hides_the_prediction_of_audit_items(here):
    shown = run("ask", "ward", "-n", 8).output
    assert "hidden" in shown
    assert ".png" in shown


def test_when_the_budget_is_met_ask_says_so(here):
    while tasks := told("ask", "ward", "-n", 5):
        assert run("tell", "ward", *(f"{t['item']}=dog" for t in tasks)).exit_code == 0
    assert "Nothing is left to ask: 12 answers of a budget of 12." in run("ask", "ward").output


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("tell", "ward", "x1"), 2, "expected ITEM=LABEL"),
        (("tell", "ward", "x1=zebra"), 1, "none of the classes (cat, dog, owl, eel) nor one of outside"),
        (("tell", "ward", "nobody=cat"), 1, "no item has the id 'nobody'"),
        (("tell", "ward"), 2, "pass ITEM=LABEL, or --from"),
        (("tell", "nowhere", "x1=cat"), 1, "nowhere does not exist"),
        (("status", "pool"), 1, "is a pool: start a session on it"),
        (("start", "pool", "--out", "ward"), 1, "holds a session already"),
        (("start", "nothing", "--out", "new"), 1, "nothing does not exist"),
        (("start", "pool", "--out", "new", "--budget", "0"), 2, "budget"),
        (("start", "pool", "--out", "new", "--method", "magic"), 1, "method is 'magic'"),
        (("start", "pool", "--out", "new", "--costs", "-1"), 2, "costs"),
        (("start", "pool", "--out", "new", "--costs", "none.yaml"), 2, "none.yaml"),
        (("start", "pool", "--out", "new", "--costs", "short.yaml"), 1, "loss names cat: expected"),
        (("start", "pool", "--out", "new", "--costs", "empty.json"), 1, "empty.json: cannot be read as .json"),
        (("start", "pool", "--out", "new", "--costs", "empty.yaml"), 1, "empty.yaml: the file is empty"),
        (("start", "pool", "--out", "new", "--costs", "list.yaml"), 1, "u is [1]"),
        (("start", "pool", "--out", "new", "--db", "mysql://x/y"), 1, "is no database of a session"),
        (("start", "pool", "--out", "new", "--db", "postgresql://127.0.0.1:1/none"), 1, "connection"),
        (("undo", "ward"), 1, "nothing to take back"),
        (("forget", "ward"), 2, "name items"),
        (("forget", "ward", "--older-than", "soon"), 2, "expected a date like"),
        (("add-items", "ward", "pool"), 1, "in the pool already"),
        (("export-labels", "ward", "--out", "x.doc"), 1, "cannot write .doc"),
    ],
)
def test_mistakes_are_told_with_what_to_do_and_an_exit_code(here, arguments, code, says):
    for name, text in {"short.yaml": "loss: {cat: 9}", "empty.json": "", "empty.yaml": "", "list.yaml": "[1]"}.items():
        (here / name).write_text(text)
    done = run(*arguments)
    assert (done.exit_code, says in done.output) == (code, True), done.output
    assert not (here / "new").exists()


def test_a_file_of_answers_is_all_or_nothing(here):
    (here / "a.csv").write_text("item,answer\nx1,cat\nx2,zebra\n")
    done = run("tell", "ward", "--from", "a.csv")
    assert (done.exit_code, "line 3: 'zebra'" in done.output) == (1, True), done.output
    assert told("status", "ward")["labelled"] == 0
    (here / "a.csv").write_text("item,answer\nx1,cat\nx2,owl\n")
    assert "2 stored" in run("tell", "ward", "--from", "a.csv").output


def test_labels_go_out_and_into_another_session(here):
    run("tell", "ward", "x1=cat", "x2=owl", "--note", "blurred")
    assert "2 answers" in run("export-labels", "ward", "--out", "a.parquet").output
    run("start", "pool", "--out", "again")
    assert told("import-labels", "again", "a.parquet") == {"stored": 2}
    first, second = (run("export-labels", where).output for where in ("ward", "again"))
    assert first == second
    assert first.splitlines()[0] == "annotator,item,answer,purpose,inclusion,uniform,time,id,note"


def test_ties_are_listed_and_decided(here):
    run(
        "start",
        "pool",
        "--out",
        "two",
        "--overlap",
        "2",
        "--overlap-share",
        "1",
        "--disputes",
        "arbiter",
        "--budget",
        "4",
    )
    (task,) = told("ask", "two")
    run("tell", "two", f"{task['item']}=cat")
    run("tell", "two", f"{task['item']}=dog", "--annotator", "bob")
    assert "ann: cat, bob: dog" in run("resolve", "two").output
    assert "1 decided, 0 still tied" in run("resolve", "two", f"{task['item']}=dog", "--annotator", "chief").output
    assert "No item is tied" in run("resolve", "two").output


def test_items_are_added_forgotten_and_backed_up(here):
    pool(slice(60, 80)).save("april")
    assert told("add-items", "ward", "april") == {"added": 20, "items": 80}
    run("tell", "ward", "x70=cat")
    assert told("forget", "ward", "x70", "--reason", "asked") == {"forgotten": ["x70"]}
    assert told("forget", "ward", "--older-than", "90d") == {"forgotten": []}
    assert "a copy up to event" in run("backup", "ward", "--out", "copy").output
    assert told("status", "copy")["forgotten"] == 1


def test_tasks_for_label_studio_are_written(here):
    run("ask", "ward", "-n", 3, "--label-studio", "tasks.json")
    made = json.loads((here / "tasks.json").read_text())
    assert len(made) == 3
    assert all(task["data"]["payload"].endswith(".png") for task in made)


@pytest.mark.parametrize("name", COMMANDS_HERE)
def test_every_command_has_help_with_an_example(name):
    done = run(name, "--help")
    assert (done.exit_code, "Example:" in done.output) == (0, True)


def test_doctor_tells_which_journal_sessions_get_and_why():
    found = json.loads(run("doctor", "--json").stdout)["sessions"]
    assert "WAL-reset" in found
    assert "synchronous=FULL" in found


def test_a_session_from_the_prompt_gives_the_calibrator_of_the_library(here):
    tasks = told("ask", "ward", "-n", 3)
    for task in tasks:
        run("tell", "ward", f"{task['item']}={['cat', 'dog', 'owl', 'eel'][CASE.labels[task['position']]]}")
    at = np.array([t["position"] for t in tasks])
    stored = opcal.Pool.open("pool")
    cal = opcal.OperationalCalibrator().begin(stored, budget=12)
    cal.tell(at, labels=CASE.labels[at])
    from opcal.session import Session

    with Session.open("ward") as session:
        np.testing.assert_array_equal(session.calibrator().confidence(stored), cal.confidence(stored))
