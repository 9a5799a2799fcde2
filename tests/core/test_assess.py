"""The difference estimator: unbiased over all draws, exact where it must be, never naive."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from opcal.core import assess, plan, strata


def test_with_honest_weight_one_it_is_unbiased_over_every_draw():
    y, g = np.array([1, 0, 1, 1, 0, 1.0]), np.array([0.9, 0.4, 0.7, 0.6, 0.2, 0.8])
    values = [g.mean() + np.mean(y[list(s)] - g[list(s)]) for s in combinations(range(6), 3)]
    assert np.mean(values) == pytest.approx(y.mean())
    at = np.array([0, 2, 4])
    sample = assess.uniform(y[at], at, g, 6)
    lam = assess.power(sample)
    assert assess.estimate(sample).value == pytest.approx(lam * g.mean() + np.mean(y[at] - lam * g[at]))


def test_without_predictions_it_is_the_plain_mean_with_wilsons_interval():
    from scipy.stats import t

    y = np.array([1.0] * 20 + [0.0] * 10)
    found = assess.estimate(assess.uniform(y, np.arange(30), None, 10**9))
    z, p, n = t.ppf(0.975, 29), 2 / 3, 30
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    np.testing.assert_allclose([found.value, found.lower, found.upper], [p, middle - reach, middle + reach], atol=1e-6)


def test_a_whole_pool_labelled_leaves_a_point():
    y, g = np.array([1.0, 0, 1, 1]), np.array([0.5, 0.6, 0.7, 0.8])
    found = assess.estimate(assess.uniform(y, np.arange(4), g, 4))
    assert (found.value, found.lower, found.upper) == pytest.approx((0.75, 0.75, 0.75), abs=1e-3)


def test_all_right_still_has_a_doubt_below_but_none_above():
    found = assess.estimate(assess.uniform(np.ones(30), np.arange(30), None, 1000))
    assert found.value == pytest.approx(1)
    assert found.upper == 1
    assert 0.8 < found.lower < 0.95


def test_useless_predictions_change_little_and_good_ones_narrow_the_interval():
    rng = np.random.default_rng(0)
    p = rng.choice([0.05, 0.95], 2000)
    y = (rng.random(2000) < p).astype(float)
    at = rng.permutation(2000)[:80]
    plain = assess.estimate(assess.uniform(y[at], at, None, 2000))
    good = assess.estimate(assess.uniform(y[at], at, p, 2000))
    useless = assess.estimate(assess.uniform(y[at], at, rng.permutation(p), 2000))
    assert good.half_width < 0.7 * plain.half_width
    assert useless.half_width < 1.3 * plain.half_width


def test_unequal_inclusion_probabilities_are_undone():
    rng = np.random.default_rng(1)
    y = (rng.random(4000) < np.linspace(0.2, 1, 4000)).astype(float)
    chance = np.where(y == 1, 0.02, 0.08)
    found = []
    for seed in range(200):
        at = np.flatnonzero(np.random.default_rng(seed).random(4000) < chance)
        found.append(assess.estimate(assess.weighted(y[at], at, None, chance[at], 4000)).value)
    assert np.mean(found) == pytest.approx(y.mean(), abs=0.01)
    assert y[rng.random(4000) < chance].mean() < y.mean() - 0.2


def test_stratified_labels_meet_the_truth_and_their_allocation_meets_the_number():
    rng = np.random.default_rng(2)
    c = rng.beta(4, 1, 1000)
    y = (rng.random(1000) < c).astype(float)
    values = []
    for seed in range(200):
        drawn = strata.draw(c, 60, 5, np.random.default_rng(seed))
        assert len(np.unique(drawn.positions)) == 60
        values.append(strata.stratified(y[drawn.positions], drawn.stratum, drawn.sizes, 0.95).value)
    assert np.mean(values) == pytest.approx(y.mean(), abs=0.01)


@pytest.mark.parametrize("n", [2, 7, 50, 200])
def test_allocation_gives_whole_numbers_within_the_strata(n):
    sizes = np.array([3, 100, 60])
    counts = strata.allocate(sizes, np.array([0.1, 0.5, 0.3]), n)
    assert counts.sum() == min(n, 163)
    assert (counts <= sizes).all()


def test_the_planned_number_of_labels_is_the_first_that_suffices():
    n = plan.labels_for(0.03, 0.85, 0.85 * 0.15, 5000)

    def half(m: int) -> float:
        return assess.interval(0.85, m / (1 - m / 5000), 0.95, m).half_width

    assert half(n) <= 0.03 < half(n - 1)


def test_more_precision_takes_more_labels_and_never_more_than_the_pool():
    needed = [plan.labels_for(h, 0.8, 0.16, 700) for h in (0.2, 0.1, 0.05, 0.01, 0.001)]
    assert needed == sorted(needed)
    assert needed[-1] <= 700
