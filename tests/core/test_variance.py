"""The greedy choice against brute force."""

from __future__ import annotations

import numpy as np

from opcal.core.variance import NOISE, greedy


def case(n=12, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    return root @ root.T, rng.random(n)


def doubt_after(covariance, weights, chosen):
    noisy = covariance[np.ix_(chosen, chosen)] + NOISE * np.eye(len(chosen))
    cross = covariance[chosen]
    return weights @ (covariance - cross.T @ np.linalg.solve(noisy, cross)).diagonal()


def test_each_choice_leaves_the_least_weighted_variance():
    covariance, weights = case()
    chosen = greedy(covariance.copy(), weights, np.ones(12, bool), 4)
    for k in range(4):
        left = [doubt_after(covariance, weights, [*chosen[:k], j]) for j in range(12) if j not in chosen[:k]]
        np.testing.assert_allclose(doubt_after(covariance, weights, chosen[: k + 1]), min(left), rtol=1e-9)


def test_every_prefix_of_a_long_order_is_the_shorter_order():
    covariance, weights = case()
    free = np.arange(12) != 3
    long = greedy(covariance.copy(), weights, free, 100)
    assert greedy(covariance.copy(), weights, free, 5) == long[:5]
    assert sorted(long) == np.flatnonzero(free).tolist()


def test_of_duplicates_the_first_row_is_always_chosen_first():
    covariance, weights = case(6)
    twice = np.repeat(np.arange(6), 2)
    chosen = greedy(covariance[np.ix_(twice, twice)], weights[twice], np.ones(12, bool), 12)
    for first in range(0, 12, 2):
        assert chosen.index(first) < chosen.index(first + 1)
