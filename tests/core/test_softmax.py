"""The kernel softmax against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from opcal.core.embedding import Seen
from opcal.core.softmax import OWN, Labelled, Prior, _energy, factor, likelihood, mode
from opcal.core.spread import through_logistic


def case(n=7, k=4, seed=0):
    rng = np.random.default_rng(seed)
    h, b, z = rng.standard_normal((3, n, k))
    seen = Seen(
        rng.standard_normal((n, 3)), rng.standard_normal((n, 2)), h, b, z, h.argmax(1), rng.standard_normal((n, 3))
    )
    labels = rng.integers(-1, k, n)
    root = rng.standard_normal((n, n))
    return Labelled(seen, labels, rng.uniform(0.2, 1, n)), root @ root.T


def test_the_likelihood_of_wrong_is_that_of_any_other_class():
    data, _ = case()
    f = data.seen.logits
    p = np.exp(log_softmax(f, axis=1))
    rows = np.arange(len(f))
    each = np.where(data.labels >= 0, p[rows, data.labels], 1 - p[rows, data.seen.predicted])
    assert likelihood(f, data)[0] == pytest.approx(data.weight @ np.log(each), abs=1e-12)


def test_the_gradient_is_that_of_finite_differences():
    data, kernel = case()
    point = np.random.default_rng(1).standard_normal(OWN + 4 + 7 * 4)
    scaled = factor(kernel)
    numeric = approx_fprime(point, lambda v: _energy(v, data, scaled, 0.7, Prior())[0], 1e-7)
    np.testing.assert_allclose(_energy(point, data, scaled, 0.7, Prior())[1], numeric, atol=2e-5)


def test_the_mode_is_stationary_and_alpha_is_the_likelihoods_slope():
    data, kernel = case()
    fit = mode(data, factor(kernel), 0.7, Prior())
    slope = likelihood(fit.latent(data.seen, kernel), data)[1]
    np.testing.assert_allclose(fit.alpha, 0.7**2 * slope, atol=2e-3)


def test_a_warm_start_finds_the_same_mode():
    data, kernel = case(9)
    lower = factor(kernel)
    first = mode(data.take(np.arange(5)), lower[:5, :5], 1.0, Prior())
    warm, cold = mode(data, lower, 1.0, Prior(), first.search), mode(data, lower, 1.0, Prior())
    np.testing.assert_allclose(warm.latent(data.seen, kernel), cold.latent(data.seen, kernel), atol=5e-3)


def test_certain_and_opposite_logits_stay_finite():
    data, _ = case()
    value, slope = likelihood(np.full((7, 4), -1e4) + 2e4 * np.eye(7, 4), data)
    assert np.isfinite(value)
    assert np.abs(slope).max() <= 1


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 0.3), (0.0, 2.0), (2.0, 0.5), (-3.0, 1.0)])
def test_the_variance_through_the_logistic_is_near_quadrature(mean, sd):
    x, w = np.polynomial.hermite_e.hermegauss(80)
    p = 1 / (1 + np.exp(-(mean + sd * x)))
    w = w / w.sum()
    m = w @ p
    assert through_logistic(np.array(m), np.array(sd**2)) == pytest.approx(w @ p**2 - m**2, rel=0.45)
