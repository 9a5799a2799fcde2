"""The paper's method: what it must give, however it is fed, and on hard pools."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_case
from oracle.paper_reference import cluster_moments, truncated

import opcal
from opcal.core.method import Answers, Field
from opcal.methods import Paper


def fitted(case, n, *, calls=None, seed=0, **options):
    calibrator = opcal.OperationalCalibrator(Paper(**options), "random", random_state=seed).begin(case.pool)
    at = np.random.default_rng(seed).permutation(len(case.labels))[:n]
    for part in np.split(at, calls or []):
        calibrator.tell(part, labels=case.labels[part])
    return calibrator


@pytest.mark.parametrize("hyperparameters", ["fixed", "likelihood"])
def test_confidence_is_the_truncated_mean_of_each_clusters_process(hyperparameters):
    case, new = make_case(seed=1), make_case(seed=2)
    calibrator = fitted(case, 60, hyperparameters=hyperparameters)
    learner, pool = calibrator.learner_, case.pool
    at, answers = learner.clustering.assign(new.features), calibrator.answers_
    home = learner.clustering.assignment[answers.positions]
    residual = answers.correct - pool.confidence[answers.positions]
    expected, sd = np.empty(len(at)), np.empty(len(at))
    for c, kernel in enumerate(learner.kernels(60)):
        rows, told = np.flatnonzero(at == c), np.flatnonzero(home == c)
        stacked = np.vstack([case.features[answers.positions[told]], new.features[rows]])
        mean, variance = cluster_moments(
            stacked, list(range(len(told))), residual[told], kernel.amplitude, kernel.length, kernel.noise
        )
        c_new = new.pool.confidence[rows]
        expected[rows], sd[rows] = truncated(c_new + mean[len(told) :], np.sqrt(variance[len(told) :]))
        assert len(told) > 0
    posterior = calibrator.posterior(new.pool)
    np.testing.assert_allclose(posterior.mean, expected, atol=1e-9)
    np.testing.assert_allclose(posterior.sd, sd, atol=1e-7)


@pytest.mark.parametrize("calls", [[1], list(range(1, 90)), [10, 11, 50], [89]])
def test_answers_one_by_one_or_in_calls_cut_anywhere_equal_answers_at_once(calls):
    case, new = make_case(seed=3), make_case(seed=4)
    cut, whole = fitted(case, 90, calls=calls), fitted(case, 90)
    np.testing.assert_allclose(cut.confidence(new.pool), whole.confidence(new.pool), rtol=0, atol=1e-8)


def test_asking_in_between_changes_nothing_of_the_confidence():
    case, new = make_case(seed=3), make_case(seed=4)
    calibrator = opcal.OperationalCalibrator("paper", audit=0).begin(case.pool)
    for _ in range(40):
        i = calibrator.ask(1)
        calibrator.tell(i, labels=case.labels[i])
        calibrator.confidence(new.pool)
    answers = calibrator.answers_
    again = opcal.OperationalCalibrator("paper").fit(case.pool, answers.positions, labels=answers.labels)
    np.testing.assert_allclose(calibrator.confidence(new.pool), again.confidence(new.pool), rtol=0, atol=1e-8)


def test_hyperparameters_rest_on_the_first_l_2l_4l_labels_only():
    learner = fitted(make_case(), 10).learner_
    clusters = learner.n_clusters
    assert [learner.checkpoint(n) for n in (0, clusters - 1)] == [0, 0]
    assert [learner.checkpoint(n * clusters) for n in (1, 2, 3, 4, 7, 8)] == [m * clusters for m in (1, 2, 2, 4, 4, 8)]
    assert learner.checkpoint(2 * clusters - 1) == clusters


def test_fixed_hyperparameters_stay_at_amplitude_one_and_the_median_distance():
    learner = fitted(make_case(), 80, hyperparameters="fixed").learner_
    kernels = learner.kernels(80)
    assert {k.amplitude for k in kernels} == {1.0}
    features, at = make_case().features, learner.clustering.assignment
    for c, kernel in enumerate(kernels):
        z = features[at == c]
        pairs = np.linalg.norm(z[:, None] - z[None], axis=2)[np.triu_indices(len(z), 1)]
        assert kernel.length == pytest.approx(np.median(pairs))


def test_a_cluster_without_labels_leaves_the_models_confidence():
    case = make_case()
    calibrator = opcal.OperationalCalibrator("paper").begin(case.pool)
    clustering = calibrator.learner_.clustering
    one = np.flatnonzero(clustering.assignment == 0)[:3]
    calibrator.tell(one, labels=case.labels[one])
    elsewhere = clustering.assignment != 0
    posterior = calibrator.posterior(case.pool)
    np.testing.assert_array_equal(posterior.mean[elsewhere], case.pool.confidence[elsewhere])
    draws = posterior.sample(2000)[:, elsewhere]
    np.testing.assert_allclose(draws.mean(0), posterior.mean[elsewhere], atol=0.03)


def test_before_any_answer_the_confidence_is_the_models():
    case = make_case()
    calibrator = opcal.OperationalCalibrator("paper").begin(case.pool)
    np.testing.assert_array_equal(calibrator.confidence(case.pool), case.pool.confidence)


def test_wrong_answers_nearby_lead_to_less_confidence_than_right_ones():
    case = make_case()
    pool = case.pool
    at = np.arange(40)
    wrong = opcal.OperationalCalibrator("paper").fit(pool, at, correct=np.zeros(40, bool))
    right = opcal.OperationalCalibrator("paper").fit(pool, at, correct=np.ones(40, bool))
    assert (wrong.confidence(pool) < right.confidence(pool)).all()
    assert wrong.confidence(pool).mean() < pool.confidence.mean() - 0.3


def test_joint_draws_have_the_posteriors_marginals_and_neighbours_move_together():
    case = make_case(n=300)
    calibrator = fitted(case, 60)
    near = case.features[:1] + np.array([[0.0], [0.01]]) * np.ones((1, 6))
    pool = opcal.Pool.from_arrays(
        np.vstack([near, case.features[1:40]]), np.vstack([case.logits[:1]] * 2 + [case.logits[1:40]])
    )
    posterior = calibrator.posterior(pool)
    draws = posterior.sample(4000, random_state=1)
    np.testing.assert_allclose(draws.mean(0), posterior.mean, atol=0.03)
    np.testing.assert_allclose(draws.std(0), posterior.sd, atol=0.03)
    assert np.corrcoef(draws[:, 0], draws[:, 1])[0, 1] > 0.95
    low, high = posterior.interval(0.9)
    np.testing.assert_allclose(((draws > low) & (draws < high)).mean(0), 0.9, atol=0.03)
    np.testing.assert_allclose((draws >= 0.7).mean(0), posterior.above(0.7), atol=0.03)


def hard(name):
    case = make_case(n={"one item": 1, "two items": 2}.get(name, 120))
    z, h, y = case.features, case.logits, case.labels
    changed = {
        "all duplicates": (np.tile(z[:1], (len(z), 1)), np.tile(h[:1], (len(z), 1)), y),
        "constant confidence": (z, np.tile([3.0, 0, 0, 0], (len(z), 1)), y),
        "constant features": (np.ones_like(z), h, y),
        "far from zero": ((z * 0.1 + 1000).astype(np.float32), h, y),
        "all right": (z, h, h.argmax(1)),
        "all wrong": (z, h, (h.argmax(1) + 1) % 4),
        "certain and wrong": (z, 1e3 * h, (h.argmax(1) + 1) % 4),
    }
    return type(case)(*changed.get(name, (z, h, y)))


HARD = [
    "one item",
    "two items",
    "all duplicates",
    "constant confidence",
    "constant features",
    "far from zero",
    "all right",
    "all wrong",
    "certain and wrong",
]


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("clusters", ["auto", 1])
@pytest.mark.parametrize("design", ["paper", "kmeans", "random"])
def test_hard_pools_give_finite_confidence_between_0_and_1(name, clusters, design):
    case = hard(name)
    calibrator = opcal.OperationalCalibrator("paper", design, n_clusters=clusters).begin(case.pool)
    for k in (1, 3, 10, 1000):
        i = calibrator.ask(k)
        calibrator.tell(i, labels=case.labels[i])
        posterior = calibrator.posterior(case.pool)
        for values in (posterior.mean, posterior.sd, *posterior.interval(), posterior.above(0.9), posterior.sample(3)):
            assert np.isfinite(values).all()
            assert (values >= 0).all()
            assert (values <= 1).all()
    assert len(calibrator.answers_) == len(case.labels)


def test_opposite_answers_of_duplicates_meet_in_the_middle():
    z = np.repeat(np.arange(4.0)[:, None] * 10, 10, axis=0)
    h = np.tile([2.0, 0.0], (40, 1))
    calibrator = opcal.OperationalCalibrator("paper", n_clusters=4).fit(
        opcal.Pool.from_arrays(z, h), np.arange(10), correct=np.arange(10) % 2 == 0
    )
    assert 0.4 < calibrator.confidence(opcal.Pool.from_arrays(z[:1], h[:1]))[0] < 0.65


def test_a_field_without_any_answers_has_no_experts():
    case = make_case()
    learner = Paper().begin(Field(case.pool.outputs, 10))
    learner.tell(Answers.none())
    assert learner.experts == [None] * learner.n_clusters


@pytest.mark.parametrize(
    ("options", "name"), [({"hyperparameters": "best"}, "hyperparameters"), ({"noise": -1}, "noise")]
)
def test_unknown_settings_are_refused_by_name(options, name):
    with pytest.raises(opcal.errors.UnknownOption, match=name):
        opcal.OperationalCalibrator(Paper(**options)).begin(make_case().pool)
