"""Recovering the last layer: only where it is really one."""

from __future__ import annotations

import numpy as np
import pytest

from opcal.core.head import head_of, recover_head
from opcal.core.method import Head, Outputs


def outputs(n=400, d=20, k=5, bend=0.0, seed=0):
    rng = np.random.default_rng(seed)
    z, w, b = np.maximum(rng.standard_normal((n, d)), 0), rng.standard_normal((k, d)), rng.standard_normal(k)
    h = z @ w.T + b
    h += bend * np.sin(3 * h)
    return Outputs(z, np.ones(n), h.argmax(1), h), w, b


def centred(x):
    return x - x.mean(0)


def test_a_linear_head_is_recovered_up_to_what_softmax_cannot_see():
    pool, w, b = outputs()
    head = recover_head(pool, np.random.default_rng(0))
    np.testing.assert_allclose(head.weight, centred(w), atol=1e-9)
    np.testing.assert_allclose(head.bias, centred(b), atol=1e-9)


def test_log_probabilities_give_the_same_head_as_logits():
    pool, w, _ = outputs()
    log_p = pool.logits - np.log(np.exp(pool.logits).sum(1, keepdims=True))
    found = recover_head(Outputs(pool.features, pool.confidence, pool.predicted, log_p), np.random.default_rng(0))
    np.testing.assert_allclose(found.weight, centred(w), atol=1e-9)


def test_half_precision_features_still_confirm_the_head():
    pool, w, _ = outputs()
    narrow = Outputs(pool.features.astype(np.float16), pool.confidence, pool.predicted, pool.logits)
    np.testing.assert_allclose(recover_head(narrow, np.random.default_rng(0)).weight, centred(w), atol=0.01)


def test_another_layers_features_are_not_taken_for_the_heads():
    pool, _, _ = outputs(bend=0.2)
    assert recover_head(pool, np.random.default_rng(0)) is None


@pytest.mark.parametrize("n", [1, 20, 40])
def test_too_few_rows_recover_nothing(n):
    pool, _, _ = outputs(n=n)
    assert recover_head(pool, np.random.default_rng(0)) is None


def test_dead_features_do_not_hinder():
    pool, w, _ = outputs()
    pool.features[:, 3] = 0
    pool.features[:, 4] = pool.features[:, 5]
    h = pool.features @ w.T
    found = recover_head(Outputs(pool.features, pool.confidence, pool.predicted, h), np.random.default_rng(0))
    np.testing.assert_allclose(pool.features @ found.weight.T, h - h.mean(1, keepdims=True), atol=1e-8)


def test_a_given_head_is_not_searched_for():
    pool, _, _ = outputs(n=3)
    head = Head(np.ones((5, 20)), np.zeros(5))
    assert (
        head_of(Outputs(pool.features, pool.confidence, pool.predicted, pool.logits, head), np.random.default_rng(0))
        is head
    )
