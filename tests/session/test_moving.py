"""A session that lived a whole life, exported and imported into a new one by the command line: the same calibrator."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import make_case

import opcal
from opcal.cli import main
from opcal.session import Session

CASE = make_case(n=240, seed=2)
CLASSES = ["cat", "dog", "wrong", "eel"]
PARTS = {"march": slice(0, 150), "april": slice(150, 200), "may": slice(200, 240)}
PEOPLE = ("ann", "bob", "Ćirić, zoé")
OPTIONS = ("--budget", "70", "--audit", ".5", "--overlap", ".4", "--disputes", "arbiter", "--seed", "3")
SUFFIXES = ["csv", "jsonl", "parquet", "json"]


def run(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def say(where, who, position, *, shift=0):
    word = CLASSES[(int(CASE.labels[position]) + shift) % 4]
    run("tell", where, f"item {position} ={word}", "--annotator", who)


def label(where, n, rng):
    """n questions answered by anybody: some skipped, some judged right or wrong, some outside, some with a note."""
    for _ in range(n):
        who = PEOPLE[rng.integers(3)]
        for task in json.loads(run("ask", where, "--annotator", who, "--json")):
            true = int(CASE.labels[task["position"]])
            mistaken = CLASSES[(true + 1) % 4] if who == "bob" and rng.random() < 0.3 else CLASSES[true]
            words = {0: "skip", 1: "(wrong)", 2: "outside", 3: "right"}
            word = words.get(int(rng.integers(12)), mistaken)
            note = ("--note", 'seen "twice", \n unsure') if rng.random() < 0.2 else ()
            run("tell", where, f"{task['item']}={word}", "--annotator", who, *note)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The pools, and `ward`: three people, overlap, a pool that grew twice, the audit of the new parts still behind."""
    folder = tmp_path_factory.mktemp("moving")
    for name, rows in PARTS.items():
        ids = [f"item {i} " for i in range(240)[rows]]  # with a space at the end
        opcal.Pool.from_arrays(CASE.features[rows], CASE.logits[rows], ids=ids, classes=CLASSES).save(folder / name)
    ward, rng = folder / "ward", np.random.default_rng(0)
    run("start", folder / "march", "--out", ward, *OPTIONS)
    label(ward, 30, rng)
    for who in PEOPLE[:2]:
        run("undo", ward, "--annotator", who)
    rows = list(csv.DictReader(run("export-labels", ward).splitlines(keepends=True)))
    corrected = next(r for r in rows if r["annotator"] == "ann" and r["answer"] in CLASSES)
    run("tell", ward, f"{corrected['item']}=eel", "--annotator", "ann")
    for position in (140, 141, 142, 143):  # nobody asked
        say(ward, "ann", position)
    say(ward, "bob", 141, shift=1)
    run("add-items", ward, folder / "april")
    label(ward, 10, rng)
    say(ward, "bob", 160)
    run("add-items", ward, folder / "may")
    label(ward, 6, rng)
    tied = run("resolve", ward).split("\n")[0].strip().split("  ")[0]
    run("resolve", ward, f"{tied} =dog", "--annotator", "chief")
    run("undo", ward, "--annotator", "bob")
    return folder


def again(here, where):
    """A session that was started and extended alike."""
    run("start", here / "march", "--out", where, *OPTIONS)
    run("add-items", where, here / "april")
    run("add-items", where, here / "may")
    return where


def test_the_session_that_is_moved_holds_all_that_can_make_it_hard(here):
    with Session.open(here / "ward") as session:
        session.background = False
        kinds, status, cal = {e.kind for e in session.events()}, session.status(), session.calibrator()
        assert kinds == {"start", "ask", "answer", "skip", "undo", "decide", "pool"}
        assert len(status.annotators) == 4
        assert min(status.extra, status.skipped, status.disputed, session.agreement().items) >= 1
        assert {opcal.OUTSIDE, -2} <= set(cal.answers_.labels.tolist())
        assert (cal.answers_.weight < 1).any()
        assert 0 < cal.audit_.sum() < np.isin(cal.answers_.positions, cal.walked_).sum()  # the new parts lag behind
        rows = session.answers()
        assert any(r["note"] for r in rows)
        assert {r["uniform"] for r in rows if r["purpose"] == "audit"} == {True, False}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_extended_session_moves_to_a_new_one_with_the_same_calibrator(here, tmp_path, suffix):
    file, new = tmp_path / f"answers.{suffix}", again(here, tmp_path / "new")
    run("export-labels", here / "ward", "--out", file)
    run("import-labels", new, file)
    with Session.open(here / "ward") as one, Session.open(new) as other:
        one.background = other.background = False
        told, found = one.calibrator(), other.calibrator()
        np.testing.assert_array_equal(told.answers_.positions, found.answers_.positions)
        np.testing.assert_array_equal(told.answers_.labels, found.answers_.labels)
        np.testing.assert_array_equal(told.answers_.weight, found.answers_.weight)
        np.testing.assert_array_equal(told.audit_, found.audit_)
        assert one.digest() == other.digest()
        first, second = (opcal.assess.accuracy(cal) for cal in (told, found))
        np.testing.assert_allclose(first.estimate, second.estimate, rtol=1e-9)
        np.testing.assert_allclose([first.lower, first.upper], [second.lower, second.upper], rtol=1e-9)


def test_a_third_session_made_of_the_second_is_the_same_again_and_twice_is_once(here, tmp_path):
    second, third = again(here, tmp_path / "second"), again(here, tmp_path / "third")
    first = run("export-labels", here / "ward")
    (tmp_path / "1.csv").write_text(first, encoding="utf-8")
    run("import-labels", second, tmp_path / "1.csv")
    run("import-labels", second, tmp_path / "1.csv")
    (tmp_path / "2.csv").write_text(run("export-labels", second), encoding="utf-8")
    run("import-labels", third, tmp_path / "2.csv")
    with Session.open(here / "ward") as one, Session.open(third) as other:
        one.background = other.background = False
        assert one.digest() == other.digest()
        kept = ("annotator", "item", "answer", "time", "id", "note", "uniform")
        rows = [[{name: r[name] for name in kept} for r in s.answers()] for s in (one, other)]
        assert rows[0] == rows[1]
        shares = [[r["inclusion"] for r in s.answers() if r["uniform"]] for s in (one, other)]
        assert shares[0] == shares[1]


def test_the_new_session_goes_on_and_its_audit_stays_one_uniform_sample(here, tmp_path):
    """What another session drew stays in the sample while the new session's own walk is uneven."""
    new = again(here, tmp_path / "new")
    run("export-labels", here / "ward", "--out", tmp_path / "a.csv")
    run("import-labels", new, tmp_path / "a.csv")
    with Session.open(new) as session:
        session.background = False
        before = session.calibrator()
        sampled = set(before.answers_.positions[before.audit_].tolist())
    label(new, 4, np.random.default_rng(1))
    with Session.open(new) as session:
        after = session.calibrator()
        assert sampled <= set(after.answers_.positions[after.audit_].tolist())


@pytest.mark.parametrize(
    ("column", "value", "says"), [("uniform", "maybe", "uniform"), ("inclusion", "2", "inclusion")]
)
def test_what_is_no_probability_is_refused_by_its_line(here, tmp_path, column, value, says):
    new = tmp_path / "new"
    run("start", here / "march", "--out", new)
    (tmp_path / "a.csv").write_text(f"item,answer,purpose,{column}\nitem 1 ,cat,audit,{value}\n")
    done = CliRunner().invoke(main, ["import-labels", str(new), str(tmp_path / "a.csv")])
    assert (done.exit_code, f"line 2: {says} is {value!r}" in done.stderr) == (1, True), done.stderr
