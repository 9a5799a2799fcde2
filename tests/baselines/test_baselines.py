"""Every baseline: the same contract, sane at the edges, and the right map where there is plenty of good data."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_case
from scipy.special import softmax
from sklearn.base import clone

import opcal
from opcal import baselines, errors, metrics

ALL = [getattr(baselines, name) for name in baselines.__all__ if name != "Baseline"]
NEEDS_LOGITS = {baselines.MatrixScaling}


def overconfident(n: int, seed: int = 0, temperature: float = 2.5, d: int = 6, k: int = 4):
    """Labels drawn from softmax(h/T): the model's confidence is systematically too high, the right map is known."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, d))
    h = 3 * z @ np.random.default_rng(99).standard_normal((d, k))
    p = softmax(h / temperature, axis=1)
    labels = (rng.random((n, 1)) > p.cumsum(1)).sum(1)
    pool = opcal.Pool.from_arrays(z, h)
    return pool, labels, p[np.arange(n), pool.predicted]


PLENTIFUL = {
    # Ten trees grown to single answers keep the noise of these; with fifty answers a leaf they show the map.
    baselines.ForestRegression: {"n_estimators": 30, "min_samples_leaf": 50},
    baselines.NearestNeighbours: {"k": 80},
    baselines.DeepNeighbours: {"k": 80},
}


@pytest.mark.parametrize("baseline", ALL)
def test_with_plenty_of_data_the_right_map_is_reached(baseline):
    pool, labels, _ = overconfident(5000, d=2, k=2)
    unseen, _, truth = overconfident(1000, seed=1, d=2, k=2)
    before = np.abs(unseen.confidence - truth).mean()
    got = baseline(**PLENTIFUL.get(baseline, {})).fit(pool, np.arange(5000), labels=labels).confidence(unseen)
    # A credibility counts neighbours of other classes: coarser than the confidence that it replaces.
    assert np.abs(got - truth).mean() < (0.6 if baseline is baselines.DeepNeighbours else 0.4) * before
    assert abs(got.mean() - truth.mean()) < 0.03


@pytest.mark.parametrize("baseline", ALL)
@pytest.mark.parametrize("answer", ["right", "wrong", "mixed"])
def test_few_or_uniform_answers_stay_probabilities(baseline, answer):
    case = make_case(60)
    correct = {"right": [True] * 3, "wrong": [False] * 3, "mixed": [True, False, True]}[answer]
    got = baseline().fit(case.pool, [3, 7, 11], correct=correct).confidence(case.pool)
    assert got.shape == (60,)
    assert np.isfinite(got).all()
    assert (got >= 0).all()
    assert (got <= 1).all()


@pytest.mark.parametrize("baseline", ALL)
def test_one_label_duplicates_and_outside_are_taken(baseline):
    z = np.repeat(np.eye(3), 4, axis=0)
    pool = opcal.Pool.from_arrays(z, 5 * z)
    assert np.isfinite(baseline().fit(pool, [0], labels=[0]).confidence(pool)).all()
    every = baseline().fit(pool, np.arange(12), labels=[opcal.OUTSIDE] * 6 + [1] * 6).confidence(pool)
    assert np.isfinite(every).all()


@pytest.mark.parametrize("baseline", ALL)
def test_pools_without_logits_are_read_or_refused_by_name(baseline):
    case = make_case(120)
    bare = opcal.Pool.from_arrays(case.features, confidence=case.pool.confidence, predicted=case.pool.predicted)
    right = case.pool.predicted == case.labels
    if baseline in NEEDS_LOGITS:
        with pytest.raises(errors.InvalidInput, match="needs logits"):
            baseline().fit(bare, np.arange(120), correct=right)
    else:
        got = baseline().fit(bare, np.arange(120), correct=right).confidence(bare)
        assert metrics.brier(got, right) <= metrics.brier(bare.confidence, right) + 0.01


@pytest.mark.parametrize("baseline", ALL)
def test_the_same_fit_gives_the_same_confidences_and_a_row_needs_no_company(baseline):
    case = make_case(150)
    fits = [baseline().fit(case.pool, np.arange(90), labels=case.labels[:90]) for _ in range(2)]
    whole = fits[0].confidence(case.pool)
    np.testing.assert_array_equal(whole, fits[1].confidence(case.pool))
    few = case.pool.take([5, 120, 140])
    np.testing.assert_allclose(fits[0].confidence(few), whole[[5, 120, 140]], atol=1e-9)


@pytest.mark.parametrize("baseline", ALL)
def test_bad_answers_are_refused_and_the_old_fit_stays(baseline):
    case = make_case(80)
    fitted = baseline().fit(case.pool, np.arange(40), labels=case.labels[:40])
    before = fitted.confidence(case.pool)
    for bad in ({"labels": [99]}, {"labels": [0], "correct": [True]}, {}):
        with pytest.raises(errors.InvalidInput):
            fitted.fit(case.pool, [0], **bad)
    with pytest.raises(errors.InvalidInput, match="at least one labelled item"):
        fitted.fit(case.pool, [], labels=[])
    np.testing.assert_array_equal(fitted.confidence(case.pool), before)


@pytest.mark.parametrize("baseline", ALL)
def test_estimators_are_cloned_shown_and_refuse_before_they_are_fitted(baseline):
    case = make_case(30)
    copy = clone(baseline())
    assert copy.get_params() == baseline().get_params()
    assert repr(copy) == f"{baseline.__name__}()"
    with pytest.raises(errors.NotBegun, match="call fit"):
        copy.confidence(case.pool)
    other = opcal.Pool.from_arrays(case.features[:, :3], case.logits)
    with pytest.raises(errors.IncompatiblePool, match="3 features"):
        copy.fit(case.pool, np.arange(30), labels=case.labels).confidence(other)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (baselines.PlattScaling(on="logits"), "on is 'logits'"),
        (baselines.HistogramBinning(binning="equal"), "binning is 'equal'"),
        (baselines.HistogramBinning(bins=0), "bins is 0"),
        (baselines.MatrixScaling(penalty=-1), "penalty is -1"),
        (baselines.SupportVectorRegression(C=0), "C is 0"),
        (baselines.SurpriseAdequacy(kind="both"), "kind is 'both'"),
        (baselines.SurpriseAdequacy(degree=0), "degree is 0"),
        (baselines.NearestNeighbours(k="many"), "k is 'many'"),
        (baselines.ForestRegression(n_estimators=True), "n_estimators is True"),
    ],
)
def test_unknown_options_are_named(made, named):
    case = make_case(40)
    with pytest.raises(errors.UnknownOption, match=named):
        made.fit(case.pool, np.arange(40), labels=case.labels)


def test_importing_the_baselines_imports_neither_torch_nor_sklearn():
    import subprocess
    import sys

    code = "import sys, opcal; opcal.baselines.PlattScaling(); print(sorted({'torch', 'sklearn'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
