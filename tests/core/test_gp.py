"""The incremental Gaussian process against scikit-learn's refitting one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from opcal.core.gp import Fitted, Kernel, PoolGP


def rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def pool_gp(x: np.ndarray, kernel: Kernel) -> PoolGP:
    return PoolGP(x, (x * x).sum(1), kernel)


def sklearn_moments(x: np.ndarray, at: list[int], y: np.ndarray, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
    k = ConstantKernel(kernel.amplitude) * RBF(kernel.length)
    gp = GaussianProcessRegressor(k, alpha=kernel.noise, optimizer=None).fit(x[at], y)
    mean, sd = gp.predict(x, return_std=True)
    return mean, sd**2


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([2, 7, 40]), st.floats(0.05, 4), st.floats(0.3, 5))
def test_after_any_sequence_of_labels_mean_and_variance_equal_scikit_learns(seed, n_labels, d, amplitude, length):
    x = rows(80, d, seed)
    rng = np.random.default_rng(seed)
    at, y = rng.permutation(80)[:n_labels].tolist(), rng.uniform(-1, 1, n_labels)
    kernel = Kernel(amplitude, length * np.sqrt(d), 0.1)
    gp = pool_gp(x, kernel)
    for j, value in zip(at, y, strict=True):
        gp.add(j, value)
    mean, variance = sklearn_moments(x, at, y, kernel)
    np.testing.assert_allclose(gp.mean, mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(gp.variance, variance, rtol=0, atol=1e-10)


def test_many_labels_beyond_one_block_still_equal_scikit_learns():
    x, rng = rows(400, 5), np.random.default_rng(1)
    at, y = rng.permutation(400)[:330].tolist(), rng.uniform(-1, 1, 330)
    gp = pool_gp(x, Kernel(1.0, 2.0, 0.1))
    for j, value in zip(at, y, strict=True):
        gp.add(j, value)
    mean, variance = sklearn_moments(x, at, y, gp.kernel)
    np.testing.assert_allclose(gp.mean, mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(gp.variance, variance, rtol=0, atol=1e-10)


def test_a_label_of_less_weight_enters_as_scikit_learns_with_more_noise():
    x, rng, kernel = rows(150, 6), np.random.default_rng(4), Kernel(0.7, 2.0, 0.1)
    at, y, weight = rng.permutation(150)[:40], rng.uniform(-1, 1, 40), rng.uniform(0.05, 1, 40)
    gp = pool_gp(x, kernel)
    gp.begin(kernel, at[:25], y[:25], weight[:25])
    for j, value, w in zip(at[25:].tolist(), y[25:], weight[25:], strict=True):
        gp.add(j, value, w)
    reference = GaussianProcessRegressor(ConstantKernel(0.7) * RBF(2.0), alpha=0.1 / weight, optimizer=None)
    mean, sd = reference.fit(x[at], y).predict(x, return_std=True)
    fitted = Fitted.fit(x[at], y, weight, kernel).moments(x, (x * x).sum(1))
    for found in ((gp.mean, gp.variance), fitted):
        np.testing.assert_allclose(found[0], mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found[1], sd**2, rtol=0, atol=1e-10)


def test_labels_entering_together_equal_labels_entering_one_by_one():
    x, rng = rows(150, 6), np.random.default_rng(2)
    at, y = rng.permutation(150)[:40], rng.uniform(-1, 1, 40)
    together, single = pool_gp(x, Kernel(0.7, 2.0)), pool_gp(x, Kernel(0.7, 2.0))
    together.begin(together.kernel, at[:25], y[:25], np.ones(25))
    for j, value in zip(at[25:], y[25:], strict=True):
        together.add(int(j), float(value))
    for j, value in zip(at, y, strict=True):
        single.add(int(j), float(value))
    np.testing.assert_allclose(together.mean, single.mean, atol=1e-12)
    np.testing.assert_allclose(together.variance, single.variance, atol=1e-12)


def test_beginning_again_with_another_kernel_forgets_the_first():
    x, rng = rows(120, 5), np.random.default_rng(3)
    at, y = rng.permutation(120)[:30], rng.uniform(-1, 1, 30)
    changed = pool_gp(x, Kernel(1.0, 4.0))
    for j in at[:20].tolist():
        changed.add(j, 1.0)
    changed.begin(Kernel(0.5, 2.0), at, y, np.ones(30))
    mean, variance = sklearn_moments(x, at.tolist(), y, Kernel(0.5, 2.0))
    np.testing.assert_allclose(changed.mean, mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(changed.variance, variance, rtol=0, atol=1e-10)
    changed.begin(Kernel(0.3, 2.0), at[:0], y[:0], y[:0])
    np.testing.assert_array_equal(changed.mean, 0)
    np.testing.assert_array_equal(changed.variance, 0.3)


@pytest.mark.parametrize("guess", ["right", "wrong"])
def test_looking_ahead_changes_nothing_but_the_time(guess):
    x, rng = rows(200, 5), np.random.default_rng(4)
    at, y = rng.permutation(200)[:40].tolist(), rng.uniform(-1, 1, 40)
    score = np.ones(200)
    score[at] = 0 if guess == "right" else 2
    ahead, plain = pool_gp(x, Kernel(0.7, 2.0)), pool_gp(x, Kernel(0.7, 2.0))
    for j, value in zip(at, y, strict=True):
        ahead.expect_next(score)
        ahead.add(j, value)
        plain.add(j, value)
    np.testing.assert_allclose(ahead.mean, plain.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(ahead.variance, plain.variance, rtol=0, atol=1e-12)


@pytest.mark.parametrize("distance", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("noise", [0.1, 0.0])
def test_opposite_answers_at_the_same_point_stay_bounded(distance, noise):
    x = np.array([[0.0, 0.0], [distance, 0.0], [3.0, 1.0]])
    gp = pool_gp(x, Kernel(1.0, 1.0, noise))
    gp.add(0, 1.0)
    gp.add(1, -1.0)
    assert np.isfinite(gp.mean).all()
    assert np.isfinite(gp.variance).all()
    if noise:
        assert np.abs(gp.mean).max() <= 1


def test_the_same_point_told_many_times_without_noise_stays_finite():
    gp = pool_gp(np.zeros((5, 3)), Kernel(1.0, 1.0, 0.0))
    for j in range(5):
        gp.add(j, 0.5)
    np.testing.assert_allclose(gp.mean, 0.5, atol=1e-6)
    assert (gp.variance >= 0).all()


def test_an_expected_label_moves_the_variance_and_not_the_mean():
    gp = pool_gp(rows(50, 3), Kernel(1.0, 1.5))
    gp.add(4, 0.8)
    mean, variance = gp.mean.copy(), gp.variance.copy()
    gp.expect(9)
    np.testing.assert_array_equal(gp.mean, mean)
    assert (gp.variance <= variance).all()
    assert gp.variance[9] < variance[9]


def test_restoring_a_snapshot_undoes_expected_labels_to_the_bit():
    gp = pool_gp(rows(60, 3), Kernel(1.0, 1.5))
    twin = pool_gp(rows(60, 3), Kernel(1.0, 1.5))
    for j in range(10):
        gp.add(j, 0.1 * j)
        twin.add(j, 0.1 * j)
    saved = gp.snapshot()
    for j in range(20, 45):
        gp.expect(j)
    gp.restore(saved)
    for each in (gp, twin):
        each.add(50, -0.3)
    np.testing.assert_array_equal(gp.mean, twin.mean)
    np.testing.assert_array_equal(gp.variance, twin.variance)


def test_new_rows_are_scored_as_scikit_learn_scores_them():
    x, new, rng = rows(30, 8), rows(100, 8, seed=3), np.random.default_rng(4)
    y, kernel = rng.uniform(-1, 1, 30), Kernel(0.6, 3.0, 0.1)
    mean, variance = Fitted.fit(x, y, np.ones(len(y)), kernel).moments(new, (new * new).sum(1))
    gp = GaussianProcessRegressor(ConstantKernel(0.6) * RBF(3.0), alpha=0.1, optimizer=None).fit(x, y)
    expected, sd = gp.predict(new, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=1e-10)
    np.testing.assert_allclose(variance, sd**2, atol=1e-10)


def test_single_precision_scoring_is_within_1e_5_of_double():
    x, new, rng = rows(33, 64), rows(500, 64, seed=3), np.random.default_rng(4)
    y, kernel = rng.uniform(-1, 1, 33), Kernel(1.0, 9.0, 0.1)
    exact = Fitted.fit(x, y, np.ones(len(y)), kernel).moments(new, (new * new).sum(1))
    narrow = new.astype(np.float32)
    quick = Fitted.fit(x.astype(np.float32), y, np.ones(len(y)), kernel).moments(narrow, (narrow * narrow).sum(1))
    for one, other in zip(exact, quick, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
