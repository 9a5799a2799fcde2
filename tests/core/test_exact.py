"""Exact intervals against SciPy's distributions and against complete enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest, hypergeom

from opcal.core import exact


@pytest.mark.parametrize(("k", "n"), [(0, 7), (3, 7), (7, 7), (29, 30), (60, 100)])
def test_clopper_pearson_is_scipys(k, n):
    theirs = binomtest(k, n).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(exact.clopper_pearson(k, n, 0.95), (theirs.low, theirs.high), atol=1e-12)


@pytest.mark.parametrize("size", [12, 40])
def test_the_pools_interval_covers_every_truth_in_95_percent_of_all_draws(size):
    n = size // 3
    ends = [exact.of_pool(k, n, size, 0.95) for k in range(n + 1)]
    for total in range(size + 1):
        chances = hypergeom.pmf(np.arange(n + 1), size, total, n)
        inside = [low - 1e-9 <= total / size <= high + 1e-9 for low, high in ends]
        assert chances @ inside >= 0.95 - 1e-9


def test_the_pools_interval_keeps_exactly_the_totals_that_the_draw_does_not_contradict():
    k, n, size = 5, 12, 60
    low, high = exact.of_pool(k, n, size, 0.9)
    kept = [
        t
        for t in range(k, size - (n - k) + 1)
        if hypergeom.sf(k - 1, size, t, n) > 0.05 and hypergeom.cdf(k, size, t, n) > 0.05
    ]
    assert (round(low * size), round(high * size)) == (kept[0], kept[-1])


def test_a_pool_labelled_whole_leaves_no_doubt():
    assert exact.of_pool(7, 10, 10, 0.95) == (0.7, 0.7)


def test_of_a_large_pool_the_interval_is_clopper_pearsons():
    np.testing.assert_allclose(exact.of_pool(27, 30, 2_000_000, 0.95), exact.clopper_pearson(27, 30, 0.95), atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 1.0])
def test_binomial_chances_are_scipys(p):
    np.testing.assert_allclose(exact.binomial(25, p), binom.pmf(np.arange(26), 25, p), atol=1e-13)
