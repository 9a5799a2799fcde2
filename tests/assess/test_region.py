"""Regions and certificates as users meet them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import Case, make_case

import opcal
from opcal.assess import certify, keeping, region
from opcal.errors import ArtifactError, IncompatiblePool, InvalidInput, NotBegun, UnknownItem, UnknownOption


def sure_case() -> Case:
    """Three of five groups are nearly always right, and the features tell which."""
    made = make_case(n=800, d=6, seed=5, groups=5)
    rng = np.random.default_rng(5)
    group = rng.integers(0, 5, 800)
    z = 4 * np.eye(6)[group] + 0.4 * rng.standard_normal((800, 6))
    right = rng.random(800) < np.array([0.1, 0.3, 0.99, 1.0, 1.0])[group]
    predicted = made.logits.argmax(1)
    return Case(z, made.logits, np.where(right, predicted, (predicted + 1) % 4))


CASE = sure_case()
WRONG = CASE.pool.predicted != CASE.labels


def calibrated(pool=CASE.pool, n=160):
    cal = opcal.OperationalCalibrator().begin(pool, budget=n)
    while len(i := cal.ask(20)):
        cal.tell(i, labels=CASE.labels[i])
    return cal


@pytest.fixture(scope="module")
def cal():
    return calibrated()


def run_test(cal, n=60, **options):
    made = region(cal, **options)
    i = made.ask(n)
    return made, certify(made, i, labels=CASE.labels[i], delta=0.1)


def test_a_good_region_is_certified_and_keeps_its_promise(cal):
    made, found = run_test(cal, error=0.1)
    assert found
    assert found.certified
    assert found.more == 0
    assert WRONG[found.mask].mean() <= found.bound <= 0.1
    assert found.accepted == found.mask.sum() == made.mask.sum()
    assert (made.confidence[found.mask] >= found.threshold).all()
    assert "Certified, with probability 90% or more" in found.sentence


def test_a_region_is_planned_by_what_is_likely_and_cut_by_the_confidence(cal):
    made = region(cal, error=0.1, labels=60)
    likely = opcal.OperationalCalibrator(opcal.methods.Auto(with_doubt=False)).fit(
        cal.pool_, cal.answers_.positions, labels=cal.answers_.labels
    )
    np.testing.assert_allclose(made.likely, likely.confidence(cal.pool_), atol=1e-9)
    assert made.cuts == made.promise.cuts(made.confidence, made.likely, made.known, 60)
    humbler = made.promise.cuts(made.confidence, np.minimum(made.likely, 0.9), made.known, 60)
    assert humbler != made.cuts
    assert np.isin(made.cuts, made.confidence).all()


def test_what_cannot_be_promised_is_an_ordinary_answer(cal):
    made = region(cal, error=0.1)
    i = made.ask(40)
    found = certify(made, i, correct=np.arange(40) % 3 > 0, delta=0.1)
    assert not found
    assert "Cannot certify with these labels" in found.sentence
    assert found.more is None or found.more > 0


def test_fresh_items_are_inside_unlabelled_and_never_asked_twice(cal):
    made = region(cal, error=0.1)
    first, second = made.ask(30), made.ask(30)
    asked = np.concatenate([first, second])
    assert len(np.unique(asked)) == 60
    assert made.mask[asked].all()
    assert not np.isin(asked, cal.answers_.positions).any()


def test_a_region_stays_as_it_was_when_the_calibrator_learns_more():
    cal = calibrated(n=100)
    made = region(cal, error=0.1)
    i = made.ask(40)
    before = made.mask.copy()
    cal.tell(i, labels=CASE.labels[i])
    cal.confidence(CASE.pool)
    np.testing.assert_array_equal(made.accepts(CASE.pool), before)


def test_items_of_another_draw_are_refused_and_nothing_is_kept(cal):
    made = region(cal, error=0.1)
    i = made.ask(20)
    stranger = int(np.flatnonzero(made.mask & ~np.isin(np.arange(800), i))[0])
    with pytest.raises(UnknownItem, match="was not asked by this region"):
        certify(made, [i[0], stranger], labels=CASE.labels[[i[0], stranger]])
    assert made.answers == {}


def test_skipped_items_count_as_wrong_and_those_not_reached_do_not_count(cal):
    made = region(cal, error=0.1)
    i = made.ask(40)
    kept = np.delete(i[:30], [3, 4])
    found = certify(made, kept, labels=CASE.labels[kept])
    assert (found.labels, found.skipped) == (30, 2)
    assert found.wrong >= 2 or found.counted < 30


def test_more_labels_can_be_added_and_delta_cannot_be_changed(cal):
    made = region(cal, error=0.1)
    i = made.ask(20)
    certify(made, i, correct=np.arange(20) % 5 != 0, delta=0.1)
    more = made.ask(60)
    found = certify(made, more, correct=np.ones(len(more), bool), delta=0.1)
    assert found.labels == 20 + len(more) > 20
    with pytest.raises(UnknownOption, match="make a new region"):
        certify(made, more, correct=np.ones(len(more), bool), delta=0.2)


def test_about_the_field_needs_more_than_about_the_pool(cal):
    pool, field = (run_test(cal, error=0.1, about=about)[1] for about in ("pool", "field"))
    assert "of this pool" in pool.promise
    assert "like those" in field.promise
    assert pool.certified
    assert field.certified


def test_recall_of_a_class_counts_what_is_lost(cal):
    made, found = run_test(cal, n=200, recall=0.6, of=1)
    at = np.array(made.asked)
    of_class = CASE.labels[at] == 1
    lost = of_class & made.mask[at] & (CASE.pool.predicted[at] != 1)
    assert (found.counted, found.wrong) == (of_class.sum(), lost.sum())
    assert found.bound <= 1 - lost.sum() / max(of_class.sum(), 1)


def test_a_mean_gain_is_promised_by_bets():
    made, found = run_test(calibrated(), n=150, gain=0.0, costs=1.0)
    gains = np.where(WRONG[made.mask], -1.0, 1.0)
    assert found.bound <= gains.mean()
    assert "brings at least 0 an item" in found.promise


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "pass one of"),
        ({"error": 0.1, "gain": 1}, "pass one of"),
        ({"error": 0}, "strictly between"),
        ({"recall": 0.9}, "go together"),
        ({"gain": 1}, "needs costs"),
        ({"error": 0.1, "about": "all"}, "about is 'all'"),
    ],
)
def test_what_is_no_promise_is_refused(cal, options, says):
    with pytest.raises((UnknownOption, InvalidInput), match=says):
        region(cal, **options)


def test_a_class_that_is_not_there_is_refused(cal):
    with pytest.raises(UnknownItem, match="of is 9"):
        region(cal, recall=0.9, of=9)


def test_a_region_read_from_its_file_goes_on_where_it_was(cal, tmp_path):
    made = region(cal, error=0.1)
    i = made.ask(30)
    first = certify(made, i, labels=CASE.labels[i], delta=0.1)
    keeping.save(made, {"error": 0.1, "about": "pool", "delta": 0.1}, tmp_path / "region.npz")
    again, options = keeping.load(cal, tmp_path / "region.npz")
    assert options["error"] == 0.1
    np.testing.assert_array_equal(again.mask, made.mask)
    np.testing.assert_array_equal(again.ask(10), made.ask(10))
    both = [certify(r, [], labels=[], delta=0.1).as_dict() for r in (made, again)]
    assert both[0] == both[1]
    assert both[0]["wrong"] == first.wrong
    with pytest.raises(NotBegun):
        again.accepts(CASE.pool)


def test_a_file_of_another_pool_or_of_garbage_is_refused(cal, tmp_path):
    keeping.save(region(cal, error=0.1), {"error": 0.1}, tmp_path / "region.npz")
    other = opcal.OperationalCalibrator().begin(make_case(n=50).pool)
    with pytest.raises(IncompatiblePool):
        keeping.load(other, tmp_path / "region.npz")
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    with pytest.raises(ArtifactError):
        keeping.load(cal, tmp_path / "bad.npz")


def test_a_certificate_is_plain_json(cal):
    told = json.loads(json.dumps(run_test(cal, error=0.1)[1].as_dict()))
    assert told["certified"]
    assert len(told["assumptions"]) >= 3


def test_nothing_sure_makes_an_empty_region_that_says_so():
    case = make_case(n=100, groups=1)
    cal = opcal.OperationalCalibrator().begin(case.pool)
    i = cal.ask(20)
    cal.tell(i, correct=np.zeros(20, bool))
    made = region(cal, error=0.05)
    assert len(made.ask(30)) == 0
    assert "no item is sure enough" in certify(made, [], labels=[]).sentence
