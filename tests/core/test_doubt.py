"""What all confidences may have wrong together, averaged out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from opcal.core.doubt import PRIOR, Doubt, doubted, features


def answers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.01, 0.999, n)


def test_it_is_the_mean_over_draws_of_offset_slope_and_bend():
    doubt = doubted(answers(30), np.ones(30))
    p = np.array([0.05, 0.4, 0.7, 0.95, 0.999])
    w = np.random.default_rng(1).standard_normal((400_000, 3)) @ doubt.root.T
    drawn = expit(logit(p) + w @ features(logit(p)).T)
    np.testing.assert_allclose(doubt(p)[:4], drawn.mean(0)[:4], atol=0.004)
    assert drawn.mean(0)[4] - 0.01 < doubt(p)[4] < drawn.mean(0)[4]  # the approximation doubts the surest more


def test_the_posterior_is_that_of_bayesian_linear_algebra():
    p, weight = answers(20), np.random.default_rng(2).uniform(0.1, 1, 20)
    phi = features(logit(p))
    precision = np.diag(1 / np.square(PRIOR)) + sum(
        w * q * (1 - q) * np.outer(f, f) for f, q, w in zip(phi, p, weight, strict=True)
    )
    root = doubted(p, weight).root
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-10)


@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_the_order_of_items_never_changes_and_nothing_moves_away_from_a_half(n):
    p = np.concatenate([[0.0], expit(np.linspace(-20, 20, 4001)), [1.0]])
    humbler = doubted(answers(n), np.ones(n))(p)
    assert (np.diff(humbler) >= 0).all()
    assert (np.abs(humbler - 0.5) <= np.abs(p - 0.5) + 1e-12).all()
    assert ((humbler >= 0) & (humbler <= 1)).all()


def test_more_answers_leave_less_doubt():
    p = np.array([0.9, 0.99, 0.9999])
    few, many = (doubted(answers(n), np.ones(n))(p) for n in (10, 1000))
    assert (few < many).all()
    np.testing.assert_allclose(doubted(answers(10**6), np.ones(10**6))(p), p, atol=1e-3)


def test_without_doubt_nothing_changes():
    p = answers(50)
    np.testing.assert_allclose(Doubt(np.zeros((3, 3)))(p), p, rtol=1e-12)
