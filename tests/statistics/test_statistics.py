"""The statistics keep their promises over many runs (`make statistics`; OPCAL_RUNS sets the count)."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import (
    BY_CHANCE,
    RUNS,
    TASKS,
    certificate,
    chance_if_it_saved,
    covered,
    runs,
    saving,
    sequence_misses,
    slack,
)

pytestmark = pytest.mark.slow
EVERY = [(task, n) for task in (*TASKS, "synthetic") for n in (30, 60, 180)]


@pytest.mark.parametrize(("task", "n"), EVERY)
def test_asymptotic_intervals_cover_93_to_98_percent_and_exact_ones_95(shared, task, n):
    found = runs(shared, task, n, 1.0, RUNS)
    asymptotic, exact = covered(found, 2, 3), covered(found, 5, 6)
    print(f"COVER {task} {n} asymptotic {asymptotic:.3f} exact {exact:.3f} saving {saving(found):.2f}")
    assert 0.93 - slack(0.95) <= asymptotic <= 0.98 + slack(0.95)
    assert exact >= 0.95 - slack(0.95)


@pytest.mark.parametrize(("task", "n"), EVERY)
def test_predictions_save_labels_and_never_cost_any(shared, task, n):
    least = 1.4 if task.startswith("t1") and n >= 60 else 0.95
    found = runs(shared, task, n, 1.0, RUNS)
    chance = chance_if_it_saved(found, least)
    print(f"SAVING {task} {n} {saving(found):.2f}, promised {least}, chance {chance:.4f}")
    assert chance >= BY_CHANCE


@pytest.mark.parametrize("task", [*TASKS, "synthetic"])
def test_with_the_default_audit_it_is_never_worse_than_the_audit_labels_alone(shared, task):
    found = runs(shared, task, 120, 0.25, max(RUNS // 3, 20))
    chance = chance_if_it_saved(found, 1.0)
    print(f"DEFAULT {task} saving {saving(found):.2f} chance {chance:.4f} cover {covered(found, 2, 3):.3f}")
    assert chance >= BY_CHANCE
    assert covered(found, 2, 3) >= 0.93 - 0.03 - slack(0.95, max(RUNS // 3, 20))


def test_the_plain_mean_of_chosen_items_is_off_by_ten_points_on_digits(shared):
    found = _chosen(shared)
    print(f"NAIVE {found:.3f}")
    assert found >= 0.10


def _chosen(shared) -> float:
    from simulation import half, labelled

    off = []
    for seed in range(10):
        pool, y = half(shared, "t1_mnist_usps", seed)
        cal = labelled(pool, y, 90, seed, 0.0)
        off.append(np.mean(pool.predicted == y) - cal.answers_.correct.mean())
    return float(np.mean(off))


@pytest.mark.parametrize("task", ["t1_mnist_usps", "t8_pneumonia"])
def test_the_confidence_sequence_loses_the_truth_in_at_most_5_percent_of_runs(shared, task):
    missed = np.mean([sequence_misses(shared, task, 150, seed) for seed in range(RUNS)])
    print(f"SEQUENCE {task} {missed:.3f}")
    assert missed <= 0.05 + slack(0.05)


@pytest.mark.parametrize(("learn", "fresh"), [(120, 60), (100, 80)])
def test_digits_are_certified_with_180_labels(shared, learn, fresh):
    found = np.array([certificate(shared, seed, learn, fresh) for seed in range(RUNS)], float)
    certified, coverage, violated = found.mean(0)
    print(f"CERTIFY {learn}+{fresh} certified {certified:.3f} coverage {coverage:.3f} violated {violated:.3f}")
    assert certified >= 0.9 - slack(0.9)
    assert found[found[:, 0] == 1, 1].mean() >= 0.40
    assert violated <= 0.1 + slack(0.1)
