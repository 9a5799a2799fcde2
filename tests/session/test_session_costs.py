"""Costs that a session was started with: stored exactly, used by default, the same after every opening."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import make_case

import opcal
from opcal import costs
from opcal.cli import main
from opcal.errors import InvalidCosts, OpcalError
from opcal.session import Session
from opcal.session.options import costs_of
from opcal.web.labelling import shown
from opcal.web.labelling.worth import Worth

CASE = make_case(n=160, seed=4)
CLASSES = ("a", "b", "1", "d")
IDS = [f"scan{i}" for i in range(160)]
POOL = opcal.Pool.from_arrays(CASE.features, CASE.logits, ids=IDS, classes=CLASSES)
FILE = """
gain: {a: 1, b: 0.1, 1: 2, d: 1}      # a class named 1, a third that no binary fraction is
loss: {a: 50, b: 0.3333333333333333, 1: {a: 1, b: 2, d: 0.7}, d: 1}
actions:
  person: {cost: 0.25, accuracy: 0.98, capacity: 9}
  reject: {gain: 0}
"""


def run(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """Started from the prompt with a file of costs, labelled to the end of its budget."""
    folder = tmp_path_factory.mktemp("costs")
    POOL.save(folder / "pool")
    (folder / "costs.yaml").write_text(FILE)
    run("start", folder / "pool", "--out", folder / "ward", "--budget", 60, "--audit", ".5", "--design", "paper",
        "--costs", folder / "costs.yaml")  # fmt: skip
    with Session.open(folder / "ward") as session:
        session.background = False
        while tasks := session.lease("ann", 20):
            for task in tasks:
                session.answer("ann", task.item, int(CASE.labels[task.position]))
    return folder / "ward"


def same(one, other):
    np.testing.assert_array_equal(one.gains, other.gains)
    assert (one.names, one.capacities, one.threshold) == (other.names, other.capacities, other.threshold)


def test_the_stored_costs_are_those_of_the_file_to_the_last_bit(ward):
    with Session.open(ward) as session:
        same(costs_of(session.settings), costs.load(ward.parent / "costs.yaml", CLASSES))
        start = session.events()[0]
        assert start.data["settings"]["costs"] == session.settings.costs  # the log says it too


def test_replay_gives_the_same_bytes_and_the_calibrator_of_the_library(ward):
    with Session.open(ward) as one, Session.open(ward) as other:
        assert one.digest() == other.digest()
        asked = [(e.position, e.data["purpose"]) for e in one.events() if e.kind == "ask"]
        cal = opcal.OperationalCalibrator(
            design="paper", audit=0.5, costs=costs.load(ward.parent / "costs.yaml", CLASSES)
        )
        cal.begin(POOL, 60)
        told = cal.ask(8)
        assert told.tolist() == [position for position, _ in asked[:8]]
        assert one.calibrator().threshold_ == cal.threshold_


def test_assess_report_and_panel_take_the_sessions_costs_without_being_told(ward, tmp_path):
    own = json.loads(run("assess", ward, "--json"))["decisions"]
    assert own == json.loads(run("assess", ward, "--costs", ward.parent / "costs.yaml", "--json"))["decisions"]
    assert own["counts"]["person"] == 9
    facts = json.loads(run("report", ward, "--json"))
    assert (facts["decisions"]["given"], facts["decisions"]["thresholds"]) == (True, own["thresholds"])
    assert json.loads(facts["settings"]["costs"])["actions"]["person"]["capacity"] == 9
    with Session.open(ward) as session:
        cal = session.calibrator()
        panel = Worth().measure(cal, None)
        acted = costs.decisions(cal.costs, cal.pool_, opcal.assess.accuracy(cal).crossfit.fitted)
        assert panel["efficiency"][-1]["sure"] == acted.counts["act"] / 160
        assert panel["threshold"] is None
        assert shown.threshold(session.settings) == cal.threshold_


def test_certify_promises_a_gain_at_the_sessions_costs_and_goes_on_with_them(ward):
    first = json.loads(run("certify", ward, "--gain", "-5", "-n", "12", "--json"))
    answers = [f"{item}={CLASSES[CASE.labels[IDS.index(item)]]}" for item in first["to_label"]]
    assert json.loads(run("certify", ward, *answers[:-1], "--json"))["to_label"] == first["to_label"][-1:]
    done = json.loads(run("certify", ward, answers[-1], "--json"))["certificate"]
    assert done["labels"] == len(answers)


def test_a_number_is_stored_as_it_was_by_earlier_versions_and_gives_the_hash_of_the_library(tmp_path):
    with Session.start(POOL, tmp_path / "s", budget=8, costs=opcal.Costs(9.0), design="paper") as session:
        session.background = False
        assert session.events()[0].data["settings"]["costs"] == 9.0
        for task in session.lease("ann", 8):
            session.answer("ann", task.item, int(CASE.labels[task.position]))
        cal = opcal.OperationalCalibrator(design="paper", costs=9.0).begin(session.pool, 8)
        at = cal.ask(8)
        cal.tell(at, labels=CASE.labels[at])
        np.testing.assert_array_equal(session.calibrator().confidence(POOL), cal.confidence(POOL))


def test_a_matrix_made_in_python_is_stored_exactly(tmp_path):
    rng = np.random.default_rng(0)
    others = (costs.Action("half", rng.standard_normal((4, 5)) / 3, 7), costs.Action("reject", np.zeros((4, 5))))
    made = costs.CostMatrix(rng.standard_normal((4, 5)), others, capacity=50)
    with Session.start(POOL, tmp_path / "s", costs=made):
        pass
    with Session.open(tmp_path / "s") as session:
        same(costs_of(session.settings), made)


def test_costs_by_class_need_a_pool_that_names_its_classes(tmp_path):
    nameless = opcal.Pool.from_arrays(CASE.features, confidence=np.full(160, 0.7), predicted=CASE.logits.argmax(1))
    with pytest.raises(InvalidCosts, match="does not say which classes"):
        Session.start(nameless, tmp_path / "s", costs={"loss": 3})
    with pytest.raises(InvalidCosts, match="loss names a: expected"):
        Session.start(POOL, tmp_path / "s", costs={"loss": {"a": 3}})
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "given",
    [
        {"act": 3, "others": {}},
        {"act": [[1]], "others": {"x": {"gain": [[1]]}}},
        {"act": [], "others": None},
        {"act": [["x"]], "others": {"x": {}}},
        {"act": [[0, 0, 0], [0, 0, 0]], "others": {"x": {"gain": [[0, 0, 0], [0, 0]]}}},
        {"act": [[0, 0, 0], [0, 0, 0]], "others": {}},
        {"act": [[0, 0, 0], [0, 0, 0]], "others": {"x": {"gain": [[0, 0, 0], [0, 0, 0]], "capacity": -1}}},
        {"act": [[0, 0, float("inf")], [0, 0, 0]], "others": {"x": {"gain": [[0, 0, 0], [0, 0, 0]]}}},
    ],
)
def test_a_stored_matrix_that_was_tampered_with_is_refused_by_name(given):
    with pytest.raises(OpcalError):
        costs.from_dict(given, 2)
