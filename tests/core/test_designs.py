"""Which items are chosen: the paper's selection against plain refitting, and what holds for every design."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_case
from oracle.paper_reference import next_item, scores

import opcal
from opcal.methods import Paper

DATA = [
    make_case(n=320, d=4, seed=11),
    make_case(n=300, d=30, seed=12, groups=12),
    make_case(n=280, d=2, classes=2, seed=13, groups=3),
    make_case(n=400, d=10, seed=14, groups=1),
    make_case(n=260, d=16, classes=7, seed=15, groups=25),
]


def ask_one_by_one(calibrator, case, n):
    chosen = []
    for _ in range(n):
        i = calibrator.ask(1)
        calibrator.tell(i, labels=case.labels[i])
        chosen.append(int(i[0]))
    return chosen


@pytest.mark.parametrize("hyperparameters", ["fixed", "likelihood"])
@pytest.mark.parametrize("case", DATA, ids=range(5))
def test_the_papers_choice_equals_refitting_everything_for_200_labels(case, hyperparameters):
    calibrator = opcal.OperationalCalibrator(Paper(hyperparameters), "paper", audit=0, threshold=0.8).begin(case.pool)
    learner, c = calibrator.learner_, case.pool.confidence
    n_medoids = learner.n_clusters
    chosen = ask_one_by_one(calibrator, case, n_medoids)
    assert chosen == learner.clustering.medoids.tolist()
    residuals = (case.pool.predicted == case.labels) - c
    for _ in range(200 - n_medoids):
        kernels = learner.kernels(len(chosen))
        score = scores(case.features, c, learner.members, chosen, residuals, kernels, 0.8)
        i = calibrator.ask(1)
        calibrator.tell(i, labels=case.labels[i])
        assert int(i[0]) == next_item(score, chosen)
        chosen.append(int(i[0]))


@pytest.mark.parametrize("calls", [[1] * 60, [60], [7] * 8 + [4], [30, 1, 29]])
def test_the_papers_next_item_does_not_depend_on_how_answers_came(calls):
    case = make_case(n=300, seed=5)
    at = np.random.default_rng(0).permutation(300)[:60]
    calibrator = opcal.OperationalCalibrator("paper", audit=0).begin(case.pool)
    for part in np.split(at, np.cumsum(calls)[:-1]):
        calibrator.tell(part, labels=case.labels[part])
        calibrator.ask(0)
    reference = opcal.OperationalCalibrator("paper", audit=0).fit(case.pool, at, labels=case.labels[at])
    np.testing.assert_array_equal(calibrator.ask(20), reference.ask(20))


def test_a_batch_holds_more_distinct_points_than_the_best_scores_of_one_moment():
    once = make_case(n=120, d=3, seed=8)
    case = type(once)(*(np.repeat(a, 5, axis=0) for a in (once.features, once.logits, once.labels)))
    calibrator = opcal.OperationalCalibrator("paper", audit=0, threshold=0.8).begin(case.pool)
    ask_one_by_one(calibrator, case, 40)
    chooser = calibrator._chooser()
    chooser.tell(calibrator.answers_)
    chooser._follow()
    score = np.empty(len(case.labels))
    for c, members in enumerate(chooser.rows.members):
        score[members] = chooser._scored(c)[0]
    crowd, batch = np.argsort(score, kind="stable")[:10], calibrator.ask(10)
    assert len(np.unique(batch // 5)) > len(np.unique(crowd // 5))


def test_a_batch_of_one_is_the_first_of_a_larger_batch():
    case = make_case(n=300)
    one, many = (opcal.OperationalCalibrator("paper", audit=0).begin(case.pool) for _ in range(2))
    for calibrator in (one, many):
        i = calibrator.ask(30)
        calibrator.tell(i, labels=case.labels[i])
    assert one.ask(1)[0] == many.ask(15)[0]


def test_an_unanswered_batch_leaves_the_posterior_as_it_was():
    case = make_case(n=300)
    waiting, twin = (opcal.OperationalCalibrator("paper", audit=0).begin(case.pool) for _ in range(2))
    for calibrator in (waiting, twin):
        i = calibrator.ask(30)
        calibrator.tell(i, labels=case.labels[i])
    waiting.ask(25)
    np.testing.assert_array_equal(waiting.confidence(case.pool), twin.confidence(case.pool))
    chooser, other = waiting._chooser(), twin._chooser()
    other.tell(twin.answers_)
    other.choose(1, np.empty(0, np.intp))
    for p, q in zip(chooser.posteriors, other.posteriors, strict=True):
        np.testing.assert_array_equal(p.variance, q.variance)


@pytest.mark.parametrize("design", ["paper", "kmeans", "random"])
@pytest.mark.parametrize("budget", [None, 37])
def test_no_design_asks_an_item_twice_and_all_reach_the_end(design, budget):
    case = make_case(n=90)
    calibrator = opcal.OperationalCalibrator("paper", design).begin(case.pool, budget=budget)
    asked = []
    while len(i := calibrator.ask(7)):
        asked += i.tolist()
        calibrator.tell(i[:4], labels=case.labels[i[:4]])
    assert len(asked) == (budget or 90)
    assert len(set(asked)) == len(asked)


def test_k_means_with_a_budget_asks_the_medoids_of_that_many_clusters():
    case = make_case(n=400, groups=8, d=10)
    calibrator = opcal.OperationalCalibrator("paper", "kmeans", audit=0).begin(case.pool, budget=8)
    at = np.linalg.norm(case.features[:, None] - case.features[calibrator.ask(8)], axis=2).min(1)
    random = np.random.default_rng(0).permutation(400)[:8]
    assert at.sum() < 0.8 * np.linalg.norm(case.features[:, None] - case.features[random], axis=2).min(1).sum()


@pytest.mark.parametrize("design", ["kmeans", "random"])
def test_other_designs_work_beside_the_papers_method(design):
    case = make_case(n=300, seed=21)
    calibrator = opcal.OperationalCalibrator("paper", design).begin(case.pool)
    ask_one_by_one(calibrator, case, 60)
    right = case.pool.predicted == case.labels
    before = opcal.metrics.brier(case.pool.confidence, right)
    assert opcal.metrics.brier(calibrator.confidence(case.pool), right) < 0.9 * before
