"""Right-or-wrong Gaussian process, temperature and residual against oracles."""

from __future__ import annotations

import numpy as np
import pytest
from core.test_stack import answers, assert_sane, brier, fitted, made
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, log_softmax

from opcal.core.correctness import laplace
from opcal.core.method import Answers
from opcal.core.residual import Residual
from opcal.core.temperature import Temperature


def test_the_laplace_mode_is_that_of_a_general_minimiser():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((12, 12))
    c, prior, right = root @ root.T, rng.standard_normal(12), (rng.random(12) < 0.5).astype(float)
    fit = laplace(1.0, c, prior, right, np.ones(12))

    def energy(a):
        return 0.5 * a @ c @ a - log_expit(np.where(right, 1, -1) * (prior + c @ a)).sum()

    best = minimize(energy, np.zeros(12), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(c @ fit.slope, c @ best.x, atol=1e-4)


def test_the_laplace_mode_satisfies_its_own_equation_at_extreme_scales():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((20, 20))
    c, right = 100 * root @ root.T, (rng.random(20) < 0.5).astype(float)
    fit = laplace(1.0, c, np.zeros(20), right, np.ones(20))
    np.testing.assert_allclose(right - expit(c @ fit.slope), fit.slope, atol=1e-3)


def test_two_half_answers_at_one_point_are_worth_one():
    rng = np.random.default_rng(2)
    root, prior, right = rng.standard_normal((9, 9)), rng.standard_normal(9), (rng.random(9) < 0.5).astype(float)
    c, twice = root @ root.T, np.append(np.arange(9), 0)
    once = laplace(1.0, c, prior, right, np.ones(9))
    weight = np.where(twice == 0, 0.5, 1.0)
    halves = laplace(1.0, c[np.ix_(twice, twice)], prior[twice], right[twice], weight)
    np.testing.assert_allclose(c[:, twice] @ halves.slope, c @ once.slope, atol=1e-6)
    assert halves.evidence == pytest.approx(once.evidence, abs=1e-6)


def test_temperature_is_the_posterior_mode():
    pool, y = made()
    learner = fitted(Temperature(), pool, answers(pool, y, np.arange(60)))

    def energy(tau):
        logs = log_softmax(np.exp(-tau) * pool.logits[:60], axis=1)
        return 0.5 * tau**2 - logs[np.arange(60), y[:60]].sum()

    best = minimize_scalar(energy, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}).x
    assert learner.fitted[0] == pytest.approx(best, abs=1e-6)


def test_temperature_without_answers_is_the_models_own_confidence():
    pool, _ = made()
    got = fitted(Temperature(), pool, Answers.none()).predict(pool)
    np.testing.assert_allclose(got.mean, pool.confidence, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 30])
def test_the_residual_process_stays_sane_and_helps(n):
    pool, y = made()
    posterior = fitted(Residual(), pool, answers(pool, y, np.arange(n))).predict(pool)
    assert_sane(posterior)
    if n == 30:
        assert brier(posterior, pool, y) < ((pool.confidence - (pool.predicted == y)) ** 2).mean()
