"""Distances against direct differences, where cancellation bites and where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist

from opcal.core.kernels import centre, median_distance, rbf, squared_distances, squared_distances_to


def rows(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 30), st.integers(0, 999))
def test_expanded_squares_equal_direct_differences(n, m, d, seed):
    x, y = rows(n, d, seed), rows(m, d, seed + 1)
    np.testing.assert_allclose(squared_distances(x, y), cdist(x, y, "sqeuclidean"), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_duplicates_are_at_distance_exactly_zero_and_nothing_is_negative(dtype):
    x = np.repeat(rows(60, 50), 3, axis=0).astype(dtype)
    d2 = squared_distances(x, x)
    assert (d2[np.arange(180) // 3 == (np.arange(180) // 3)[:, None]] == 0).all()
    assert (d2 >= 0).all()


@pytest.mark.parametrize(("dtype", "gap", "tolerance"), [(np.float32, 1e-3, 1e-3), (np.float64, 1e-6, 1e-6)])
def test_near_duplicates_keep_their_relative_accuracy(dtype, gap, tolerance):
    x = rows(30, 20)
    pair = np.vstack([x, x + gap * rows(30, 20, 1)]).astype(dtype)
    exact = cdist(pair.astype(np.float64), pair.astype(np.float64), "sqeuclidean")
    np.testing.assert_allclose(squared_distances(pair, pair), exact, rtol=tolerance, atol=1e-30)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_variant_for_few_rows_equals_the_matrix(dtype):
    x = np.vstack([rows(80, 33), rows(80, 33)[:5]]).astype(dtype)
    norms, some = (x * x).sum(1), [0, 3, 82]
    d2 = squared_distances_to(x, norms, x[some])
    np.testing.assert_allclose(d2, squared_distances(x, x)[some], rtol=2e-5, atol=1e-4)
    assert (d2[[0, 1, 2, 2], [0, 3, 82, 2]] == 0).all()
    assert squared_distances_to(x, norms, x[:0]).shape == (0, 85)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_centre_is_the_mean_in_double_precision(dtype):
    x = (rows(9000, 3) + 100).astype(dtype)
    np.testing.assert_allclose(centre(x), x.astype(np.float64).mean(0), rtol=1e-12)


def test_the_median_distance_is_that_of_all_pairs_of_few_rows():
    x = rows(200, 5)
    assert median_distance(x, np.random.default_rng(0)) == pytest.approx(np.median(pdist(x)))


def test_the_median_distance_of_many_rows_is_estimated_from_a_sample():
    x = rows(6000, 5)
    assert median_distance(x, np.random.default_rng(0)) == pytest.approx(np.median(pdist(x[:1500])), rel=0.05)


def test_the_median_distance_does_not_move_with_the_mean():
    x = rows(150, 8).astype(np.float32)
    moved = (x.astype(np.float64) + 1000).astype(np.float32)
    near, far = (median_distance(v, np.random.default_rng(0)) for v in (x, moved))
    assert far == pytest.approx(near, rel=1e-3)


@pytest.mark.parametrize(
    ("x", "expected"), [(np.ones((9, 2)), 0.0), (np.ones((1, 2)), 0.0), (np.array([[0.0]] * 9 + [[3]]), 3.0)]
)
def test_duplicates_do_not_count_for_the_median_distance_and_without_two_distinct_rows_it_is_zero(x, expected):
    assert median_distance(x, np.random.default_rng(0)) == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tight_groups_far_from_the_centre_keep_their_relative_accuracy(dtype):
    r = np.random.default_rng(5)
    x = 3 * r.standard_normal((4, 30))[r.integers(0, 4, 300)] + 1e-3 * r.standard_normal((300, 30))
    x = np.vstack([x, x[:50]]).astype(dtype)
    exact = cdist(x.astype(np.float64), x.astype(np.float64), "sqeuclidean")
    d2 = squared_distances(x, x)
    np.testing.assert_allclose(d2, exact, rtol=1e-5 if dtype is np.float32 else 1e-9)
    np.testing.assert_array_equal(d2 == 0, exact == 0)


def test_the_kernel_is_one_at_distance_zero_and_exp_of_minus_a_half_at_its_length():
    for dtype in (np.float32, np.float64):
        kernel = rbf(np.array([0, 9, 36], dtype), 3.0)
        assert kernel.dtype == dtype
        np.testing.assert_allclose(kernel, np.exp([0, -0.5, -2]), rtol=1e-6)
