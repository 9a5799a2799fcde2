"""Each baseline against a reference: scikit-learn, SciPy or brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conftest import make_case
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import multivariate_normal
from sklearn.calibration import _SigmoidCalibration
from sklearn.ensemble import RandomForestRegressor
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVR

import opcal
from opcal import baselines

N = 160
CASE = make_case(N)
POOL, LABELS = CASE.pool, CASE.labels
RIGHT = POOL.predicted == LABELS
TOLD = np.random.default_rng(5).permutation(N)[:90]


def fitted(baseline):
    return baseline.fit(POOL, TOLD, labels=LABELS[TOLD])


def test_platt_is_scikit_learns_sigmoid():
    theirs = _SigmoidCalibration().fit(POOL.confidence[TOLD], RIGHT[TOLD].astype(float))
    np.testing.assert_allclose(
        fitted(baselines.PlattScaling()).confidence(POOL), theirs.predict(POOL.confidence), atol=2e-4
    )


def test_isotonic_is_scikit_learns():
    theirs = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(POOL.confidence[TOLD], RIGHT[TOLD])
    np.testing.assert_array_equal(fitted(baselines.IsotonicScaling()).confidence(POOL), theirs.predict(POOL.confidence))


def test_temperature_has_the_highest_likelihood():
    rows = TOLD
    loss = lambda s: -log_softmax(CASE.logits[rows] * np.exp(s), axis=1)[np.arange(len(rows)), LABELS[rows]].sum()  # noqa: E731
    best = np.exp(-minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}).x)
    ours = fitted(baselines.TemperatureScaling())
    assert ours.temperature_ == pytest.approx(best, rel=1e-5)
    want = softmax(CASE.logits / best, axis=1).max(1)
    np.testing.assert_allclose(ours.confidence(POOL), want, atol=1e-5)


def test_matrix_scaling_without_penalty_is_logistic_regression_on_the_logits():
    case = make_case(1500, d=3)
    noisy = np.where(np.arange(1500) % 5 == 0, (case.labels + 1) % 4, case.labels)
    h = case.logits / case.logits.std()
    theirs = LogisticRegression(C=1e9, max_iter=5000, tol=1e-10).fit(h, noisy)
    pool = opcal.Pool.from_arrays(case.features, h)
    want = theirs.predict_proba(h)[np.arange(1500), pool.predicted]
    ours = baselines.MatrixScaling(penalty=1e-9).fit(pool, np.arange(1500), labels=noisy)
    np.testing.assert_allclose(ours.confidence(pool), want, atol=2e-3)


def test_matrix_scaling_minimises_its_penalised_loss():
    ours = fitted(baselines.MatrixScaling(penalty=2.0))
    h = CASE.logits - CASE.logits.mean(1, keepdims=True)
    temperature, k = ours.fitted_.temperature, h.shape[1]

    def loss(v):
        w, b = v[k:].reshape(k, k), v[:k]
        logs = log_softmax(h[TOLD] @ w.T + b, axis=1)[np.arange(len(TOLD)), LABELS[TOLD]]
        return 1.0 * (((w - np.eye(k) / temperature) ** 2).sum() + (b**2).sum()) - logs.sum()

    best = minimize(loss, np.append(np.zeros(k), np.eye(k) / temperature), method="BFGS").x
    want = softmax(h @ best[k:].reshape(k, k).T + best[:k], axis=1)[np.arange(N), POOL.predicted]
    np.testing.assert_allclose(ours.confidence(POOL), want, atol=1e-4)


def test_matrix_scaling_with_an_endless_penalty_is_temperature_scaling():
    np.testing.assert_allclose(
        fitted(baselines.MatrixScaling(penalty=1e12)).confidence(POOL),
        fitted(baselines.TemperatureScaling()).confidence(POOL),
        atol=1e-6,
    )


@pytest.mark.parametrize("binning", ["mass", "width"])
def test_a_bin_gives_the_share_of_its_right_labels(binning):
    ours = fitted(baselines.HistogramBinning(bins=4, binning=binning))
    edges = np.concatenate([[-np.inf], ours.fitted_.edges, [np.inf]])
    got, c = ours.confidence(POOL), POOL.confidence
    for low, high in itertools.pairwise(edges):
        told = RIGHT[TOLD][(c[TOLD] > low) & (c[TOLD] <= high)]
        inside = (c > low) & (c <= high)
        np.testing.assert_allclose(got[inside], told.mean() if len(told) else c[inside])


def test_the_forest_is_scikit_learns_on_the_residual():
    z = POOL.features.astype(np.float32)
    theirs = RandomForestRegressor(10, random_state=0).fit(z[TOLD], RIGHT[TOLD] - POOL.confidence[TOLD])
    want = np.clip(POOL.confidence + theirs.predict(z), 0, 1)
    np.testing.assert_array_equal(fitted(baselines.ForestRegression()).confidence(POOL), want)


def test_the_support_vectors_are_scikit_learns_shifted_to_be_right_on_average():
    z = POOL.features
    x = (z - z[TOLD].mean(0)) / z[TOLD].std(0)
    y = RIGHT[TOLD] - POOL.confidence[TOLD]
    theirs = SVR(kernel="linear", C=0.05).fit(x[TOLD], y)
    left = (y - theirs.predict(x[TOLD])).mean()
    want = np.clip(POOL.confidence + theirs.predict(x) + left, 0, 1)
    np.testing.assert_allclose(fitted(baselines.SupportVectorRegression(C=0.05)).confidence(POOL), want, atol=1e-9)


def test_the_likelihood_surprise_is_a_scott_kernel_density_of_the_predicted_class():
    training = make_case(500, seed=3).pool
    ours = fitted(baselines.SurpriseAdequacy(reference=training)).fitted_.surprise
    z, z0 = POOL.features, training.features
    _, s, v = np.linalg.svd(z0 - z0.mean(0), full_matrices=False)
    white, white0 = ((a - z0.mean(0)) @ (v.T / s * np.sqrt(len(z0) - 1)) for a in (z, z0))
    got = ours(POOL.outputs)
    for c in np.unique(POOL.predicted):
        members = white0[training.predicted == c]
        members = members if len(members) >= 24 else white0
        m, d = members.shape
        at = np.flatnonzero(POOL.predicted == c)[:10]
        kernel = multivariate_normal(np.zeros(d), m ** (-2 / (d + 4)) * np.eye(d))
        densities = [kernel.pdf(row - members).mean() for row in white[at]]
        np.testing.assert_allclose(got[at], -np.log(densities) - d / 2 * np.log(2 * np.pi), atol=1e-6)


def test_the_distance_surprise_is_that_of_brute_force():
    training = make_case(120, seed=3).pool
    got = fitted(baselines.SurpriseAdequacy(kind="distance", reference=training)).fitted_.surprise(POOL.outputs)
    z0, p0 = training.features, training.predicted
    for i in range(N):
        same = np.flatnonzero(p0 == POOL.predicted[i])
        a = same[np.linalg.norm(z0[same] - POOL.features[i], axis=1).argmin()]
        other = z0[p0 != p0[a]]
        want = np.linalg.norm(z0[a] - POOL.features[i]) / np.linalg.norm(other - z0[a], axis=1).min()
        assert got[i] == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("kind", ["likelihood", "distance"])
def test_the_polynomial_of_surprise_is_numpys_least_squares(kind):
    ours = fitted(baselines.SurpriseAdequacy(kind=kind, degree=2))
    s = ours.fitted_.surprise(POOL.outputs)
    fit = np.polynomial.Polynomial.fit(s[TOLD], RIGHT[TOLD] - POOL.confidence[TOLD], 2)
    want = np.clip(POOL.confidence + fit(np.clip(s, s[TOLD].min(), s[TOLD].max())), 0, 1)
    np.testing.assert_allclose(ours.confidence(POOL), want, atol=1e-8)


def test_without_a_reference_surprise_says_what_stands_in_and_no_item_vouches_for_itself():
    ours = fitted(baselines.SurpriseAdequacy(kind="distance"))
    assert "field pool's own" in ours.reference_
    assert (ours.fitted_.surprise(POOL.outputs) > 0).all()
    given = baselines.SurpriseAdequacy(reference=make_case(50, seed=8).pool)
    assert "50 items passed" in fitted(given).reference_


def test_neighbours_are_scikit_learns_and_leave_themselves_out():
    ours = fitted(baselines.NearestNeighbours(k=7))
    z, y = POOL.features, RIGHT[TOLD].astype(float)
    index = NearestNeighbors(n_neighbors=8).fit(z[TOLD]).kneighbors(z, return_distance=False)
    itself = index[:, 0] == [list(TOLD).index(i) if i in TOLD else -1 for i in range(N)]
    around = np.where(itself[:, None], index[:, 1:], index[:, :7])
    mean = (y.sum() + 1) / (len(y) + 2)
    np.testing.assert_allclose(ours.confidence(POOL), (y[around].sum(1) + 2 * mean) / 9)


def test_deep_neighbours_credibility_is_that_of_brute_force():
    ours = fitted(baselines.DeepNeighbours(k=5))
    unit = POOL.features / np.linalg.norm(POOL.features, axis=1, keepdims=True)
    new = np.setdiff1d(np.arange(N), TOLD)

    def others(i, label, among):
        near = among[np.argsort(-(unit[among] @ unit[i]), kind="stable")[:5]]
        return int((LABELS[near] != label).sum())

    own = np.array([others(i, LABELS[i], TOLD[i != TOLD]) for i in TOLD])
    want = [(np.sum(own >= others(i, POOL.predicted[i], TOLD)) + 1) / (len(TOLD) + 1) for i in new]
    np.testing.assert_allclose(ours.fitted_.credibility(POOL.outputs.take(new)), want)


@pytest.mark.parametrize("digits", [1, 6])
def test_venn_abers_is_isotonic_regression_with_the_item_added_twice(digits):
    rng = np.random.default_rng(2)
    c = np.round(rng.uniform(0.3, 1, 80), digits)
    pool = opcal.Pool.from_arrays(rng.standard_normal((80, 2)), confidence=c, predicted=np.zeros(80, int))
    right, told = rng.random(80) < c**2, np.arange(50)
    ours = baselines.VennAbers().fit(pool, told, correct=right[told])
    low, high = ours.fitted_.interval(pool.outputs)
    for i in range(80):
        want = []
        for answer in (0.0, 1.0):
            scores, answers = np.append(c[told], c[i]), np.append(right[told], answer)
            want.append(IsotonicRegression().fit(scores, answers).predict([c[i]])[0])
        assert (low[i], high[i]) == pytest.approx(want, abs=1e-9)
    np.testing.assert_allclose(ours.confidence(pool), high / (1 - low + high))


def test_density_aware_scaling_has_the_best_penalised_likelihood():
    ours = fitted(baselines.DensityAwareScaling(k=4))
    s = ours.fitted_.distance(POOL.outputs)
    u = (s - s[TOLD].mean()) / s[TOLD].std()
    h = CASE.logits[TOLD]

    def loss(v):
        logs = log_softmax(np.exp(-(v[0] + v[1] * u[TOLD]))[:, None] * h, axis=1)
        return 0.5 * v[1] ** 2 - logs[np.arange(len(TOLD)), LABELS[TOLD]].sum()

    a, b = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x
    want = softmax(np.exp(-(a + b * u))[:, None] * CASE.logits, axis=1).max(1)
    np.testing.assert_allclose(ours.confidence(POOL), want, atol=1e-5)


def test_boosting_sees_confidence_margin_entropy_and_components():
    ours = fitted(baselines.GradientBoosting(n_components=2))
    seen = ours.fitted_.look(POOL.outputs)
    p = softmax(CASE.logits, axis=1)
    ranked = np.sort(p, axis=1)
    np.testing.assert_allclose(seen[:, 0], ranked[:, -1])
    np.testing.assert_allclose(seen[:, 1], ranked[:, -1] - ranked[:, -2])
    np.testing.assert_allclose(seen[:, 2], -(p * np.log(p)).sum(1))
    z = POOL.features - POOL.features.mean(0)
    np.testing.assert_allclose((seen[:, 3:] ** 2).sum(0), np.sort(np.linalg.eigvalsh(z.T @ z))[::-1][:2])
    theirs = ours._model(len(TOLD)).fit(seen[TOLD], RIGHT[TOLD])
    np.testing.assert_allclose(ours.confidence(POOL), theirs.predict_proba(seen)[:, 1])
