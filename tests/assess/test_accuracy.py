"""Field accuracy as users ask for it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal.assess import accuracy, planned, stratified_draw
from opcal.assess.crossfit import cross_fitted
from opcal.errors import InvalidArray, InvalidInput, NotEnoughLabels, UnknownOption

CASE = make_case(n=300, seed=3)
TRUTH = float(np.mean(CASE.pool.predicted == CASE.labels))


def calibrated(n=60, audit=0.5, **options):
    cal = opcal.OperationalCalibrator(audit=audit, **options).begin(CASE.pool, budget=n)
    while len(i := cal.ask(10)):
        cal.tell(i, labels=CASE.labels[i])
    return cal


@pytest.fixture(scope="module")
def cal():
    return calibrated()


def test_all_three_intervals_hold_the_truth_and_the_anytime_one_is_the_widest(cal):
    for interval in ("asymptotic", "exact", "anytime"):
        found = accuracy(cal, interval=interval)
        assert found.lower <= TRUTH <= found.upper
    a = accuracy(cal)
    assert a.anytime[1] - a.anytime[0] > a.upper - a.lower
    assert a.labels == int(cal.audit_.sum()) == 30


def test_an_items_own_label_never_enters_its_prediction():
    """Turning one audit answer round moves its own held-out prediction by nothing at all."""
    positions, labels = np.arange(0, 300, 5), CASE.labels[np.arange(0, 300, 5)].copy()
    audit = np.ones(60, bool)
    predicted = CASE.pool.predicted[positions]
    held = []
    for label in (predicted[7], (predicted[7] + 1) % 4):
        labels[7] = label
        cal = opcal.OperationalCalibrator().fit(CASE.pool, positions, labels, audit=audit)
        held.append(cross_fitted(cal).held_out)
    assert held[0][7] == held[1][7]
    assert not np.array_equal(held[0], held[1])


def test_chosen_items_are_never_averaged():
    """However wrong the chosen items are, the plain part of the estimate rests on the audit alone."""
    rng = np.random.default_rng(0)
    wrong = np.flatnonzero(CASE.pool.predicted != CASE.labels)[:60]
    drawn = rng.permutation(300)[:60]
    both = np.union1d(wrong, drawn)
    cal = opcal.OperationalCalibrator("paper").fit(CASE.pool, both, CASE.labels[both], audit=np.isin(both, drawn))
    found = accuracy(cal)
    assert found.labels == 60
    assert abs(found.estimate - TRUTH) < 0.1
    assert cal.answers_.correct.mean() < TRUTH - 0.1


def test_the_verdict_follows_the_interval(cal):
    a = accuracy(cal)
    assert accuracy(cal, required=a.lower - 0.01).verdict == "go"
    assert accuracy(cal, required=min(1.0, a.upper + 0.01)).verdict == "no-go"
    undecided = accuracy(cal, required=(a.lower + a.upper) / 2)
    assert undecided.verdict == "undecided"
    assert undecided.more > 0
    assert "Undecided" in undecided.sentence
    assert "Go:" in accuracy(cal, required=0.01).sentence


def test_groups_say_not_enough_below_the_minimum(cal):
    groups = accuracy(cal).by("predicted")
    for name, group in groups.items():
        inside = CASE.pool.predicted == int(name)
        assert group.items == inside.sum()
        assert group.enough == (group.labels >= min(10, inside.sum()))
        assert str(group).startswith("not enough") != group.enough
    assert sum(g.labels for g in groups.values()) == 30
    everything = accuracy(cal).by("predicted", minimum=1)
    assert all(g.enough for g in everything.values() if g.labels)


def test_groups_can_be_clusters_columns_or_any_values(cal):
    a = accuracy(cal)
    assert sum(g.items for g in a.by("cluster").values()) == 300
    odd = a.by(np.arange(300) % 2)
    assert [g.items for g in odd.values()] == [150, 150]
    pool = opcal.Pool.from_arrays(CASE.features, CASE.logits, columns={"ward": ["a", "b", "c"] * 100})
    found = accuracy(pool, np.arange(60), labels=CASE.labels[:60])
    assert set(found.by("ward")) == {"a", "b", "c"}
    with pytest.raises(UnknownOption, match="known are predicted, true, cluster, ward"):
        found.by("wards")


def test_recall_by_true_class_counts_the_audit_items_of_the_class(cal):
    found = accuracy(cal).by("true", minimum=1)
    at = cal.answers_.positions[cal.audit_]
    for name, group in found.items():
        true = CASE.labels[at] == int(name)
        assert group.labels == true.sum()
        assert group.estimate == pytest.approx(np.mean(CASE.pool.predicted[at][true] == int(name)))


def test_labels_drawn_with_unequal_chances_need_them_told():
    drawn = stratified_draw(CASE.pool, 80)
    found = accuracy(CASE.pool, drawn.positions, labels=CASE.labels[drawn.positions], inclusion=drawn.inclusion)
    assert found.lower <= TRUTH <= found.upper
    with pytest.raises(UnknownOption, match="uniformly"):
        _ = found.exact
    with pytest.raises(InvalidArray, match=r"inclusion\[0\] is 0"):
        accuracy(CASE.pool, [1, 2], labels=[0, 0], inclusion=[0, 0.5])


def test_without_a_random_label_there_is_no_accuracy():
    cal = calibrated(n=10, audit=0)
    with pytest.raises(NotEnoughLabels, match="no label of an item drawn at random"):
        accuracy(cal)


@pytest.mark.parametrize(
    ("options", "error"),
    [({"interval": "bayes"}, UnknownOption), ({"level": 1.0}, InvalidInput), ({"required": 2}, InvalidInput)],
)
def test_unknown_options_are_refused(cal, options, error):
    with pytest.raises(error):
        accuracy(cal, **options)


def test_every_figure_is_plain_json(cal):
    told = json.loads(json.dumps(accuracy(cal, required=0.5).as_dict()))
    assert told["lower"] <= told["estimate"] <= told["upper"]
    assert told["labels_for_3_points"] > told["labels"]


def test_planning_before_the_first_label_takes_the_worst_case():
    assert planned(CASE.pool, 10) >= planned(CASE.pool, 10, accuracy=0.9)
    assert planned(CASE.pool, 5) > planned(CASE.pool, 10)


def test_a_confidence_sequence_never_takes_back_what_it_said(cal):
    at = accuracy(cal).sequence
    assert len(at.lower) == 31
    assert (np.diff(at.lower) >= 0).all()
    assert (np.diff(at.upper) <= 0).all()


def test_it_works_without_logits_and_with_right_or_wrong_answers_only():
    pool = opcal.Pool.from_arrays(CASE.features, confidence=CASE.pool.confidence, predicted=CASE.pool.predicted)
    cal = opcal.OperationalCalibrator(audit=1.0).begin(pool, budget=40)
    i = cal.ask(40)
    cal.tell(i, correct=CASE.pool.predicted[i] == CASE.labels[i])
    found = accuracy(cal)
    assert found.lower <= TRUTH <= found.upper
