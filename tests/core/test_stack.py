"""The default method and its design, on small made cases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from opcal.core.correctness import Correctness
from opcal.core.embedding import prepared
from opcal.core.method import OUTSIDE, WRONG, Answers, Field, Head, Outputs
from opcal.core.stack import Auto, canonical
from opcal.core.temperature import Temperature
from opcal.core.variance import Variance

METHODS = [Auto(), Correctness(), Temperature()]
NONE = np.empty(0, np.intp)


def made(n=160, d=5, classes=3, seed=0):
    """A model that errs in one half of the space."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.standard_normal((classes, d))
    y = rng.integers(0, classes, n)
    z = centres[y] + rng.standard_normal((n, d))
    weight = centres / 2
    h = z @ weight.T + 3 * rng.standard_normal((n, classes)) * (z[:, :1] > 0)
    return outputs(z, h, Head(weight, np.zeros(classes))), y


def outputs(z, h, head=None):
    p = softmax(h.astype(float), axis=1)
    predicted = h.argmax(1)
    return Outputs(z, p[np.arange(len(p)), predicted], predicted, h, head)


def answers(pool, y, i):
    i = np.asarray(i, dtype=np.intp)
    return Answers(i, y[i], y[i] == pool.predicted[i], np.ones(len(i)))


def fitted(method, pool, told, seed=0):
    learner = method.begin(Field(pool, 10, seed=seed))
    learner.tell(told)
    return learner


def brier(posterior, pool, y):
    return ((posterior.mean - (pool.predicted == y)) ** 2).mean()


@pytest.mark.parametrize("method", METHODS)
def test_labels_improve_the_brier_score(method):
    pool, y = made(400)
    seen, new = np.arange(200), np.arange(200, 400)
    told = answers(pool.take(seen), y[seen], np.arange(0, 200, 3))
    learner = fitted(method, pool.take(seen), told)
    rows = pool.take(new)
    untouched = ((rows.confidence - (rows.predicted == y[new])) ** 2).mean()
    assert brier(learner.predict(rows), rows, y[new]) < untouched


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_labels", [0, 1, 2, 9])
def test_confidences_are_finite_probabilities_at_any_number_of_labels(method, n_labels):
    pool, y = made(40)
    assert_sane(fitted(method, pool, answers(pool, y, np.arange(n_labels))).predict(pool))


def assert_sane(posterior):
    low, high = posterior.interval(0.9)
    draws = posterior.sample(7)
    for values in (posterior.mean, low, high, draws, posterior.above(0.8)):
        assert np.isfinite(values).all()
        assert values.min() >= 0
        assert values.max() <= 1
    assert (low <= high).all()
    assert np.isfinite(posterior.sd).all()


def degenerate():
    rng = np.random.default_rng(0)
    h = rng.standard_normal((12, 3))
    z = rng.standard_normal((12, 2))
    return {
        "all duplicates": outputs(np.ones((12, 2)), np.tile([1.0, 0.0, 0.0], (12, 1))),
        "zero rows": outputs(np.zeros((12, 2)), h),
        "one zero row": outputs(np.where(np.arange(12)[:, None] == 3, 0, z), h),
        "one item": outputs(z[:1], h[:1]),
        "huge logits": outputs(z, 1e4 * h),
        "tiny features": outputs(1e-30 * z, h),
        "rank one": outputs(np.outer(z[:, 0], np.ones(6)), h),
        "two classes": outputs(z, h[:, :2]),
        "far from zero": outputs(z * 0.1 + 1000, h),
        "certain": Outputs(z, np.ones(12), h.argmax(1)),
        "never confident": Outputs(z, np.zeros(12), h.argmax(1)),
        "constant confidence": Outputs(z, np.full(12, 0.7), np.zeros(12, np.intp)),
        "float32": outputs(z.astype(np.float32), h.astype(np.float32)),
    }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("truth", ["right", "wrong", "outside"])
def test_degenerate_pools_give_finite_confidences(method, name, truth):
    pool = degenerate()[name]
    i = np.arange(min(6, len(pool)))
    labels = {"right": pool.predicted[i], "wrong": np.full(len(i), WRONG), "outside": np.full(len(i), OUTSIDE)}[truth]
    told = Answers(i, labels, np.full(len(i), truth == "right"), np.ones(len(i)))
    assert_sane(fitted(method, pool, told).predict(pool))
    chosen = Variance().begin(Field(pool, 10), None).choose(3, NONE)
    assert len(np.unique(chosen)) == min(3, len(pool))


def test_one_by_one_equals_all_at_once():
    pool, y = made()
    order = np.random.default_rng(1).permutation(len(pool))[:20]
    bit_by_bit = Auto().begin(Field(pool, 10))
    for n in range(1, 21):
        bit_by_bit.tell(answers(pool, y, order[:n]))
        bit_by_bit.predict(pool.take(slice(0, 3)))
    at_once = fitted(Auto(), pool, answers(pool, y, order))
    np.testing.assert_array_equal(bit_by_bit.predict(pool).mean, at_once.predict(pool).mean)


def test_the_design_chooses_the_same_however_the_calls_are_cut():
    pool, y = made()
    field = Field(pool, 10)
    told = answers(pool, y, np.arange(0, 60, 3))
    chooser, other = Variance().begin(field, None), Variance().begin(field, None)
    chooser.tell(told.first(17))
    chooser.choose(2, NONE)
    chooser.tell(told)
    other.tell(told)
    batch = other.choose(5, NONE)
    singly = NONE
    for _ in range(5):
        singly = np.append(singly, chooser.choose(1, singly))
    np.testing.assert_array_equal(batch, singly)


def test_the_design_never_returns_what_is_answered_or_pending_and_ends_with_the_pool():
    pool, y = made(30)
    chooser = Variance(candidates=10).begin(Field(pool, 10), None)
    chooser.tell(answers(pool, y, [0, 5, 7]))
    got = chooser.choose(100, np.array([1, 2], dtype=np.intp))
    np.testing.assert_array_equal(np.sort(got), np.setdiff1d(np.arange(30), [0, 1, 2, 5, 7]))


def test_a_pool_row_and_the_same_row_elsewhere_get_the_same_answer():
    pool, y = made()
    learner = fitted(Auto(), pool, answers(pool, y, np.arange(15)))
    whole = learner.predict(pool)
    shuffled = np.random.default_rng(0).permutation(len(pool))
    np.testing.assert_allclose(learner.predict(pool.take(shuffled)).mean, whole.mean[shuffled], atol=1e-12)
    np.testing.assert_allclose(learner.predict(pool.take(slice(7, 9))).sd, whole.sd[7:9], atol=1e-10)


def test_wrong_without_class_lowers_the_predicted_class_as_much_as_it_should():
    pool, y = made()
    near = np.array([4])
    before = fitted(Auto(), pool, answers(pool, y, NONE)).predict(pool.take(near)).mean
    told = Answers(near, np.array([WRONG]), np.array([False]), np.ones(1))
    after = fitted(Auto(), pool, told).predict(pool.take(near)).mean
    assert after < before


def test_right_and_wrong_of_two_classes_say_as_much_as_labels():
    pool, y = made(classes=2)
    i = np.arange(40)
    by_class = answers(pool, y, i)
    by_right = Answers(i, np.where(by_class.correct, by_class.labels, WRONG), by_class.correct, by_class.weight)
    both = [fitted(Auto(), pool, told).predict(pool).mean for told in (by_class, by_right)]
    np.testing.assert_allclose(*both, atol=1e-4)


def test_without_logits_and_labels_only_the_confidence_speaks():
    full, y = made()
    pool = Outputs(full.features, full.confidence, full.predicted)
    learner = fitted(Auto(), pool, answers(pool, y, np.arange(40)))
    strange = Outputs(pool.features[:3], pool.confidence[:3], pool.predicted[:3] + 50)
    assert_sane(learner.predict(strange))
    right = pool.predicted == y
    assert ((learner.predict(pool).mean - right) ** 2).mean() < ((pool.confidence - right) ** 2).mean()


def test_a_constant_added_to_all_logits_changes_nothing():
    pool, y = made()
    told = answers(pool, y, np.arange(20))
    moved = Outputs(pool.features, pool.confidence, pool.predicted, pool.logits + 7.0, pool.head)
    a, b = (fitted(Auto(), p, told).predict(p).mean for p in (pool, moved))
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_draws_have_the_posteriors_moments_and_move_together():
    pool, y = made()
    posterior = fitted(Auto(), pool, answers(pool, y, np.arange(10))).predict(pool)
    draws = posterior.sample(4000)
    np.testing.assert_allclose(draws.mean(0), posterior.mean, atol=0.03)
    np.testing.assert_allclose(draws.std(0), posterior.sd, atol=0.03)
    assert draws.mean(1).var() > 2 * (posterior.sd**2).sum() / len(pool) ** 2


def test_answers_lower_the_uncertainty():
    pool, y = made()
    before, after = (fitted(Auto(), pool, answers(pool, y, np.arange(n))).predict(pool).sd.mean() for n in (4, 120))
    assert after < 0.7 * before


def test_the_preparation_is_made_once_for_method_and_design():
    pool, _ = made()
    field = Field(pool, 10)
    learner = Auto().begin(field)
    assert Variance().begin(field, learner).preparation is learner.preparation is prepared(field)


def test_canonical_counts_grow_by_the_root_of_two():
    assert [canonical(n) for n in (0, 1, 2, 3, 5, 9, 18, 250, 260, 272)] == [0, 1, 2, 3, 4, 8, 17, 192, 192, 272]


def test_no_answers_leave_the_model_between_its_own_confidence_and_the_prior():
    pool, _ = made()
    learner = fitted(Auto(), pool, Answers.none())
    assert learner.scorer.weights[-1] == pytest.approx(learner.preparation.home)


def test_the_doubt_humbles_every_confidence_keeps_the_order_and_is_left_out_of_likely():
    pool, y = made()
    told = answers(pool, y, np.arange(20))
    found = fitted(Auto(), pool, told).predict(pool)
    without = fitted(Auto(with_doubt=False), pool, told).predict(pool).mean
    np.testing.assert_array_equal(found.likely, without)
    order = np.argsort(without, kind="stable")
    assert (np.diff(found.mean[order]) >= 0).all()
    assert (np.abs(found.mean - 0.5) < np.abs(without - 0.5)).mean() > 0.95
