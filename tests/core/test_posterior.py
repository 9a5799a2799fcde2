"""The posterior's own promises, for marginals of both kinds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from opcal.core.posterior import Beta, Posterior
from opcal.core.truncnorm import TruncatedNormal, moments
from opcal.errors import InvalidInput, UnknownOption

MEAN, SD = np.array([0.2, 0.5, 0.9, 0.99, 0.7]), np.array([0.1, 0.28, 0.05, 0.02, 0.0])


def independent(mean, sd, marginal):
    return Posterior(mean, sd, marginal, lambda n, rng: rng.standard_normal((n, len(mean))))


def beta():
    return independent(MEAN, SD, Beta(MEAN, SD))


def truncated():
    location, scale = np.array([-0.3, 0.5, 1.4, 0.8]), np.array([0.4, 1.0, 0.3, 0.0])
    return independent(*moments(location, scale), TruncatedNormal(location, scale))


@pytest.mark.parametrize("posterior", [beta(), truncated()], ids=["beta", "truncated"])
def test_draws_have_the_mean_and_sd_that_are_told(posterior):
    draws = posterior.sample(20_000, random_state=1)
    np.testing.assert_allclose(draws.mean(0), posterior.mean, atol=0.01)
    np.testing.assert_allclose(draws.std(0), posterior.sd, atol=0.01)


@pytest.mark.parametrize("posterior", [beta(), truncated()], ids=["beta", "truncated"])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_hold_their_share_of_the_draws(posterior, level):
    draws = posterior.sample(20_000, random_state=2)
    low, high = posterior.interval(level)
    np.testing.assert_allclose(((draws >= low) & (draws <= high)).mean(0)[:3], level, atol=0.015)
    assert (low <= high).all()


@pytest.mark.parametrize("posterior", [beta(), truncated()], ids=["beta", "truncated"])
def test_above_counts_the_threshold_itself_and_falls_with_it(posterior):
    draws = posterior.sample(20_000, random_state=3)
    for threshold in (0.3, 0.7, 0.8):
        np.testing.assert_allclose(posterior.above(threshold), (draws >= threshold).mean(0), atol=0.015)
    np.testing.assert_array_equal(posterior.above(0.0), 1.0)
    assert posterior.above(0.99)[0] <= posterior.above(0.01)[0]


def test_a_point_is_above_its_own_value():
    assert beta().above(0.7)[4] == 1.0
    assert beta().above(0.71)[4] == 0.0


def test_beta_shapes_are_those_of_the_moments():
    a, b = Beta(MEAN[:3], SD[:3]).shapes
    np.testing.assert_allclose(stats.beta(a, b).mean(), MEAN[:3])
    np.testing.assert_allclose(stats.beta(a, b).std(), SD[:3])


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e-12, 1 - 1e-12])
@pytest.mark.parametrize("sd", [0.0, 1e-9, 0.3])
def test_means_at_the_ends_stay_finite_and_inside(mean, sd):
    mean, sd = np.array([mean]), np.array([sd])
    posterior = independent(mean, sd, Beta(mean, sd))
    for values in (*posterior.interval(), posterior.above(0.5), posterior.sample(50)):
        assert np.isfinite(values).all()
        assert ((values >= 0) & (values <= 1)).all()


def test_the_same_seed_draws_the_same():
    np.testing.assert_array_equal(beta().sample(5, random_state=4), beta().sample(5, random_state=4))
    assert (beta().sample(5, random_state=4) != beta().sample(5, random_state=5)).any()


@pytest.mark.parametrize("level", [90, -0.1, 1.0, float("nan"), "a"])
def test_an_interval_of_no_level_is_refused(level):
    with pytest.raises(InvalidInput, match="level"):
        beta().interval(level)


@pytest.mark.parametrize("threshold", [2, -0.1, float("nan")])
def test_a_threshold_outside_0_1_is_refused(threshold):
    with pytest.raises(InvalidInput, match="threshold"):
        beta().above(threshold)


def test_draws_that_cannot_be_made_are_refused():
    for n in (-1, 2.5):
        with pytest.raises(InvalidInput, match="n is"):
            beta().sample(n)
    with pytest.raises(UnknownOption, match="random_state"):
        beta().sample(3, random_state=-1)
