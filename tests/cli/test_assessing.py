"""`opcal assess`, `certify` and `report`, typed as a user would."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import make_case

import opcal
from opcal.cli import main
from opcal.session import Session

CASE = make_case(n=160, seed=4)
IDS = [f"scan{i}" for i in range(160)]
CLASSES = ("a", "b", "c", "d")


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assess") / "ward"
    pool = opcal.Pool.from_arrays(CASE.features, CASE.logits, ids=IDS, classes=CLASSES)
    with Session.start(pool, folder, budget=60, audit=0.5, costs=4.0) as session:
        while tasks := session.lease("ann", 20):
            for task in tasks:
                session.answer("ann", task.item, int(CASE.labels[task.position]))
    worse = CASE.logits + 3 * np.random.default_rng(0).standard_normal(CASE.logits.shape)
    opcal.Pool.from_arrays(CASE.features, worse, ids=IDS, classes=CLASSES).save(folder.parent / "other")
    return folder


def test_assess_says_go_or_no_go_in_words_and_as_json(ward):
    told = run("assess", ward, "--required", "0.05")
    assert told.exit_code == 0, told.output
    assert "Go: at least 5.0% is required" in told.output
    facts = json.loads(run("assess", ward, "--by", "predicted", "--by", "true", "--json").output)
    assert facts["accuracy"]["labels"] == 30
    assert set(facts["by"]) == {"predicted", "true"}
    assert facts["accuracy"]["lower"] <= np.mean(CASE.pool.predicted == CASE.labels) <= facts["accuracy"]["upper"]


def test_another_model_is_compared_and_items_to_label_are_named(ward):
    told = json.loads(run("assess", ward, "--against", ward.parent / "other", "--differing", "4", "--json").output)
    items = told["against"]["to_label"]
    assert len(items) == 4
    answers = [f"{item}={CLASSES[CASE.labels[IDS.index(item)]]}" for item in items]
    assert run("tell", ward, *answers).exit_code == 0
    again = json.loads(run("assess", ward, "--against", ward.parent / "other", "--json").output)
    assert again["against"]["to_label"] == []
    assert run("assess", ward, "--differing", "4").exit_code == 2
    by = again["against"]["by"]
    assert set(by) == {"predicted", "cluster"}
    differ = again["against"]["difference"]["other"]["differ"]
    assert all(sum(d["difference"]["other"]["differ"] for d in groups.values()) == differ for groups in by.values())
    text = run("assess", ward, "--against", ward.parent / "other").output
    assert "Which is better, by this model's prediction:\n" in text
    assert "Which is better, by cluster:\n" in text
    told = {
        name: duel for name, duel in by["predicted"].items() if duel["enough"] and duel["difference"]["other"]["differ"]
    }
    assert all(f"  {name:<18} other " in text for name in told)


def test_costs_from_a_file_give_thresholds_and_their_mistakes_are_named(ward, tmp_path):
    (tmp_path / "costs.yaml").write_text(
        "loss: {a: 9, b: 1, c: 1, d: 1}\nactions: {person: {cost: 0.2, capacity: 5}}\n"
    )
    facts = json.loads(run("assess", ward, "--costs", tmp_path / "costs.yaml", "--json").output)
    assert facts["decisions"]["thresholds"]["a"] > facts["decisions"]["thresholds"]["b"]
    (tmp_path / "bad.yaml").write_text("loss: {a: 9}\n")
    told = run("assess", ward, "--costs", tmp_path / "bad.yaml")
    assert told.exit_code == 1
    assert "bad.yaml: loss names a: expected a, b, c, d" in told.stderr


def test_certify_freezes_asks_waits_tests_and_resumes(ward):
    first = json.loads(run("certify", ward, "--error", "0.3", "--delta", "0.2", "-n", "12", "--json").output)
    items = first["to_label"]
    assert first["certificate"] is None
    assert len(items) == first["asked"] > 0
    assert json.loads(run("certify", ward, "--json").output)["to_label"] == items
    told = run("certify", ward, "--error", "0.1")
    assert told.exit_code == 1
    assert "start another with --new" in told.stderr
    answers = [f"{item}={CLASSES[CASE.labels[IDS.index(item)]]}" for item in items]
    half = json.loads(run("certify", ward, *answers[:-1], "--json").output)
    assert (half["to_label"], half["certificate"]) == (items[-1:], None)
    done = json.loads(run("certify", ward, answers[-1], "--json").output)
    assert done["certificate"]["labels"] == len(items)
    assert json.loads(run("certify", ward, "--json").output) == done
    assert "It rests on this" in run("certify", ward).output


def test_the_report_is_written_and_its_json_is_the_same_story(ward, tmp_path):
    told = run("report", ward, "--out", tmp_path / "r.html", "--card", tmp_path / "card.md", "--required", "0.5")
    assert told.exit_code == 0, told.output
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "# Model card: ward" in (tmp_path / "card.md").read_text(encoding="utf-8")
    facts = json.loads(run("report", ward, "--required", "0.5", "--json").output)
    assert facts["accuracy"]["sentence"] in html.replace("&#x27;", "'")
    assert facts["labels"]["annotators"]


def test_a_session_without_random_labels_says_what_to_do(tmp_path):
    pool = opcal.Pool.from_arrays(CASE.features, CASE.logits)
    with Session.start(pool, tmp_path / "empty", budget=10):
        pass
    told = run("assess", tmp_path / "empty")
    assert told.exit_code == 1
    assert "no label of an item drawn at random" in told.stderr
