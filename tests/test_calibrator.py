"""The calibrator under use and misuse: what it asks, what it keeps, what it refuses."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import make_case
from scipy import stats
from sklearn.base import clone

import opcal
from opcal import OperationalCalibrator, Pool, errors
from opcal.methods import Correctness, Paper, Residual, Temperature

CASE = make_case(n=120, d=5, classes=3, seed=4)
OTHER = make_case(n=90, d=5, classes=3, seed=5)
DESIGNS = ["paper", "kmeans", "random"]


def begun(budget=None, **settings):
    return OperationalCalibrator(**settings).begin(CASE.pool, budget=budget)


def told(n=30, **settings):
    calibrator = begun(**settings)
    i = calibrator.ask(n)
    return calibrator.tell(i, labels=CASE.labels[i])


def state(calibrator):
    """All that a user can see, the next items to be asked included; the calibrator itself is left alone."""
    twin = copy.deepcopy(calibrator)
    answers = twin.answers_
    seen = [answers.positions, answers.labels, answers.correct, twin.audit_, twin.pending_]
    return [a.tolist() for a in [*seen, twin.confidence(OTHER.pool), twin.ask(7)]]


# What it asks


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("audit", [0, 0.25, 0.3, 1])
def test_no_item_is_asked_twice_and_all_are_asked_in_the_end(design, audit):
    calibrator, rng, asked = begun(design=design, audit=audit, n_clusters=5), np.random.default_rng(0), []
    while len(i := calibrator.ask(int(rng.integers(1, 25)))):
        asked += i.tolist()
        answered = i[rng.random(len(i)) < 0.7]
        calibrator.tell(answered, labels=CASE.labels[answered])
    assert sorted(asked) == list(range(120))
    assert calibrator.ask(5).tolist() == []


@pytest.mark.parametrize("design", DESIGNS)
def test_items_told_without_being_asked_are_never_asked(design):
    calibrator = begun(design=design).tell(np.arange(0, 120, 2), labels=CASE.labels[::2])
    assert sorted(calibrator.ask(1000).tolist()) == list(range(1, 120, 2))


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("calls", [[1] * 60, [7] * 9, [50, 50], [1000], [0, 39, 1, 1]])
def test_the_budget_is_never_exceeded_and_spent_whole_however_calls_are_cut(design, calls):
    calibrator, n = begun(budget=40, design=design), 0
    for k in calls:
        i = calibrator.ask(k)
        assert len(i) == min(k, 40 - n)
        n += len(i)
        calibrator.tell(i, labels=CASE.labels[i])
    assert n == 40
    assert len(calibrator.ask(1)) == 0


def test_a_budget_beyond_the_pool_ends_with_the_pool():
    assert sorted(begun(budget=10_000).ask(10_000).tolist()) == list(range(120))


def test_asking_for_none_gives_none_and_changes_nothing():
    calibrator = told()
    before = state(calibrator)
    assert calibrator.ask(0).tolist() == []
    assert state(calibrator) == before


def test_pending_items_are_those_asked_and_not_told():
    calibrator = begun()
    i = calibrator.ask(10)
    calibrator.tell(i[[3, 0]], labels=CASE.labels[i[[3, 0]]])
    assert calibrator.pending_.tolist() == np.delete(i, [0, 3]).tolist()


# The audit slice


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.29, 1 / 3, 0.7, 1.0])
def test_the_audit_share_of_every_prefix_is_exact(share):
    calibrator = begun(design="random", audit=share)
    i = calibrator.ask(100)
    calibrator.tell(i, labels=CASE.labels[i])
    walk = calibrator._walk
    passed = walk.permutation[: walk.walked]
    assert walk.walked == int(share * 100 + 1e-9)
    assert set(np.flatnonzero(calibrator._book.drawn)) == set(passed)


@pytest.mark.parametrize("cut", [1, 3, 10, 37])
def test_the_audit_items_do_not_depend_on_how_calls_are_cut(cut):
    calibrators = begun(), begun()
    calibrators[0].ask(74)
    for _ in range(74 // cut):
        calibrators[1].ask(cut)
    drawn = [set(np.flatnonzero(c._book.drawn)) for c in calibrators]
    assert len(drawn[0]) == 18
    assert drawn[1] == set(calibrators[0]._walk.permutation[: 74 // cut * cut // 4])


@pytest.mark.parametrize("design", ["random", "kmeans"])
def test_audit_items_are_uniform_over_the_whole_pool(design):
    """Each of 24 items is drawn equally often; drawing from what is left would pass over the medoids."""
    case, counts = make_case(n=24, d=2, classes=3, seed=6, groups=3), np.zeros(24)
    for seed in range(400):
        calibrator = OperationalCalibrator(design=design, audit=0.5, random_state=seed, n_clusters=3).begin(
            case.pool, 12
        )
        for _ in range(3):
            i = calibrator.ask(4)
            calibrator.tell(i, labels=case.labels[i])
        counts[calibrator.answers_.positions[calibrator.audit_]] += 1
    assert counts.sum() == 400 * 6
    # Without replacement within a seed the counts vary less than chi-square says: both tails are looked at.
    spread = ((counts - 100) ** 2).sum() / (100 * (1 - 6 / 24))
    assert stats.chi2(23).ppf(1e-3) < spread * 23 / 24 < stats.chi2(23).ppf(1 - 1e-3)


def test_an_item_labelled_already_is_reused_by_the_audit_without_a_question():
    calibrator = begun(audit=1)
    first = calibrator._walk.permutation[:5]
    calibrator.tell(first, labels=CASE.labels[first])
    assert not calibrator.audit_.any()
    asked = calibrator.ask(3)
    assert asked.tolist() == calibrator._walk.permutation[5:8].tolist()
    assert calibrator.audit_.all()


def test_an_item_that_the_design_asked_before_counts_for_the_audit_when_its_turn_comes():
    calibrator = begun(design="random", audit=0.5)
    i = calibrator.ask(100)
    calibrator.tell(i, labels=CASE.labels[i])
    assert calibrator.audit_.sum() == 50


def test_no_audit_marks_nothing_and_full_audit_marks_all():
    assert not told(audit=0).audit_.any()
    assert told(audit=1).audit_.all()


def test_an_audit_mask_of_the_users_own_is_kept():
    mask = np.arange(20) % 3 == 0
    at = np.random.default_rng(0).permutation(120)[:20]
    fitted = OperationalCalibrator().fit(CASE.pool, at, labels=CASE.labels[at], audit=mask)
    assert fitted.audit_.tolist() == mask.tolist()
    assert begun().tell(at, labels=CASE.labels[at], audit=mask).audit_.tolist() == mask.tolist()


def test_labels_of_ones_own_are_no_audit_unless_said_so():
    assert not OperationalCalibrator().fit(CASE.pool, [3, 4], correct=[True, False]).audit_.any()


# What it refuses

TELLS = {
    "neither": (dict(positions=[0]), errors.InvalidInput),
    "unknown position": (dict(positions=[0, 120], labels=[0, 0]), errors.UnknownItem),
    "unknown label": (dict(positions=[0, 1], labels=[0, 3]), errors.UnknownLabel),
    "lengths": (dict(positions=[0, 1], labels=[0]), errors.LengthMismatch),
    "audit": (dict(positions=[0], labels=[0], audit=[2]), errors.InvalidArray),
}


@pytest.mark.parametrize(("call", "error"), TELLS.values(), ids=TELLS.keys())
def test_a_refused_answer_changes_nothing(call, error):
    calibrator = told()
    calibrator.ask(4)
    before = state(calibrator)
    with pytest.raises(error):
        calibrator.tell(**call)
    assert state(calibrator) == before


@pytest.mark.parametrize(("call", "error"), TELLS.values(), ids=TELLS.keys())
def test_a_refused_fit_leaves_what_was_known_before(call, error):
    calibrator = told()
    before = state(calibrator)
    with pytest.raises(error):
        calibrator.fit(OTHER.pool, **(call | ({"positions": [0, 90]} if 120 in call["positions"] else {})))
    assert state(calibrator) == before


def test_a_refused_first_fit_leaves_the_calibrator_without_a_pool():
    calibrator = OperationalCalibrator()
    with pytest.raises(errors.UnknownLabel):
        calibrator.fit(CASE.pool, [0], labels=[99])
    with pytest.raises(errors.NotBegun):
        calibrator.ask()


def test_a_contradicting_answer_changes_nothing():
    calibrator = told()
    at = calibrator.answers_.positions[-1]
    before = state(calibrator)
    free = calibrator.field_.pool.predicted.size - 1
    with pytest.raises(errors.ConflictingAnswer, match="nothing was changed"):
        calibrator.tell([free, at], labels=[0, opcal.OUTSIDE])
    assert state(calibrator) == before


@pytest.mark.parametrize("k", [-1, 1.0, 2.5, "3", None, np.nan, [3], True])
def test_a_number_to_ask_that_is_none_is_refused(k):
    calibrator = begun()
    with pytest.raises(errors.InvalidInput, match=r"k is .*whole number"):
        calibrator.ask(k)
    assert len(calibrator.pending_) == 0


@pytest.mark.parametrize("budget", [0, -3, 2.5, "10", np.inf, True])
def test_a_budget_that_is_none_is_refused_and_changes_nothing(budget):
    calibrator = told()
    before = state(calibrator)
    with pytest.raises(errors.InvalidInput, match="budget is"):
        calibrator.begin(OTHER.pool, budget=budget)
    assert state(calibrator) == before


SETTINGS = {
    "method": ["nonsense", 3, None],
    "design": ["nonsense", 3, None],
    "threshold": [-0.1, 1.1, np.nan, "high", None],
    "costs": [-1, np.nan, np.inf, "dear", [1, 2]],
    "n_clusters": [0, -1, 2.5, "many", None, True],
    "audit": [-0.1, 1.1, np.nan, "all", None],
    "random_state": [-1, 1.5, "seed", True],
}


@pytest.mark.parametrize(("name", "value"), [(name, v) for name, values in SETTINGS.items() for v in values])
def test_a_setting_that_does_not_exist_is_refused_by_name_and_changes_nothing(name, value):
    calibrator = told()
    before = state(calibrator)
    own = getattr(calibrator, name)
    calibrator.set_params(**{name: value})
    with pytest.raises(errors.InvalidInput, match="u is" if name == "costs" else f"{name} is"):
        calibrator.begin(OTHER.pool)
    assert state(calibrator.set_params(**{name: own})) == before


@pytest.mark.parametrize("pool", [CASE.features, None, "pool/"])
def test_what_is_no_pool_is_refused(pool):
    for call in (OperationalCalibrator().begin, told().confidence, told().posterior):
        with pytest.raises(errors.InvalidInput, match=r"pool is a .*expected an opcal\.Pool"):
            call(pool)


USES = {
    "ask": lambda c: c.ask(),
    "tell": lambda c: c.tell([0], labels=[0]),
    "confidence": lambda c: c.confidence(CASE.pool),
    "posterior": lambda c: c.posterior(CASE.pool),
    "answers_": lambda c: c.answers_,
    "audit_": lambda c: c.audit_,
    "pending_": lambda c: c.pending_,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_before_a_pool_is_seen_every_use_says_to_begin(use):
    with pytest.raises(errors.NotBegun, match=r"call begin\(pool\) or fit"):
        use(OperationalCalibrator())


INCOMPATIBLE = {
    "fewer features": (Pool.from_arrays(CASE.features[:, :4], CASE.logits), "4 features .* fitted on 5 features"),
    "more classes": (
        Pool.from_arrays(CASE.features, np.c_[CASE.logits, CASE.logits]),
        "logits of 6 classes.*of 3 classes",
    ),
    "no logits": (
        Pool.from_arrays(CASE.features, confidence=CASE.pool.confidence, predicted=CASE.pool.predicted),
        "no logits, the calibrator was fitted on 5 features and logits of 3",
    ),
}


@pytest.mark.parametrize(("pool", "message"), INCOMPATIBLE.values(), ids=INCOMPATIBLE.keys())
def test_a_pool_of_another_model_is_refused(pool, message):
    with pytest.raises(errors.IncompatiblePool, match=message):
        told().confidence(pool)


class Failing:
    """A design that breaks, or is interrupted, as it chooses."""

    def begin(self, field, learner):
        return self

    def tell(self, answers):
        pass

    def choose(self, k, pending):
        raise KeyboardInterrupt


def test_an_asking_that_is_interrupted_loses_no_audit_item():
    calibrator = begun(design=Failing(), audit=0.5)
    with pytest.raises(KeyboardInterrupt):
        calibrator.ask(10)
    assert not calibrator._book.drawn.any()
    calibrator._chooser_ = OperationalCalibrator(design="random").begin(CASE.pool)._chooser_
    i = calibrator.ask(10)
    assert calibrator.tell(i, labels=CASE.labels[i]).audit_.sum() == 5


# scikit-learn's conventions


def test_a_clone_has_the_settings_and_nothing_learnt():
    calibrator = told(threshold=0.7, audit=0.5, method=Paper(noise=0.2))
    twin = clone(calibrator)
    assert repr(twin) == repr(calibrator)
    with pytest.raises(errors.NotBegun):
        twin.ask()


def test_settings_are_got_as_they_were_set():
    calibrator = OperationalCalibrator().set_params(threshold=0.7, n_clusters=3)
    assert OperationalCalibrator(**calibrator.get_params()).get_params() == calibrator.get_params()
    assert calibrator.get_params()["threshold"] == 0.7
    assert repr(calibrator) == "OperationalCalibrator(threshold=0.7, n_clusters=3)"


def test_an_unknown_setting_is_refused_and_none_is_set():
    calibrator = OperationalCalibrator()
    with pytest.raises(errors.UnknownOption, match="no setting 'treshold': known are method, design, threshold"):
        calibrator.set_params(audit=1, treshold=0.5)
    assert calibrator.audit == 0.25


def test_fitting_again_forgets_everything():
    at = np.arange(0, 90, 2)
    again = told().fit(OTHER.pool, at, labels=OTHER.labels[at])
    fresh = OperationalCalibrator().fit(OTHER.pool, at, labels=OTHER.labels[at])
    assert state(again) == state(fresh)


def test_beginning_again_asks_what_was_asked_first():
    calibrator = begun()
    first = calibrator.ask(20)
    np.testing.assert_array_equal(calibrator.begin(CASE.pool).ask(20), first)


def test_the_settings_are_untouched_by_use():
    settings = dict(method=Paper(), design="kmeans", costs=4, n_clusters=7, audit=0.5, random_state=3)
    calibrator = told(**settings)
    assert {name: getattr(calibrator, name) for name in settings} == settings


def test_a_pickled_calibrator_goes_on_where_it_was():
    calibrator = told()
    assert state(pickle.loads(pickle.dumps(calibrator))) == state(calibrator)


def test_right_or_wrong_and_classes_teach_the_paper_method_the_same():
    at = np.arange(40)
    right = CASE.pool.predicted[at] == CASE.labels[at]
    by_class = OperationalCalibrator("paper").fit(CASE.pool, at, labels=CASE.labels[at]).confidence(OTHER.pool)
    by_answer = OperationalCalibrator("paper").fit(CASE.pool, at, correct=right).confidence(OTHER.pool)
    np.testing.assert_array_equal(by_class, by_answer)


# What stays the same


def converted(case, dtype):
    return Pool.from_arrays(case.features.astype(dtype), case.logits.astype(dtype))


@pytest.mark.parametrize(("dtype", "n", "tolerance"), [(np.float64, 120, 1e-12), (np.float32, 60_000, 1e-5)])
def test_confidence_of_a_row_does_not_depend_on_the_rows_beside_it(dtype, n, tolerance):
    case = make_case(n=n, d=5, classes=3, seed=4)
    pool = converted(case, dtype)
    at = np.random.default_rng(0).permutation(n)[:60]
    calibrator = OperationalCalibrator(n_clusters=5).fit(pool, at, labels=case.labels[at])
    whole = calibrator.posterior(pool)
    for rows in (np.random.default_rng(1).permutation(n), np.arange(n)[::-7], np.array([n // 2])):
        part = calibrator.posterior(pool.take(rows))
        np.testing.assert_allclose(part.mean, whole.mean[rows], rtol=0, atol=tolerance)
        np.testing.assert_allclose(part.sd, whole.sd[rows], rtol=0, atol=tolerance * 10)


SAME = """
import hashlib, numpy as np, opcal
from conftest import make_case
case, digest = make_case(n=700, d=64, classes=5, seed=1), hashlib.sha256()
for design in ("paper", "kmeans", "random"):
    calibrator = opcal.OperationalCalibrator(design=design).begin(case.pool, budget=90)
    while len(i := calibrator.ask(11)):
        digest.update(i.tobytes())
        calibrator.tell(i, labels=case.labels[i]).confidence(case.pool)
print(digest.hexdigest())
"""


def test_the_same_seed_asks_the_same_bytes_on_any_threads_and_hash_seed():
    found = set()
    for threads, hashes in [("1", "0"), ("4", "random")]:
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, threads) | {"PYTHONHASHSEED": hashes}
        environment["PYTHONPATH"] = str(Path(__file__).parent)
        run = subprocess.run([sys.executable, "-c", SAME], env=environment, capture_output=True, text=True, check=True)
        found.add(run.stdout)
    assert len(found) == 1


def test_another_seed_asks_other_items():
    assert begun(random_state=1).ask(30).tolist() != begun(random_state=2).ask(30).tolist()


def test_a_generator_given_twice_asks_other_items_the_second_time():
    rng = np.random.default_rng(0)
    first, second = begun(random_state=rng, audit=1).ask(30), begun(random_state=rng, audit=1).ask(30)
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("seed", [None, np.random.RandomState(0), np.int64(7), 2**62])
def test_every_kind_of_seed_is_taken(seed):
    assert len(set(begun(random_state=seed).ask(30).tolist())) == 30


def test_predictions_and_the_models_confidence_are_never_changed():
    pool = CASE.pool
    before = [a.tobytes() for a in (pool.predicted, pool.confidence, pool.features, pool.logits)]
    calibrator = OperationalCalibrator().begin(pool)
    i = calibrator.ask(50)
    calibrator.tell(i, labels=CASE.labels[i])
    calibrator.posterior(pool).sample(3, random_state=0)
    assert before == [a.tobytes() for a in (pool.predicted, pool.confidence, pool.features, pool.logits)]


def test_without_answers_confidence_is_the_models_own():
    np.testing.assert_array_equal(begun(method="paper").confidence(OTHER.pool), OTHER.pool.confidence)


def test_asking_does_not_change_the_confidence():
    calibrator = told()
    before = calibrator.confidence(OTHER.pool)
    calibrator.ask(20)
    np.testing.assert_array_equal(calibrator.confidence(OTHER.pool), before)


def test_costs_set_the_threshold():
    assert OperationalCalibrator(costs=4).threshold_ == 0.8
    assert OperationalCalibrator(costs=opcal.Costs(9), threshold=0.3).threshold_ == 0.9
    assert OperationalCalibrator(threshold=0.3).threshold_ == 0.3


# Odd pools


def odd(z, h=None, labels=None):
    n = len(z)
    h = np.c_[np.zeros(n), np.linspace(-3, 3, n)] if h is None else h
    return Pool.from_arrays(z, h), np.arange(n) % 2 if labels is None else labels


RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=(30, 3))
ODD = {
    "one item": odd(NOISE[:1]),
    "two items": odd(NOISE[:2]),
    "all duplicates": odd(np.tile(NOISE[:1], (30, 1))),
    "duplicates at zero": odd(np.zeros((30, 3))),
    "duplicates far out": odd(np.full((30, 3), 1e6)),
    "duplicates of two": odd(np.repeat(NOISE[:2], 15, axis=0)),
    "constant feature": odd(np.c_[NOISE, np.ones(30)]),
    "one dimension": odd(NOISE[:, :1]),
    "constant confidence": odd(NOISE, np.tile([0.0, 2.0], (30, 1))),
    "confidence of one": odd(NOISE, np.tile([0.0, 1e6], (30, 1))),
    "confidence of a half": odd(NOISE, np.zeros((30, 2)) + NOISE[:, :1]),
    "all right": odd(NOISE, np.tile([0.0, 2.0], (30, 1)), np.ones(30, int)),
    "all wrong": odd(NOISE, np.tile([0.0, 2.0], (30, 1)), np.zeros(30, int)),
    "all outside": odd(NOISE, None, np.full(30, opcal.OUTSIDE)),
    "tiny": odd(NOISE * 1e-12),
    "huge": odd(NOISE * 1e10),
    "offset": odd((NOISE * 1e-3 + 1e3).astype(np.float32)),
    "outlier": odd(np.r_[NOISE[:29], [[1e8, 0, 0]]]),
}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("name", ODD)
def test_odd_pools_are_labelled_to_the_end_with_confidence_in_zero_to_one(name, design):
    pool, labels = ODD[name]
    calibrator = OperationalCalibrator(design=design).begin(pool, budget=1000)
    asked = []
    while len(i := calibrator.ask(4)):
        calibrator.tell(i, labels=labels[i])
        asked += i.tolist()
        post = calibrator.posterior(pool)
        assert ((post.mean >= 0) & (post.mean <= 1)).all()
        assert ((post.sd >= 0) & (post.sd <= 0.51)).all()
    assert sorted(asked) == list(range(len(pool)))


@pytest.mark.parametrize("settings", [dict(n_clusters=1), dict(n_clusters=30), dict(n_clusters=10**6), dict(audit=1)])
def test_odd_settings_keep_confidence_in_zero_to_one(settings):
    calibrator = told(**settings)
    assert ((calibrator.confidence(OTHER.pool) >= 0) & (calibrator.confidence(OTHER.pool) <= 1)).all()


@pytest.mark.parametrize("threshold", [0, 1])
def test_thresholds_at_the_ends_ask_every_item_once(threshold):
    calibrator = begun(threshold=threshold)
    asked = [calibrator.ask(13) for _ in range(10)]
    assert sorted(np.concatenate(asked).tolist()) == list(range(120))


def test_labels_pull_confidence_towards_what_they_say():
    pool, at = ODD["constant confidence"][0], np.arange(20)
    means = [
        OperationalCalibrator().fit(pool, at, correct=np.arange(20) < n).confidence(pool).mean() for n in (0, 10, 20)
    ]
    assert all(low < high for low, high in pairwise(means))


# Answers that are worth less


@pytest.mark.parametrize("method", ["paper", "auto", Correctness(), Temperature(), Residual()])
def test_an_answer_of_less_weight_moves_the_confidence_less(method):
    i = np.flatnonzero(CASE.pool.predicted != CASE.labels)[:12]

    def moved(weight):
        calibrator = OperationalCalibrator(method).fit(CASE.pool, i, labels=CASE.labels[i], weight=weight)
        return np.abs(calibrator.confidence(OTHER.pool) - before).mean()

    before = OperationalCalibrator(method).begin(CASE.pool).confidence(OTHER.pool)
    assert 0 < moved(0.05) < 0.75 * moved(1.0)


@pytest.mark.parametrize("method", ["paper", "auto"])
def test_answers_of_full_weight_are_as_those_of_none_given(method):
    i = np.arange(0, 120, 4)
    plain, weighed = (
        OperationalCalibrator(method).fit(CASE.pool, i, labels=CASE.labels[i], weight=w) for w in (None, np.ones(30))
    )
    np.testing.assert_array_equal(plain.confidence(OTHER.pool), weighed.confidence(OTHER.pool))
    np.testing.assert_array_equal(plain.ask(8), weighed.ask(8))
