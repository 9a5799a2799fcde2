"""The compiled step against the one in NumPy."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opcal.core import step
from opcal.core.gp import Kernel, PoolGP

needs_compiler = pytest.mark.skipif(step.compiled() is None, reason="step.c was not compiled: no C compiler here")


@pytest.mark.skipif(
    shutil.which(os.environ.get("CC", "cc")) is None or os.environ.get("OPCAL_COMPILED") == "0",
    reason="no C compiler here, or told to do without",
)
def test_where_there_is_a_compiler_the_installation_has_compiled_the_step():
    assert step.compiled() is not None


def posterior(monkeypatch: pytest.MonkeyPatch, compiled: bool, x: np.ndarray) -> PoolGP:
    with monkeypatch.context() as patch:
        if not compiled:
            patch.setattr(step, "compiled", lambda: None)
        return PoolGP(x, np.einsum("ij,ij->i", x, x), Kernel(0.8, 2.0, 0.1))


@needs_compiler
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-12)])
def test_compiled_and_numpy_posteriors_agree_over_several_blocks(monkeypatch, dtype, tolerance):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 6)).astype(dtype)
    pair = [posterior(monkeypatch, compiled, x) for compiled in (True, False)]
    at = rng.permutation(300)[:200]
    for gp in pair:
        gp.begin(Kernel(0.8, 2.0, 0.1), at[:20], np.full(20, 0.3), np.ones(20))
    for j, y, weight in zip(at[20:].tolist(), rng.uniform(-1, 1, 180), rng.uniform(0.1, 1, 180), strict=True):
        for gp in pair:
            gp.add(j, float(y), float(weight))
    np.testing.assert_allclose(pair[0].mean, pair[1].mean, atol=tolerance)
    np.testing.assert_allclose(pair[0].variance, pair[1].variance, atol=tolerance)
    assert len(pair[0].blocks) > 2


def best(monkeypatch: pytest.MonkeyPatch, compiled: bool, *arrays: np.ndarray) -> tuple[np.ndarray, int]:
    with monkeypatch.context() as patch:
        if not compiled:
            patch.setattr(step, "compiled", lambda: None)
        score, row = step.finder(*arrays, 0.9)(True)
    return score.copy(), row


@needs_compiler
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.3, 3.0, 30.0, 1e-200]), st.floats(0, 1))
def test_compiled_and_numpy_choose_the_same_item(seed, spread, share):
    monkeypatch = pytest.MonkeyPatch()
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(0, spread, 50), rng.uniform(0, spread, 50) ** 2
    arrays = mean, variance, rng.uniform(0, 1, 50), rng.random(50) < share
    (fast, i), (slow, j) = (best(monkeypatch, compiled, *arrays) for compiled in (True, False))
    np.testing.assert_allclose(fast, slow, rtol=1e-7)
    assert i == j


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=needs_compiler), False])
@pytest.mark.parametrize("bad", [np.nan, 0.0])
def test_taken_items_and_unknown_scores_never_win(monkeypatch, compiled, bad):
    mean, variance = np.zeros(4), np.array([0.2, bad, 0.5, 0.2])
    taken = np.array([True, False, False, False])
    with np.errstate(all="ignore"):
        _, row = best(monkeypatch, compiled, mean, variance, np.full(4, 0.7), taken)
    assert row in (2, 3)


def test_an_environment_variable_does_without_the_compiled_functions(monkeypatch):
    step.compiled.cache_clear()
    monkeypatch.setenv("OPCAL_COMPILED", "0")
    try:
        assert step.compiled() is None
    finally:
        step.compiled.cache_clear()
