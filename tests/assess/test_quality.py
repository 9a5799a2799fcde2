"""Quality of the confidence, before and after, on random items alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal.assess import quality
from opcal.core import quality as core
from opcal.errors import NotEnoughLabels

CASE = make_case(n=300, seed=3)


def calibrated(n, audit=1.0):
    cal = opcal.OperationalCalibrator(audit=audit).begin(CASE.pool, budget=n)
    while len(i := cal.ask(20)):
        cal.tell(i, labels=CASE.labels[i])
    return cal


def test_too_few_labels_give_no_figure_at_all():
    found = quality(calibrated(12))
    assert not found.enough
    assert all(f.value is None and f.lower is None for f in (*found.before.values(), *found.after.values()))
    with pytest.raises(NotEnoughLabels):
        quality(calibrated(12, audit=0))


def test_every_interval_holds_its_value_and_calibration_helps():
    found = quality(calibrated(90))
    for figures in (found.before, found.after):
        assert all(f.lower <= f.value <= f.upper for f in figures.values())
    assert found.after["brier"].value < found.before["brier"].value
    assert found.act_on_nothing is not None
    json.dumps(found.as_dict())


def test_the_brier_scores_interval_holds_the_pools_in_most_runs():
    rng = np.random.default_rng(0)
    c = rng.beta(3, 1, 1000)
    right = rng.random(1000) < c**1.5
    truth, held = np.mean((c - right) ** 2), 0
    for seed in range(200):
        at = np.random.default_rng(seed).permutation(1000)[:40]
        f = core.brier(c[at], right[at], at, c.copy(), 0.95)
        held += f.lower <= truth <= f.upper
    assert held >= 180


def test_lce_is_scaled_back_to_its_own_units():
    rng = np.random.default_rng(1)
    c = rng.random(400)
    right = rng.random(400) < c
    at = np.arange(400)
    found = core.lce(c, right, at, c.copy(), 0.9, 0.95)
    assert found.value == pytest.approx(opcal.metrics.lce(c, right, 0.9), rel=0.05)
    assert found.upper - found.lower < 0.02


def test_an_honest_confidence_looks_as_bad_as_luck_makes_it():
    rng = np.random.default_rng(2)
    c = rng.random(60)
    right = rng.random(60) < c
    found = core.quality(c, right, np.arange(60), c.copy(), 0.9, 0.95)
    assert 0.5 < found["ece"].value / found["ece"].honest < 2
