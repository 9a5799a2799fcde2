"""Costs by class, and the best assignment of items to actions, against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from opcal.core.cost_matrix import NEVER, Action, CostMatrix, others_by_softmax, with_accuracy
from opcal.core.costs import Costs
from opcal.core.decide import decide, gain_curve
from opcal.errors import InvalidInput


def brute(values, capacities):
    """The greatest total over all assignments that keep the capacities."""
    n, actions = values.shape
    best = -np.inf
    for chosen in product(range(actions), repeat=n):
        counts = np.bincount(chosen, minlength=actions)
        if all(c is None or k <= c for k, c in zip(counts, capacities, strict=True)):
            best = max(best, values[np.arange(n), list(chosen)].sum())
    return best


@pytest.mark.parametrize("capacities", [(None, None, None), (None, 2, None), (1, 2, None), (2, 2, 2), (0, 1, None)])
@pytest.mark.parametrize("seed", range(4))
def test_the_assignment_is_the_best_of_all_and_keeps_the_capacities(capacities, seed):
    values = np.random.default_rng(seed).normal(size=(6, 3))
    chosen = decide(values, capacities)
    counts = np.bincount(chosen, minlength=3)
    assert all(c is None or k <= c for k, c in zip(counts, capacities, strict=True))
    assert values[np.arange(6), chosen].sum() == pytest.approx(brute(values, capacities))


def test_fifty_cases_a_day_go_to_the_radiologist_and_they_are_the_best_fifty():
    conf = np.random.default_rng(0).random(400)
    costs = CostMatrix.scalar(9, 2)
    person = Action("person", np.full((2, 3), 0.5), 50)
    matrix = CostMatrix(costs.act, (person, *costs.others))
    values = matrix.values(conf, np.zeros(400, int))
    chosen = decide(values, matrix.capacities)
    assert (chosen == 1).sum() == 50
    advantage = values[:, 1] - values[:, [0, 2]].max(1)
    assert advantage[chosen == 1].min() >= advantage[chosen != 1].max()


def test_capacities_that_cannot_take_all_items_are_refused():
    with pytest.raises(InvalidInput, match="take 3 of 5"):
        decide(np.zeros((5, 2)), (1, 2))
    with pytest.raises(InvalidInput, match="negative"):
        decide(np.zeros((5, 2)), (None, -2))


@pytest.mark.parametrize("u", [0.0, 0.5, 1, 9, 99])
def test_scalar_costs_are_u_and_lambda(u):
    matrix, c = CostMatrix.scalar(u, 3), np.linspace(0, 1, 101)
    np.testing.assert_allclose(matrix.thresholds(), Costs(u).threshold)
    values = matrix.values(c, np.zeros(101, int))
    np.testing.assert_allclose(values[:, 0], Costs(u).expected_gain(c))
    np.testing.assert_array_equal(decide(values, matrix.capacities) == 0, values[:, 0] >= 0)


def test_a_dear_mistake_raises_the_threshold_of_that_prediction_alone():
    act = np.array([[1.0, -1, -1], [-9, 1, -9]])
    matrix = CostMatrix(act, (Action("reject", np.zeros((2, 3))),))
    np.testing.assert_allclose(matrix.thresholds(), [0.5, 0.9])
    assert matrix.threshold == pytest.approx(0.7)


def test_where_the_person_is_always_better_acting_never_pays():
    act = CostMatrix.scalar(1, 2).act
    matrix = CostMatrix(act, (Action("person", np.full((2, 3), 2.0)),))
    np.testing.assert_array_equal(matrix.thresholds(), NEVER)


def test_thresholds_are_where_acting_begins_to_win_on_a_fine_grid():
    rng = np.random.default_rng(3)
    for _ in range(20):
        act = -rng.random((3, 4)) * 5
        act[np.arange(3), np.arange(3)] = rng.random(3) + 1
        matrix = CostMatrix(act, (Action("a", rng.normal(size=(3, 4))), Action("b", np.zeros((3, 4)))))
        grid = np.linspace(0, 1, 2001)
        for k, threshold in enumerate(matrix.thresholds()):
            values = matrix.values(grid, np.full(2001, k))
            wins = values[:, 0] >= values[:, 1:].max(1) - 1e-9
            begins = grid[wins][0] if wins[-1] else NEVER
            assert threshold == pytest.approx(begins, abs=1e-3)


def test_the_expected_gain_is_the_mean_over_the_true_classes():
    rng = np.random.default_rng(4)
    h, act = rng.normal(size=(5, 3)), rng.normal(size=(3, 4))
    predicted = h.argmax(1)
    matrix = CostMatrix(act, (Action("reject", np.zeros((3, 4))),))
    c, wrong = rng.random(5), others_by_softmax(h, predicted)
    assert wrong.sum(1) == pytest.approx(1)
    p = (1 - c)[:, None] * wrong
    p[np.arange(5), predicted] = c
    expected = [p[i] @ act[predicted[i], :3] for i in range(5)]
    np.testing.assert_allclose(matrix.values(c, predicted, wrong)[:, 0], expected)


def test_regret_is_never_negative_and_none_with_perfect_confidence():
    rng = np.random.default_rng(5)
    predicted, labels = rng.integers(0, 3, 50), rng.integers(-1, 3, 50)
    matrix = CostMatrix.scalar(4, 3)
    perfect = matrix.perfect(predicted, labels)
    for action in (0, 1):
        assert (perfect - matrix.realised(np.full(50, action), predicted, labels) >= 0).all()
    knows = np.where(predicted == labels, 0, 1)
    np.testing.assert_allclose(matrix.realised(knows, predicted, labels), perfect)


def test_a_person_who_is_right_by_chance_brings_the_mean_of_both():
    right, wrong = np.array([1.0, 2.0]), np.array([[0, -4.0, -4], [-8.0, 0, -8]])
    gain = with_accuracy(right, wrong, accuracy=0.75, cost=0.5)
    np.testing.assert_allclose(gain[0], [0.75 * 1 - 0.25 * 8 - 0.5, 0.75 * 2 - 0.25 * 4 - 0.5, -0.25 * 6 - 0.5])


def test_the_gain_curve_is_best_where_acting_stops_to_pay():
    c = np.linspace(0, 1, 200)
    values = CostMatrix.scalar(3, 2).values(c, np.zeros(200, int))
    curve = gain_curve(values, c)
    assert curve.best == (c >= 0.75).sum()
    assert curve.expected[0] == 0
    assert curve.expected[-1] == pytest.approx(values[:, 0].mean())
    assert (curve.regret >= -1e-12).all()
