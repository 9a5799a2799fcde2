"""Several annotators: second opinions, ties, decisions, and what their errors do."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_case

from opcal.core.method import OUTSIDE, WRONG
from opcal.session import Session
from opcal.session.voting import TIE, outcome

CASE = make_case(n=150)


def truth(task):
    return int(CASE.labels[task.position])


def work(session, people, say=lambda who, task: truth(task)):
    """Everybody in turn until nobody gets anything."""
    busy = True
    while busy:
        busy = False
        for who in people:
            for task in session.lease(who, 3):
                session.answer(who, task.item, say(who, task))
                busy = True


@pytest.mark.parametrize(
    ("labels", "predicted", "result"),
    [
        ([1], None, 1),
        ([1, 1, 2], None, 1),
        ([1, 2], None, TIE),
        ([1, 2, 3], None, TIE),
        ([OUTSIDE, OUTSIDE, 0], None, OUTSIDE),
        ([WRONG, 2], 0, 2),
        ([WRONG, 0], 0, TIE),
        ([WRONG, 0, 0], 0, 0),
        ([WRONG, WRONG, 0], 0, WRONG),
        ([WRONG, 1, 2], 0, WRONG),
    ],
)
def test_a_vote_is_settled_by_the_most_and_wrong_speaks_for_every_other_class(labels, predicted, result):
    assert outcome(labels, predicted) == result


def test_a_share_of_the_items_gets_a_second_opinion_of_somebody_else_within_the_budget(tmp_path, db):
    with Session.start(CASE.pool, tmp_path / "s", budget=60, overlap=0.5, db=db) as session:
        work(session, ["ann", "bob"])
        rows = session.answers()
        status = session.status()
    assert (status.answered, len(rows)) == (60, 60)
    several = [i for i in {r["item"] for r in rows} if sum(r["item"] == i for r in rows) == 2]
    assert all({r["annotator"] for r in rows if r["item"] == i} == {"ann", "bob"} for i in several)
    assert 10 <= len(several) <= 30


def test_one_annotator_without_overlap_is_told_to_the_calibrator_without_weights(tmp_path):
    with Session.start(CASE.pool, tmp_path / "s", budget=12) as session:
        work(session, ["ann"])
        rows = session.answers()
        at = session.calibrator()
    plain = at.anew()
    positions = CASE.pool.positions([r["item"] for r in rows])
    plain.tell(positions, labels=CASE.labels[positions])
    np.testing.assert_array_equal(plain.confidence(CASE.pool), at.confidence(CASE.pool))


def test_a_tie_is_told_to_nobody_until_a_third_opinion_settles_it(tmp_path):
    with Session.start(CASE.pool, tmp_path / "s", budget=3, overlap=1.0) as session:
        (task,) = session.lease("ann")
        session.answer("ann", task.item, 0)
        assert session.status().labelled == 1
        assert session.lease("bob")[0].item == task.item
        session.answer("bob", task.item, 1)
        assert (session.status().labelled, session.status().disputed) == (0, 1)
        assert session.disagreements()[0].opinions == (("ann", 0), ("bob", 1))
        work(session, ["eve"], lambda *_: 1)
        assert (session.status().labelled, session.status().disputed, session.status().answered) == (1, 0, 3)


def test_an_arbiter_decides_and_may_take_it_back(tmp_path, db):
    with Session.start(CASE.pool, tmp_path / "s", budget=2, overlap=1.0, disputes="arbiter", db=db) as session:
        (task,) = session.lease("ann")
        session.answer("ann", task.item, 0)
        session.answer("bob", task.item, 1)
        assert session.status().done
        session.resolve("chief", task.item, 2)
        assert session.calibrator().answers_.labels.tolist() == [2]
        assert session.status().disputed == 0
        session.undo("chief")
        assert session.status().disputed == 1


def test_a_careless_annotator_is_found_and_counts_less(tmp_path):
    rng = np.random.default_rng(0)

    def say(who, task):
        careless = who == "bob" and rng.random() < 0.5
        return int((truth(task) + 1 + careless) % 4) if careless else truth(task)

    with Session.start(CASE.pool, tmp_path / "s", budget=180, overlap=0.5, disputes="arbiter") as session:
        work(session, ["ann", "bob", "eve"], say)
        found = session.agreement()
        at, rows = session.calibrator(), session.answers()
    assert found.items > 40
    assert found.errors["bob"] > 0.3
    assert max(found.errors["ann"], found.errors["eve"]) < 0.15
    assert set(found.kappa) == {"ann / bob", "ann / eve", "bob / eve"}
    assert 0 < found.alpha < 1
    weight = dict(zip(at.answers_.positions.tolist(), at.answers_.weight.tolist(), strict=True))
    alone = {r["item"]: r["annotator"] for r in rows if sum(s["item"] == r["item"] for s in rows) == 1}
    of = {who: [weight[int(i)] for i, a in alone.items() if a == who] for who in ("ann", "bob", "eve")}
    assert np.mean(of["bob"]) < 0.8 < min(np.mean(of["ann"]), np.mean(of["eve"]))


def test_an_answer_sent_twice_without_an_id_is_one_answer(tmp_path):
    with Session.start(CASE.pool, tmp_path / "s", budget=3) as session:
        assert session.answer("ann", "7", 1) == session.answer("ann", "7", 1)
        assert sum(e.kind == "answer" for e in session.events()) == 1


def test_late_answers_and_labels_that_nobody_asked_for_are_kept_beside_the_budget(tmp_path):
    with Session.start(CASE.pool, tmp_path / "s", budget=1, lease_seconds=0.0) as session:
        (late,) = session.lease("ann")
        (same,) = session.lease("bob")
        assert same.item == late.item
        assert session.answer("bob", same.item, truth(same)).counted
        assert not session.answer("ann", late.item, truth(late)).counted
        assert not session.answer("ann", next(i for i in CASE.pool.ids if i != late.item), 0).counted
        status = session.status()
    assert (status.answered, status.extra, status.labelled) == (1, 2, 2)
