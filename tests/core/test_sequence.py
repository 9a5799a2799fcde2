"""The confidence sequence: valid at every look, narrower with predictions, exact at the end."""

from __future__ import annotations

import numpy as np
import pytest

from opcal.core.sequence import Draws, confidence_sequence, lower_bound


def draws(correct, g, order, n):
    ahead = g[order]
    means = np.array([ahead[t:].mean() for t in range(n)])
    least = np.minimum.accumulate(ahead[::-1])[::-1][:n]
    most = np.maximum.accumulate(ahead[::-1])[::-1][:n]
    return Draws(correct[order[:n]], ahead[:n], means, least, most, len(g))


@pytest.mark.parametrize("share", [0.05, 0.6, 0.97])
def test_the_truth_is_lost_in_at_most_5_percent_of_200_runs_over_all_looks(share):
    lost = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        correct = rng.permutation(200) < round(200 * share)
        g = np.clip(0.5 * correct + 0.2 + 0.3 * rng.random(200), 0, 1)
        at = confidence_sequence(draws(correct, g, rng.permutation(200), 60))
        truth = correct.mean()
        lost += bool(((at.lower > truth + 1e-9) | (at.upper < truth - 1e-9)).any())
    assert lost <= 10


def test_it_only_narrows_and_begins_with_everything():
    correct = np.arange(300) % 3 > 0
    at = confidence_sequence(Draws.plain(np.random.default_rng(0).permutation(correct)[:100], 300))
    assert (at.lower[0], at.upper[0]) == (0, 1)
    assert (np.diff(at.lower) >= 0).all()
    assert (np.diff(at.upper) <= 0).all()


def test_good_predictions_narrow_it():
    rng = np.random.default_rng(1)
    correct = rng.random(1000) < 0.6
    g = np.where(correct, 0.95, 0.05)
    order = rng.permutation(1000)
    with_g = confidence_sequence(draws(correct, g, order, 150))
    plain = confidence_sequence(Draws.plain(correct[order[:150]], 1000))
    assert with_g.upper[-1] - with_g.lower[-1] < 0.8 * (plain.upper[-1] - plain.lower[-1])


def test_all_items_seen_leave_next_to_nothing():
    correct = np.arange(50) % 2 == 0
    at = confidence_sequence(Draws.plain(correct, 50))
    assert at.lower[-1] <= 0.5 <= at.upper[-1]
    assert at.upper[-1] - at.lower[-1] <= 0.04


def test_a_goal_above_the_mean_is_passed_in_at_most_10_percent_of_300_runs():
    values = np.where(np.arange(400) % 10 < 8, 0.7, 0.1)
    goal = np.array([values.mean()])
    passed = sum(
        lower_bound(np.random.default_rng(s).permutation(values)[:80], 400, goal)[0] >= -np.log(0.1) for s in range(300)
    )
    assert passed <= 30


def test_a_goal_far_below_the_mean_is_passed():
    values = np.full(60, 0.8)
    assert lower_bound(values, 1000, np.array([0.3]))[0] > np.log(1000)
