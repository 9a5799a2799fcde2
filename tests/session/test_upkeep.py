"""A pool that grows and forgets while people label."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from conftest import make_case

import opcal
from opcal.errors import DuplicateIds, IncompatiblePool, InvalidInput, SessionError
from opcal.session import Session

CASE = make_case(n=240)
N = 160


def part(rows, **more):
    return opcal.Pool.from_arrays(
        CASE.features[rows],
        CASE.logits[rows],
        ids=[f"i{r}" for r in range(240)[rows]],
        payload=[f"{r}.png" for r in range(240)[rows]],
        columns={"taken": [f"2026-0{1 + r // 100}-05" for r in range(240)[rows]]},
        **more,
    )


@pytest.fixture
def session(tmp_path, db):
    with Session.start(part(slice(0, N)), tmp_path / "s", budget=80, db=db) as made:
        made.background = False
        yield made


def label(session, n):
    while n > 0 and (tasks := session.lease("ann", min(n, 4))):
        for task in tasks:
            session.answer("ann", task.item, int(CASE.labels[int(task.item[1:])]))
        n -= len(tasks)


def test_added_items_join_the_design_and_the_audit_and_nothing_that_was_moves(session, tmp_path):
    label(session, 30)
    before = session.calibrator()
    medoids, walked = before.field_.clustering.medoids, before.walked_
    assert session.add_items(part(slice(N, 240))) == 80
    after = session.calibrator()
    assert session.pool.ids[:N] == part(slice(0, N)).ids
    np.testing.assert_array_equal(after.field_.clustering.medoids, medoids)
    np.testing.assert_array_equal(after.walked_, walked)
    np.testing.assert_array_equal(after.answers_.positions, before.answers_.positions)
    assert not after.audit_.any()  # no item of the new part is drawn yet: there is no uniform sample of the whole
    label(session, 50)
    at = session.calibrator()
    assert (at.answers_.positions >= N).sum() > 5
    shares = {float(x) for x in at.inclusion(at.walked_)}
    assert all(abs(share - 20 / 240) < 0.02 for share in shares)  # caught up: all parts at one rate
    with Session.open(tmp_path / "s") as again:
        assert again.digest() == session.digest()


def test_items_added_by_another_process_are_seen(session, tmp_path):
    assert len(session.pool) == N
    with Session.open(tmp_path / "s") as other:
        other.add_items(part(slice(N, 240)))
    assert session.status().items == 240
    assert session.answer("ann", "i200", 0).position == 200
    assert len(session.pool) == 240


def test_items_of_another_model_or_known_ids_are_refused(session):
    with pytest.raises(DuplicateIds, match="i150"):
        session.add_items(part(slice(150, 200)))
    with pytest.raises(IncompatiblePool, match="features"):
        session.add_items(opcal.Pool.from_arrays(CASE.features[:5, :3], CASE.logits[:5], ids=list("abcde")))
    assert session.status().items == N


def test_extending_gives_the_audit_the_same_rate_everywhere_and_keeps_what_was_walked():
    cal = opcal.OperationalCalibrator(design="random", audit=1.0).begin(part(slice(0, N)))
    i = cal.ask(40)
    cal.tell(i, labels=CASE.labels[i])
    cal.extend(part(slice(0, 240)))
    j = cal.ask(20)
    assert (j >= N).all()  # 40 of 160 and 20 of 80 are the same rate
    cal.tell(j, labels=CASE.labels[j])
    assert cal.audit_.all()
    np.testing.assert_allclose(cal.inclusion(cal.walked_), 0.25)
    k = cal.ask(60)
    assert abs((k >= N).mean() - 1 / 3) < 0.02
    with pytest.raises(IncompatiblePool, match="does not begin with"):
        cal.extend(part(slice(1, 240)))


def test_a_grown_audit_draws_every_item_equally_often():
    counts = np.zeros(60)
    for seed in range(400):
        cal = opcal.OperationalCalibrator("paper", design="random", audit=1.0, random_state=seed, n_clusters=1)
        cal.begin(CASE.pool.take(np.arange(40))).ask(10)
        cal.extend(CASE.pool.take(np.arange(60))).ask(8)
        counts[cal.walked_] += 1
    # 18 of 60 are drawn: 12 of the 40 old ones and 6 of the 20 new ones
    assert abs(counts[:40].mean() - 120) < 4
    assert abs(counts[40:].mean() - 120) < 4
    assert counts.std() < 15


def test_forgetting_erases_the_payload_and_keeps_labels_and_bytes(session, tmp_path):
    label(session, 20)
    session.answer("ann", "i3", 1, note="Mrs Smith, ward 3")
    digest, rows = session.digest(), session.answers()
    assert session.forget(["i3", "i5"], reason="asked", by="ann") == ["i3", "i5"]
    assert session.forget(["i3"]) == []
    assert (session.pool.payload[3], session.pool.columns["taken"][5]) == (None, None)
    assert session.pool.payload[4] == "4.png"
    assert rows[-1]["note"] == "Mrs Smith, ward 3"
    assert (session.digest(), session.answers()) == (digest, [row | {"note": None} for row in rows])
    assert session.events()[-2].data["items"] == ["i3", "i5"]
    left = b"".join(f.read_bytes() for f in (tmp_path / "s").rglob("*") if f.is_file())
    assert b"3.png\x00" not in left
    assert b"Mrs Smith" not in left


def test_forgotten_features_are_gone_and_their_labels_count_without_teaching(session):
    label(session, 20)
    mine = session.calibrator()
    at = mine.answers_.positions[:3]
    session.forget([session.pool.id_of(int(p)) for p in at], features=True)
    now = session.calibrator()
    np.testing.assert_array_equal(now.answers_.labels, mine.answers_.labels)
    np.testing.assert_array_equal(now.audit_, mine.audit_)
    np.testing.assert_allclose(now.pool_.confidence, mine.pool_.confidence)
    assert not np.allclose(session.pool.features[at], CASE.features[at])
    assert (now.answers_.weight[:3] < 1e-3).all()
    other, said = now.anew(), now.answers_
    labels = np.concatenate([(said.labels[:3] + 1) % 4, said.labels[3:]])
    other.tell(said.positions, labels=labels, weight=said.weight)
    np.testing.assert_allclose(other.confidence(CASE.pool), now.confidence(CASE.pool), atol=1e-3)


def test_old_items_are_forgotten_by_arrival_or_by_their_own_date(session):
    march = datetime(2026, 2, 1, tzinfo=UTC)
    assert len(session.forget(older_than=march, column="taken")) == 100
    assert len(session.forget(older_than=datetime.now(UTC) - timedelta(days=1))) == 0
    assert len(session.forget(older_than=datetime.now(UTC) + timedelta(days=1))) == 60
    with pytest.raises(InvalidInput, match="no column"):
        session.forget(older_than=march, column="nope")


def test_a_backup_is_whole_while_others_write(session, tmp_path):
    over = threading.Event()

    def go_on():
        while not over.is_set() and (tasks := session.lease("bob")):
            session.answer("bob", tasks[0].item, 1)

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        for number in range(3):
            seq = session.backup(tmp_path / f"copy{number}")
            with Session.open(tmp_path / f"copy{number}") as copy:
                assert copy.events() == session.events()[:seq]
                assert len(copy.calibrator().answers_) == copy.status().labelled
    finally:
        over.set()
        writer.join()


def test_a_backup_made_while_people_label_is_a_session_like_any_other(session, tmp_path):
    label(session, 10)
    session.add_items(part(slice(N, 240)))
    label(session, 5)
    session.backup(tmp_path / "copy")
    digest = session.digest()
    label(session, 5)
    with Session.open(tmp_path / "copy") as copy:
        copy.background = False
        assert copy.digest() == digest
        assert copy.status().answered == 15
        label(copy, 5)
        assert copy.digest() == session.digest()
    with pytest.raises(SessionError, match="already"):
        session.backup(tmp_path / "copy")


def test_a_moment_before_items_were_added_replays_on_the_items_of_that_moment(session):
    from opcal.session.snapshots import snapshot

    label(session, 12)
    before = session.calibrator()
    with session._store.standing() as standing:
        at = snapshot(standing)
    session.add_items(part(slice(N, 240)))
    made = session._replay.fresh(at)
    session._replay.tell(made, at.settled)
    np.testing.assert_array_equal(made.confidence(CASE.pool), before.confidence(CASE.pool))
