"""The test of label savings, tested: it hardly ever fails by chance, and it fails where what was promised is gone."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import BY_CHANCE, chance_if_it_saved


def errors(rng, count, saving, alike):
    """Runs as `simulation.runs` gives them, of which only truth, estimate and simple estimate are looked at."""
    found = np.zeros((count, 8))
    common, own = rng.standard_normal((2, count))
    found[:, 1] = common
    found[:, 4] = np.sqrt(saving) * (alike * common + np.sqrt(1 - alike**2) * own)
    return found


@pytest.mark.parametrize("count", [20, 166, 500])
@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_savings_that_are_just_as_promised_fail_less_than_once_in_a_thousand_times(count, alike):
    rng = np.random.default_rng(count)
    failed = sum(chance_if_it_saved(errors(rng, count, 1.4, alike), 1.4) < BY_CHANCE for _ in range(8000))
    assert failed < 8


@pytest.mark.parametrize(("count", "saving"), [(166, 0.6), (500, 0.8)])
def test_savings_that_are_gone_are_noticed(count, saving):
    rng = np.random.default_rng(0)
    failed = [chance_if_it_saved(errors(rng, count, saving, 0.8), 1.4) < BY_CHANCE for _ in range(200)]
    assert np.mean(failed) > 0.95


def test_estimates_that_are_the_simple_ones_save_nothing_and_cost_nothing():
    found = errors(np.random.default_rng(0), 100, 1.0, 1.0)
    assert chance_if_it_saved(found, 1.0) == 1.0
    assert chance_if_it_saved(found, 1.4) < BY_CHANCE
