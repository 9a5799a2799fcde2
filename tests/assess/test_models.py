"""Several models on the same items share the same labels."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal.assess import compare, disagreements
from opcal.core.compare import exact_p
from opcal.errors import IncompatiblePool, InvalidInput

CASE = make_case(n=400, seed=7)
IDS = [f"scan{i}" for i in range(400)]
POOL = opcal.Pool.from_arrays(CASE.features, CASE.logits, ids=IDS)
TRUTH = CASE.labels


def better_pool():
    """Right where the first is wrong, on half of those items."""
    h = CASE.logits.copy()
    mend = np.flatnonzero(POOL.predicted != TRUTH)[::2]
    h[mend, TRUTH[mend]] += 20
    return opcal.Pool.from_arrays(CASE.features, h, ids=IDS)


def calibrated(n=80, audit=1.0):
    cal = opcal.OperationalCalibrator(audit=audit).begin(POOL, budget=n)
    while len(i := cal.ask(20)):
        cal.tell(i, labels=TRUTH[i])
    return cal


def accuracy_of(pool):
    return np.mean(pool.predicted == TRUTH)


def test_the_better_model_wins_and_the_interval_holds_the_difference():
    other = better_pool()
    found = compare(calibrated(), {"new": other})
    d = found.difference["new"]
    assert d.lower <= accuracy_of(other) - accuracy_of(POOL) <= d.upper
    assert found.winner == "new"
    assert d.a_only == 0
    assert d.p_value < 0.05
    assert "The better one is new" in found.sentence


def test_only_items_on_which_they_differ_count():
    other = better_pool()
    d = compare(calibrated(), other).difference["the other"]
    at = calibrated().answers_.positions
    assert d.differ == (other.predicted != POOL.predicted).sum()
    assert d.labels == (other.predicted != POOL.predicted)[at].sum()


def test_a_model_is_no_better_than_itself_and_no_label_is_needed_to_know():
    found = compare(calibrated(20), {"same": POOL})
    d = found.difference["same"]
    assert (d.value, d.lower, d.upper, d.labels) == (0, 0, 0, 0)
    assert found.winner is None


def test_pools_are_matched_by_their_ids():
    order = np.random.default_rng(0).permutation(400)
    shuffled = better_pool().take(order)
    cal = calibrated()
    one, two = (compare(cal, {"new": p}).difference["new"] for p in (better_pool(), shuffled))
    assert one == two
    with pytest.raises(IncompatiblePool, match="lacks 1 of 400"):
        compare(cal, shuffled.take(np.arange(399)))


def test_labels_chosen_where_they_differ_narrow_the_difference():
    cal, other = calibrated(40), better_pool()
    i = disagreements(cal, other, 15)
    assert (other.predicted[i] != POOL.predicted[i]).all()
    assert not np.isin(i, cal.answers_.positions).any()
    before = compare(cal, other).difference["the other"]
    after = compare(cal, other, positions=i, labels=TRUTH[i]).difference["the other"]
    assert after.upper - after.lower < before.upper - before.lower
    assert after.lower <= accuracy_of(other) - accuracy_of(POOL) <= after.upper


def test_differences_by_group_add_up_to_the_pool():
    other = better_pool()
    by = compare(calibrated(), {"new": other}).by("predicted")["new"]
    assert sum(d.differ for d in by.values()) == (other.predicted != POOL.predicted).sum()


def test_the_winner_of_a_group_is_the_model_that_is_better_there_and_is_named_from_ten_labels_on():
    """One model mends what the first has wrong in class 0 and spoils what it has right in class 1."""
    h = CASE.logits.copy()
    mend = np.flatnonzero((POOL.predicted == 0) & (POOL.predicted != TRUTH))
    spoil = np.flatnonzero((POOL.predicted == 1) & (POOL.predicted == TRUTH))
    h[mend, TRUTH[mend]] += 40
    h[spoil, 2] += 40
    other = {"new": opcal.Pool.from_arrays(CASE.features, h, ids=IDS), "same": POOL}
    found = compare(calibrated(300), other)
    duels = found.winners("predicted")
    assert {name: duel.winner for name, duel in duels.items()} == {"0": "new", "1": "this model", "2": None, "3": None}
    assert "new is better" in str(duels["0"])
    assert str(duels["2"]) == "they predict the same"
    assert duels["0"].as_dict()["difference"]["new"]["differ"] == len(mend)
    few = compare(calibrated(20), other).winners("predicted")
    assert not few["0"].enough
    assert few["0"].winner is None
    assert str(few["0"]).startswith("not enough: ")
    clusters = found.winners("cluster")
    assert sum(d.difference["new"].differ for d in clusters.values()) == len(mend) + len(spoil)


def test_answers_without_their_class_are_refused_where_they_matter():
    cal = opcal.OperationalCalibrator(audit=1.0).begin(POOL)
    i = cal.ask(60)
    cal.tell(i, correct=POOL.predicted[i] == TRUTH[i])
    with pytest.raises(InvalidInput, match="their classes are needed"):
        compare(cal, better_pool())


def test_items_on_which_all_agree_are_no_labels_of_a_comparison():
    agree = int(np.flatnonzero(better_pool().predicted == POOL.predicted)[0])
    with pytest.raises(InvalidInput, match="all candidates agree"):
        compare(calibrated(40), better_pool(), positions=[agree], labels=[0])


def test_the_exact_test_is_scipys():
    from scipy.stats import binomtest

    for b, a in ((0, 0), (1, 5), (7, 7), (20, 3)):
        theirs = binomtest(min(b, a), b + a, 0.5).pvalue if a + b else 1.0
        assert exact_p(b, a) == pytest.approx(min(1.0, theirs))
