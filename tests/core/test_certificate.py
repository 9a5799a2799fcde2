"""Certificates: one exact test, honest further looks, nested regions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from opcal.core.certificate import (
    Broken,
    Looks,
    Nested,
    error_bound,
    gain_bound,
    largest_prefix,
    most_false,
    steps,
)


@pytest.mark.parametrize("n", [21, 22, 40, 60, 100])
def test_one_look_at_the_field_is_clopper_pearsons_test(n):
    for wrong in range(8):
        passes = Looks(Broken(0.1), 0.1).look(n, wrong)
        assert passes == (binom.cdf(wrong, n, 0.1) <= 0.1)
        assert passes == (error_bound(wrong, n, 0.1) <= 0.1 + 1e-12)


def test_one_look_at_a_pool_is_the_hypergeometric_test():
    for wrong in range(8):
        passes = Looks(Broken(0.1, 200, 21), 0.1).look(60, wrong)
        assert passes == (hypergeom.cdf(wrong, 200, 21, 60) <= 0.1)


@pytest.mark.parametrize("broken", [Broken(0.1), Broken(0.1, 150, 16)])
def test_looking_after_every_ten_labels_promises_wrongly_in_at_most_delta(broken):
    looks = Looks(broken, 0.1)
    for n in range(10, 150, 10):
        looks.look(n, n)
        assert looks.spent <= 0.1 + 1e-9
    passed = 0
    rng, allowed, looks = np.random.default_rng(0), [], Looks(broken, 0.1)
    for n in range(20, 150, 20):
        allowed.append((n, looks.allowed(n)))
        looks.look(n, n)
    for _ in range(5000):
        false = rng.random(150) < 0.1001 if broken.size is None else rng.permutation(150) < broken.total
        passed += any(false[:n].sum() <= most for n, most in allowed)
    assert passed / 5000 <= looks.spent + 3 * np.sqrt(0.09 / 5000)


def test_more_labels_can_still_certify_after_a_failed_look():
    looks = Looks(Broken(0.1), 0.1)
    assert not looks.look(40, 2)
    assert looks.look(140, 4)


def test_looking_twice_at_the_same_labels_spends_nothing_and_a_yes_stands():
    looks = Looks(Broken(0.1), 0.1)
    looks.look(30, 1)
    spent = looks.spent
    assert not looks.look(30, 0)
    assert looks.spent == spent
    assert looks.look(120, 1)
    assert looks.look(121, 100)


def test_what_is_known_already_can_make_the_promise_hopeless_or_certain():
    assert not Looks(Broken(0.1, 50, 0), 0.1).look(50, 0)
    assert Looks(Broken(0.1, 5, 6), 0.1).look(0, 0)


def test_the_most_false_ones_are_those_that_the_draw_does_not_contradict():
    kept = [t for t in range(2, 101) if hypergeom.cdf(2, 100, t, 30) > 0.1 and t <= 100 - 28]
    assert most_false(2, 30, 100, 0.1) == kept[-1]


def nested(confidence, known=None, wrong=None):
    n = len(confidence)
    fresh = np.ones(n, int) if known is None else 1 - known
    loss = 1 - confidence
    every = np.cumsum(loss) / np.arange(1, n + 1)
    counts = np.cumsum(fresh)
    error = np.cumsum(loss * fresh) / np.maximum(counts, 1)
    return Nested(error, every, counts, np.cumsum(np.zeros(n, int) if wrong is None else wrong))


def test_steps_grow_and_the_widest_expects_at_most_half_the_error():
    found = nested(1 - 0.3 * np.linspace(0, 1, 900) ** 3)
    sizes = steps(found, 0.1, 0.1, 80, of_pool=True)
    assert len(sizes) > 1
    assert list(sizes) == sorted(sizes)
    assert found.every[sizes[-1] - 1] <= 0.05


def test_more_labels_allow_wider_regions():
    found = nested(np.linspace(1, 0.3, 900))
    widest = [steps(found, 0.1, 0.1, n, of_pool=True)[-1] for n in (40, 80, 200)]
    assert widest == sorted(widest)
    assert widest[0] < widest[-1]


def test_no_region_where_nothing_is_sure():
    assert steps(nested(np.full(100, 0.5)), 0.1, 0.1, 60, of_pool=True) == ()
    assert largest_prefix(np.array([0.2, 0.3]), 0.1) == 0


def test_a_chain_of_regions_just_broken_is_passed_in_at_most_delta():
    """Everything errs a little more than ε whatever the confidence says: any certificate is a violation."""
    confidence = np.linspace(1, 0.97, 300)
    sizes = steps(nested(confidence), 0.1, 0.1, 60, of_pool=True)
    violated = 0
    for seed in range(600):
        rng = np.random.default_rng(seed)
        false = rng.permutation(300) < 34
        drawn = rng.permutation(sizes[-1])[:60]
        for m in sizes:
            total = int(np.floor(0.1 * m + 1e-9)) + 1
            inside = drawn[drawn < m]
            if not Looks(Broken(0.1, m, total), 0.1).look(len(inside), int(false[inside].sum())):
                break
            if false[:m].sum() >= total:
                violated += 1
                break
    assert violated <= 60


def test_gains_are_bounded_below_and_a_sure_gain_needs_no_label():
    rng = np.random.default_rng(0)
    gains = np.where(rng.random(80) < 0.95, 1.0, -4.0)
    found = gain_bound(gains, -4, 1, 400, 0.1, 0.2)
    assert found.passed
    assert 0.2 <= found.at_least < gains.mean()
    assert not gain_bound(gains, -4, 1, 400, 0.1, 0.9).passed
    assert gain_bound(np.empty(0), 2, 2, 10, 0.1, 1).passed
