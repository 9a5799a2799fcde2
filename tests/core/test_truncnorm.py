"""Truncated normal on [0, 1]: mpmath with 200 digits is the oracle."""

from __future__ import annotations

import warnings
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from opcal.core.truncnorm import TruncatedNormal, location_for_mean, moments
from opcal.errors import InvalidArray

DIGITS = 200
ORDINARY = list(product(np.linspace(-0.5, 1.5, 27), np.geomspace(0.01, 3, 16)))
EDGE_MEANS = [0.0, 1.0, 0.5, 1e-12, 1 - 1e-12, -1e-12, 1 + 1e-12, 1e-6, -1e-6, 1 + 1e-6, 0.3, 0.9]
FAR_MEANS = [sign * 10.0**p + shift for p in range(7) for sign, shift in ((-1, 0), (1, 1), (-1, 0.37), (1, 0.37))]
EXTREME = list(product(EDGE_MEANS + FAR_MEANS, [10.0**power for power in range(-12, 7)]))
SWITCHES = [(-f * s, s) for f, s in product([5.99, 6.0, 6.01], [1e-9, 1e-3, 0.3, 3.0, 9.99, 10.0, 10.01])]


def tail(z):
    return mpmath.erfc(z / mpmath.sqrt(2)) / 2


def density(z):
    return mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)


def oracle_moments(m, s):
    """The textbook formula, with digits to spare, on the side where Phi does not cancel."""
    with mp.workdps(DIGITS):
        m, s = mpf(float(m)), mpf(float(s))
        x = min(m, 1 - m)
        a, b = -x / s, (1 - x) / s
        mass = tail(a) - tail(b)
        shift = (density(a) - density(b)) / mass
        mean = x + s * shift
        variance = s * s * (1 + (a * density(a) - b * density(b)) / mass - shift**2)
        return float(mean if m <= 0.5 else 1 - mean), float(mpmath.sqrt(variance))


def oracle_cdf(m, s, x):
    with mp.workdps(DIGITS):
        m, s, x = mpf(float(m)), mpf(float(s)), mpf(float(x))
        if m > 0.5:
            m, x, flip = 1 - m, 1 - x, True
        else:
            flip = False
        share = (tail(-m / s) - tail((x - m) / s)) / (tail(-m / s) - tail((1 - m) / s))
        return float(1 - share if flip else share)


def errors(pairs):
    m, s = np.array(pairs).T
    mean, sd = moments(m, s)
    assert np.isfinite([mean, sd]).all()
    assert ((mean >= 0) & (mean <= 1)).all()
    true_mean, true_sd = np.array([oracle_moments(*pair) for pair in pairs]).T
    return np.abs(mean - true_mean).max(), np.abs(sd / true_sd - 1).max()


def test_ordinary_moments_equal_mpmath():
    assert len(ORDINARY) >= 400
    mean_error, sd_error = errors(ORDINARY)
    assert mean_error <= 1e-13
    assert sd_error <= 1e-10


def test_extreme_moments_equal_mpmath():
    assert len(EXTREME) >= 600
    mean_error, sd_error = errors(EXTREME)
    assert mean_error <= 1e-10
    assert sd_error <= 1e-7


def test_the_switches_between_formulas_leave_no_step():
    mean_error, sd_error = errors(SWITCHES + [(1 - m, s) for m, s in SWITCHES])
    assert mean_error <= 1e-12
    assert sd_error <= 1e-8


def test_a_vanishing_sd_gives_the_clipped_location_and_no_spread():
    m = np.array([-3.0, 0.0, 0.25, 1.0, 7.0])
    mean, sd = moments(m, np.zeros(5))
    assert mean.tolist() == [0, 0, 0.25, 1, 1]
    assert sd.tolist() == [0] * 5


def test_a_huge_sd_gives_the_uniform_distribution():
    mean, sd = moments([0.2, -3.0, 5.0, 0.7], [1e9, 1e12, np.inf, 1e300])
    np.testing.assert_allclose(mean, 0.5, atol=1e-12)
    np.testing.assert_allclose(sd, 12**-0.5, rtol=1e-9)


def test_nothing_overflows_or_warns_at_the_ends_of_float64():
    values = [0.0, 5e-324, 1e-308, 1e-200, 1e-150, 1e-100, 1.0, 1e100, 1e200, 1e308]
    m, s = np.array(list(product([sign * v for v in values for sign in (-1, 1)], values))).T
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        mean, sd = moments(m, s)
        pieces = TruncatedNormal(m, s)
        results = [mean, sd, pieces.cdf(0.4), pieces.quantile(0.4), location_for_mean(0.3, np.array(values[:7]))]
    assert all(np.isfinite(part).all() for part in results)
    assert ((mean >= 0) & (mean <= 1)).all()


def test_nan_stays_in_its_own_row():
    mean, sd = moments([0.5, np.nan, 0.2], [0.1, 0.1, np.nan])
    assert np.isnan(mean).tolist() == np.isnan(sd).tolist() == [False, True, True]


def test_a_negative_sd_is_refused_by_name():
    with pytest.raises(InvalidArray, match=r"s\[1\] is -0\.5"):
        moments([0.5, 0.5], [0.1, -0.5])


def test_rows_do_not_depend_on_their_company():
    m, s = np.array(ORDINARY + EXTREME).T
    mean, sd = moments(m, s)
    order = np.random.default_rng(0).permutation(len(m))
    for rows in (order, order[:170], order[:1], np.tile(order, 20)):
        part_mean, part_sd = moments(m[rows], s[rows])
        np.testing.assert_allclose(part_mean, mean[rows], rtol=0, atol=1e-15)
        np.testing.assert_allclose(part_sd, sd[rows], rtol=1e-13)


def test_shapes_broadcast_and_single_precision_is_computed_in_double():
    rows, columns = np.linspace(-1, 2, 5)[:, None], np.array([0.0, 0.1, 20.0])
    mean, sd = moments(rows, columns)
    one_by_one = np.array([[moments(m, s) for s in columns] for m in rows[:, 0]])
    np.testing.assert_allclose(np.stack([mean, sd], axis=-1), one_by_one, rtol=1e-13)
    m, s = np.random.default_rng(1).uniform(0.05, 1, (2, 20_000)).astype(np.float32)
    single, double = moments(m, s), moments(m.astype(float), s.astype(float))
    assert single[0].dtype == single[1].dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-7)


def test_inputs_are_left_untouched_in_any_layout():
    m, s = np.random.default_rng(2).uniform(0.05, 1, (2, 400))
    expected = moments(m[::2].copy(), s[::2].copy())
    m.flags.writeable = s.flags.writeable = False
    np.testing.assert_array_equal(moments(m[::2], s[::2]), expected)


def test_empty_arrays_give_empty_moments():
    mean, sd = moments([], [])
    assert mean.tolist() == sd.tolist() == []


@settings(max_examples=200, deadline=None)
@given(m=st.floats(-1e6, 1e6), power=st.floats(-12, 6))
def test_reflection_mirrors_the_mean_and_keeps_the_sd(m, power):
    s = 10.0**power
    mean, sd = moments(m, s)
    mirrored, same = moments(1 - m, s)
    assert mean + mirrored == pytest.approx(1, abs=1e-10)
    assert same == pytest.approx(sd, rel=1e-6) or abs(1 - (1 - m) - m) > 1e-9 * s  # 1 - m itself loses digits
    assert 0 <= sd <= min(s, 12**-0.5) * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=2, max_size=20), st.floats(1e-3, 1e3))
def test_the_mean_grows_with_the_location(locations, s):
    mean, _ = moments(np.sort(locations), np.full(len(locations), s))
    assert (np.diff(mean) >= -1e-12).all()


MIDDLE_PLACES = [(0.3, 0.2), (0.97, 0.4), (1.4, 0.3), (0.2, 1e-9)]
FAR_PLACES = [(-2.0, 0.1), (-40.0, 2.0), (0.5, 50.0), (3.0, 1e4), (1e6, 1.0)]
PLACES = MIDDLE_PLACES + FAR_PLACES


def spread(m, s):
    mean, sd = oracle_moments(m, s)
    return [x for x in (mean + k * sd for k in (-2, -0.7, 0, 0.5, 1.5, 4)) if 0 <= x <= 1] + [0.0, 0.1, 0.9, 1.0]


@pytest.mark.parametrize(("m", "s"), PLACES)
def test_the_cdf_equals_mpmath(m, s):
    pieces = TruncatedNormal(np.array([m]), np.array([s]))
    for x in spread(m, s):
        slack = 1e-12 + 4e-16 / oracle_moments(m, s)[1]  # what rounding x itself does to the cdf
        assert pieces.cdf(x)[0] == pytest.approx(oracle_cdf(m, s, x), abs=slack)


def test_the_quantile_inverts_the_cdf():
    m, s = np.array(PLACES).T
    pieces = TruncatedNormal(m, s)
    _, sd = moments(m, s)
    for p in (1e-9, 1e-3, 0.05, 0.5, 0.9, 0.999, 1 - 1e-9):
        x = pieces.quantile(p)
        back = np.array([row.cdf(at)[0] for row, at in zip(rows(m, s), x, strict=True)])
        assert (np.abs(back - p) <= 1e-11 + 4e-16 / sd).all()


def rows(m, s):
    return [TruncatedNormal(m[i : i + 1], s[i : i + 1]) for i in range(len(m))]


def test_quantiles_end_at_the_bounds_and_never_fall():
    m, s = np.array(EXTREME).T
    p = np.array([0, 1e-300, 1e-12, 0.1, 0.5, 0.9, 1 - 1e-12, 1])[:, None]
    x = TruncatedNormal(m, s).quantile(p)
    assert np.isfinite(x).all()
    assert (x[0] == 0).all()
    assert (x[-1] == 1).all()
    assert (np.diff(x, axis=0) >= -1e-15).all()
    assert ((x >= 0) & (x <= 1)).all()


def test_the_cdf_rises_from_zero_to_one_for_every_extreme():
    m, s = np.array(EXTREME).T
    pieces = TruncatedNormal(m, s)
    shares = np.stack([pieces.cdf(x) for x in (-0.1, 0.0, 1e-9, 0.1, 0.5, 0.9, 1.0, 1.1)])
    assert (shares[0] == 0).all()
    assert (shares[-2:] == 1).all()
    assert (np.diff(shares, axis=0) >= -1e-12).all()


def test_a_point_steps_at_its_clipped_location():
    pieces = TruncatedNormal(np.array([-1.0, 0.3, 2.0]), np.zeros(3))
    assert pieces.cdf(0.3).tolist() == [1, 1, 0]
    assert pieces.cdf(np.nextafter(0.3, 0)).tolist() == [1, 0, 0]
    assert pieces.quantile(0.7).tolist() == [0, 0.3, 1]


def test_sampled_quantiles_have_the_moments():
    m, s = np.array(PLACES).T
    p = (np.arange(20_000) + 0.5)[:, None] / 20_000
    x = TruncatedNormal(m, s).quantile(p)
    mean, sd = moments(m, s)
    assert (np.abs(x.mean(0) - mean) <= 1e-3 * sd + 1e-15).all()
    np.testing.assert_allclose(x.std(0)[sd > 1e-8], sd[sd > 1e-8], rtol=5e-3)


def test_the_location_behind_a_mean_gives_that_mean():
    ends = np.array([1e-9, 1e-6, 1e-3])
    mean = np.concatenate([ends, np.linspace(0.01, 0.99, 33), 1 - ends])
    for s in [0.0, *10.0 ** np.arange(-12.0, 7.0)]:
        back, _ = moments(location_for_mean(mean, s), s)
        np.testing.assert_allclose(back, mean, rtol=1e-10, atol=1e-15)


def test_means_at_and_beyond_the_ends_saturate():
    location = location_for_mean([0.0, -1.0, 1e-9, 1.0, 2.0, 1 - 1e-9], 0.3)
    assert np.isfinite(location).all()
    assert location[0] == location[1] == location[2]
    assert location[3] == location[4] == pytest.approx(location[5], rel=1e-6)
    assert location_for_mean(0.5, 0.3) == 0.5
