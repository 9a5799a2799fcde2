"""A session from the first question to the last answer, and again from its log."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal.errors import ConflictingAnswer, SessionError, UnknownItem, UnknownLabel
from opcal.session import Session

CASE = make_case(n=120)


@pytest.fixture
def session(tmp_path, db):
    with Session.start(CASE.pool, tmp_path / "ward", budget=20, db=db) as made:
        yield made


def answer_all(session, annotator="ann", k=4):
    while tasks := session.lease(annotator, k):
        for task in tasks:
            session.answer(annotator, task.item, int(CASE.labels[task.position]))


def test_the_budget_is_met_exactly_and_a_quarter_is_drawn_at_random(session):
    answer_all(session)
    status = session.status()
    assert (status.answered, status.asked, status.labelled, status.done) == (20, 20, 20, True)
    assert status.audited == 5


def test_the_calibrator_of_the_reopened_session_gives_the_same_bytes(session, tmp_path):
    answer_all(session)
    mine = session.calibrator().confidence(CASE.pool)
    with Session.open(tmp_path / "ward") as again:
        np.testing.assert_array_equal(again.calibrator().confidence(CASE.pool), mine)
        assert again.digest() == session.digest()


def test_asking_goes_on_after_a_restart_as_if_nothing_had_happened(tmp_path):
    straight, broken = [], []
    with Session.start(CASE.pool, tmp_path / "a", budget=16) as session:
        session.background = False
        while tasks := session.lease("ann"):
            straight.append(tasks[0].position)
            session.answer("ann", tasks[0].item, int(CASE.labels[tasks[0].position]))
    Session.start(CASE.pool, tmp_path / "b", budget=16).close()
    for _ in range(16):
        with Session.open(tmp_path / "b") as session:
            session.background = False
            (task,) = session.lease("ann")
            broken.append(task.position)
            session.answer("ann", task.item, int(CASE.labels[task.position]))
    assert broken == straight


def test_an_item_is_leased_to_one_annotator_and_a_repeated_request_gives_it_again(session):
    first, second = session.lease("ann", 3), session.lease("bob", 3)
    assert not {t.item for t in first} & {t.item for t in second}
    assert [t.item for t in session.lease("ann", 3)] == [t.item for t in first]


def test_a_repeated_answer_is_one_answer_with_one_receipt(session):
    (task,) = session.lease("ann")
    receipts = {session.answer("ann", task.item, 1, id="x") for _ in range(10)}
    assert len(receipts) == 1
    assert sum(e.kind == "answer" for e in session.events()) == 1
    with pytest.raises(ConflictingAnswer, match="another answer"):
        session.answer("ann", task.item, 2, id="x")


def test_undo_restores_the_calibrator_and_asks_the_item_again(session):
    before = session.digest()
    (task,) = session.lease("ann")
    session.answer("ann", task.item, 1)
    assert session.digest() != before
    session.undo("ann")
    assert session.digest() == before
    assert session.lease("ann")[0].item == task.item


def test_a_correction_counts_once_and_its_undo_brings_back_the_first(session):
    (task,) = session.lease("ann")
    session.answer("ann", task.item, 1)
    first = session.digest()
    session.answer("ann", task.item, 2)
    assert session.status().answered == 1
    assert session.digest() != first
    session.undo("ann")
    assert session.digest() == first


def test_a_skipped_item_gives_its_place_in_the_budget_back(session):
    (task,) = session.lease("ann")
    session.answer("ann", task.item, skip=True)
    answer_all(session)
    status = session.status()
    assert (status.answered, status.skipped, status.asked) == (20, 1, 21)


def test_bad_answers_are_refused_by_name_and_change_nothing(session):
    events = session.events()
    with pytest.raises(UnknownItem):
        session.answer("ann", "nobody", 1)
    with pytest.raises(UnknownLabel):
        session.answer("ann", "3", 9)
    assert session.events() == events


def test_a_folder_may_have_any_name(tmp_path):
    place = tmp_path / "ward #3? 100%40 ä"
    Session.start(CASE.pool, place, budget=3).close()
    with Session.open(place) as session:
        session.answer("ann", "3", 1)
    assert (place / "session.db").exists()


def test_many_threads_may_share_a_session(session):
    from concurrent.futures import ThreadPoolExecutor

    def label(who):
        while tasks := session.lease(who, 2):
            for task in tasks:
                session.answer(who, task.item, int(CASE.labels[task.position]))
                session.status()
            session.calibrator().confidence(CASE.pool)

    with ThreadPoolExecutor(6) as people:
        list(people.map(label, "abcdef"))
    rows = session.answers()
    assert len({r["item"] for r in rows}) == len(rows) == session.status().answered == 20


def test_a_folder_that_is_no_session_is_refused(tmp_path):
    with pytest.raises(SessionError, match="does not exist"):
        Session.open(tmp_path / "nothing")
    CASE.pool.save(tmp_path / "pool")
    with pytest.raises(SessionError, match="is a pool"):
        Session.open(tmp_path / "pool")
    Session.start(opcal.Pool.open(tmp_path / "pool"), tmp_path / "s").close()
    with pytest.raises(SessionError, match="already"):
        Session.start(CASE.pool, tmp_path / "s")
