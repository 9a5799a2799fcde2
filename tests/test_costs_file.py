"""The file of costs: what it says, and what it refuses by name."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal import costs
from opcal.errors import InvalidCosts

CLASSES = ("NORMAL", "PNEUMONIA")
GOOD = """
gain: 1
loss: {NORMAL: 50, PNEUMONIA: 2}
actions:
  person: {cost: 0.5, accuracy: 0.98, capacity: 50}
  reject: {gain: 0}
"""


def test_a_yaml_file_says_what_its_json_twin_says(tmp_path):
    import yaml

    (tmp_path / "c.yaml").write_text(GOOD)
    (tmp_path / "c.json").write_text(json.dumps(yaml.safe_load(GOOD)))
    one, other = (costs.load(tmp_path / name, CLASSES) for name in ("c.yaml", "c.json"))
    np.testing.assert_array_equal(one.gains, other.gains)
    assert one.names == ("act", "person", "reject")
    assert one.capacities == (None, 50, None)
    assert one.act[0].tolist() == [1, -50, -50]


def test_thresholds_by_predicted_class_follow():
    matrix = costs.from_dict({"loss": {"NORMAL": 50, "PNEUMONIA": 2}}, CLASSES)
    np.testing.assert_allclose(matrix.thresholds(), [50 / 51, 2 / 3])


def test_u_alone_is_the_simple_case():
    np.testing.assert_allclose(costs.from_dict({"u": 9}, CLASSES).thresholds(), 0.9)
    np.testing.assert_allclose(costs.from_dict(9, 2).thresholds(), 0.9)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "loss is missing: expected"),
        ({"loss": -1}, "loss is -1: expected a number of 0 or more"),
        ({"loss": True}, "loss is True"),
        ({"loss": "much"}, "loss is 'much'"),
        ({"los": 1}, "the file has an entry 'los': known are"),
        ({"loss": {"NORMAL": 1}}, "loss names NORMAL: expected NORMAL, PNEUMONIA"),
        ({"loss": {"NORMAL": 1, "PNEUMONIA": {"NORMAL": -1}}}, "loss.PNEUMONIA.NORMAL is -1"),
        ({"loss": 1, "capacity": 2.5}, "capacity is 2.5: expected how many items"),
        ({"loss": 1, "actions": []}, "actions is []"),
        ({"loss": 1, "actions": {"person": 3}}, "actions.person is 3: expected entries named"),
        ({"loss": 1, "actions": {"person": {}}}, "actions.person.cost is missing"),
        (
            {"loss": 1, "actions": {"person": {"cost": 1, "accuracy": 98}}},
            "accuracy is 98: expected a number from 0 to 1",
        ),
        ({"loss": 1, "actions": {"person": {"gain": 1, "cost": 1}}}, "either gain, or cost and accuracy"),
        ({"loss": 1, "actions": {"act": {"gain": 1}}}, "actions.act"),
        ({"u": 9, "loss": 1}, "either u alone"),
        ({"u": float("nan")}, "u is nan"),
        ({"loss": 1, "classes": ["A", "B"]}, "classes is ['A', 'B']"),
        ("nine", "the file is 'nine'"),
    ],
)
def test_a_mistake_is_named_with_its_place(given, says):
    with pytest.raises(InvalidCosts) as refused:
        costs.from_dict(given, CLASSES)
    assert says in str(refused.value)


def test_a_file_that_is_no_yaml_is_refused_with_its_name(tmp_path):
    (tmp_path / "c.yaml").write_text("loss: [1, 2")
    with pytest.raises(InvalidCosts, match=r"c\.yaml: cannot be read"):
        costs.load(tmp_path / "c.yaml", CLASSES)


def test_decisions_for_a_pool_keep_the_capacity_and_beat_acting_on_everything():
    case = make_case()
    conf = np.random.default_rng(0).random(len(case.pool))
    matrix = costs.from_dict({"loss": 4, "actions": {"person": {"cost": 0.2, "capacity": 7}, "reject": {"gain": 0}}}, 4)
    made = costs.decisions(matrix, case.pool, conf)
    assert made.counts["person"] == 7
    assert sum(made.counts.values()) == len(case.pool)
    assert made.expected.mean() >= made.curve.expected[-1]


def test_costs_of_other_classes_are_refused():
    with pytest.raises(InvalidCosts, match="3 classes, the pool has 4"):
        costs.decisions(costs.from_dict({"loss": 1}, 3), make_case().pool, np.full(200, 0.5))


def test_gain_and_regret_are_measured_on_labelled_items():
    case = make_case(n=400)
    pool = case.pool
    right = (pool.predicted == case.labels).astype(float)
    made = costs.decisions(4.0, pool, right)
    found = costs.measured(4.0, pool, made.action, np.arange(200), case.labels[:200])
    assert found.regret == 0
    assert found.gain == pytest.approx(right[:200].mean())
    assert found.gain_lower < right.mean() < found.gain_upper


def test_the_calibrator_takes_a_cost_matrix_for_its_threshold():
    matrix = costs.from_dict({"loss": 9}, 4)
    assert opcal.OperationalCalibrator(costs=matrix).threshold_ == pytest.approx(0.9)
