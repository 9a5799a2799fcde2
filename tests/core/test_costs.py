"""Scalar costs: u and lambda are two names of one number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opcal.core.costs import Costs, loss_from_threshold, threshold_from_loss
from opcal.core.metrics import lce
from opcal.errors import InvalidArray, InvalidInput


@pytest.mark.parametrize(("u", "threshold"), [(0, 0), (1, 0.5), (4, 0.8), (9, 0.9), (99, 0.99)])
def test_known_losses_have_their_break_even_confidence(u, threshold):
    assert threshold_from_loss(u) == threshold
    assert loss_from_threshold(threshold) == pytest.approx(u, rel=1e-12)


@given(st.floats(0, 0.999))
def test_threshold_and_loss_are_inverses(threshold):
    assert threshold_from_loss(loss_from_threshold(threshold)) == pytest.approx(threshold, rel=1e-12)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_greater_loss_asks_for_more_confidence(u, v):
    assert (u <= v) <= (threshold_from_loss(u) <= threshold_from_loss(v))


@given(st.floats(0, 1e6))
def test_acting_at_the_threshold_breaks_even(u):
    costs = Costs(u)
    assert costs.expected_gain([costs.threshold])[0] == pytest.approx(0, abs=1e-9)
    assert costs.expected_gain([1.0, 0.0]).tolist() == [1, -u]


@given(st.floats(0, 100), st.integers(0, 50), st.integers(1, 50))
def test_the_expected_gain_of_an_honest_confidence_is_the_mean_gain(u, right, false):
    costs, correct = Costs(u), np.arange(right + false) < right
    assert costs.expected_gain([correct.mean()])[0] == pytest.approx(costs.gain(correct).mean(), abs=1e-11)


def test_gain_is_one_for_right_and_minus_u_for_false():
    assert Costs(4).gain([True, False, 1, 0]).tolist() == [1, -4, 1, -4]


def test_lce_is_the_gain_of_perfect_confidence_less_the_gain_of_acting_above_the_threshold():
    generator = np.random.default_rng(0)
    conf, correct, costs = generator.random(200), generator.random(200) < 0.6, Costs(1.5)
    taken = costs.gain(correct)[costs.expected_gain(conf) >= 0].sum()
    assert lce(conf, correct, u=1.5) == pytest.approx((correct.sum() - taken) / 200, abs=1e-12)


@pytest.mark.parametrize("u", [-1e-9, np.nan, np.inf, "0.5", None, 1j])
def test_losses_that_are_no_finite_number_from_zero_up_are_refused(u):
    with pytest.raises(InvalidInput, match="u is "):
        threshold_from_loss(u)
    with pytest.raises(InvalidInput, match="u is "):
        Costs(u)


@pytest.mark.parametrize("threshold", [-0.1, 1.0, 1.5, np.nan])
def test_thresholds_outside_zero_to_below_one_are_refused(threshold):
    with pytest.raises(InvalidInput, match=r"threshold is .* \[0, 1\)"):
        loss_from_threshold(threshold)


def test_bad_arrays_are_refused_by_name():
    with pytest.raises(InvalidArray, match=r"conf\[1\] is 1\.2"):
        Costs(1).expected_gain([0.5, 1.2])
    with pytest.raises(InvalidArray, match=r"correct\[0\] is 3"):
        Costs(1).gain([3, 1])
