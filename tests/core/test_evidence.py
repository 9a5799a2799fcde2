"""The marginal likelihood against scikit-learn's, its slopes against differences, its maximum against a wide search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from opcal.core.evidence import HIGHEST, LOWEST, evidence, grouped, maximise

SIZES = (1, 2, 3, 7, 20, 33)


def clusters(seed: int = 0, spread: float = 0.5) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    points = [rng.standard_normal((t, 3)) for t in SIZES]
    draws = [np.linalg.cholesky(np.exp(-cdist(x, x, "sqeuclidean") / 2) + 1e-9 * np.eye(len(x))) for x in points]
    y = [spread * (root @ rng.standard_normal(len(root))) + 0.3 * rng.standard_normal(len(root)) for root in draws]
    return points, [cdist(x, x, "sqeuclidean") for x in points], y


def whole(y: list[np.ndarray]) -> list[np.ndarray]:
    return [np.ones(len(v)) for v in y]


def sklearn_evidence(points: list[np.ndarray], y: list[np.ndarray], a2: float, m: float) -> float:
    k = ConstantKernel(a2) * RBF(m)
    gps = [GaussianProcessRegressor(k, alpha=0.1, optimizer=None).fit(x, v) for x, v in zip(points, y, strict=True)]
    return sum(gp.log_marginal_likelihood_value_ for gp in gps) + 0.5 * sum(SIZES) * np.log(2 * np.pi)


@pytest.mark.parametrize(("a2", "m"), [(1.0, 1.0), (0.05, 3.0), (4.0, 0.2)])
def test_the_value_is_the_sum_of_scikit_learns_over_clusters(a2, m):
    points, d2, y = clusters()
    found = evidence(grouped(d2, y, whole(y)), np.log([a2, m]), 0.1).value
    assert found == pytest.approx(sklearn_evidence(points, y, a2, m), abs=1e-8)


def test_labels_of_less_weight_enter_as_scikit_learns_with_more_noise():
    points, d2, y = clusters(2)
    weights = [np.random.default_rng(3).uniform(0.1, 1, len(v)) for v in y]
    groups = grouped(d2, y, weights)

    def reference(a2: float, m: float) -> float:
        gps = [
            GaussianProcessRegressor(ConstantKernel(a2) * RBF(m), alpha=0.1 / w, optimizer=None).fit(x, v)
            for x, v, w in zip(points, y, weights, strict=True)
        ]
        return sum(gp.log_marginal_likelihood_value_ for gp in gps)

    gain = evidence(groups, np.log([2.0, 0.7]), 0.1).value - evidence(groups, np.log([0.5, 1.5]), 0.1).value
    assert gain == pytest.approx(reference(2.0, 0.7) - reference(0.5, 1.5), abs=1e-8)


def test_the_gradient_is_the_slope_of_the_value():
    _, d2, y = clusters(1)
    groups, theta, h = grouped(d2, y, whole(y)), np.log([0.5, 1.3]), 1e-5
    slope = [
        (evidence(groups, theta + h * e, 0.1).value - evidence(groups, theta - h * e, 0.1).value) / (2 * h)
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(evidence(groups, theta, 0.1).gradient, slope, rtol=1e-5)


def test_the_information_is_the_variance_of_the_gradient():
    _, d2, _ = clusters()
    rng, theta = np.random.default_rng(5), np.log([0.8, 1.1])
    roots = [np.linalg.cholesky(0.8 * np.exp(-d / (2 * 1.1**2)) + 0.1 * np.eye(len(d))) for d in d2]
    gradients = []
    for _ in range(2000):
        y = [root @ rng.standard_normal(len(root)) for root in roots]
        at = evidence(grouped(d2, y, whole(y)), theta, 0.1)
        gradients.append(at.gradient)
    np.testing.assert_allclose(np.cov(np.transpose(gradients)), at.fisher, rtol=0.12, atol=0.4)


@pytest.mark.parametrize("seed", range(6))
def test_the_maximum_is_what_a_wide_search_finds(seed):
    _, d2, y = clusters(seed, spread=0.4 + 0.2 * seed)
    groups = grouped(d2, y, whole(y))
    best = max(
        -minimize(
            lambda t: -evidence(groups, t, 0.1).value,
            start,
            method="L-BFGS-B",
            bounds=list(zip(LOWEST, HIGHEST, strict=True)),
        ).fun
        for start in ([0, 0], [-2, -1], [-2, 1], [1, 1])
    )
    found = evidence(groups, np.log(maximise(groups, 0.1)), 0.1).value
    assert found >= best - 0.02


def test_one_label_a_cluster_says_nothing_of_the_length():
    y = [np.array([0.9]), np.array([-0.8]), np.array([0.7])]
    _, multiplier = maximise(grouped([np.zeros((1, 1))] * 3, y, whole(y)), 0.1)
    assert multiplier == pytest.approx(1.0)


def test_residuals_of_zero_shrink_the_amplitude_to_its_bound():
    amplitude, _ = maximise(grouped([np.ones((4, 4)) - np.eye(4)], [np.zeros(4)], [np.ones(4)]), 0.1)
    assert amplitude == pytest.approx(np.exp(LOWEST[0]))
