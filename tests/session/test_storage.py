"""The log, the leases, the clock and the schema, as the database keeps them."""

from __future__ import annotations

import json
import time

import pytest
from conftest import make_case
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from opcal.errors import SessionError
from opcal.session import Session, clock, migrations, sqlite
from opcal.session.folder import Place

CASE = make_case(n=60)
DAY = 86_400


@pytest.fixture
def session(tmp_path, db):
    with Session.start(CASE.pool, tmp_path / "s", budget=30, db=db, lease_seconds=600) as made:
        made.background = False
        yield made


@pytest.fixture
def raw(session, tmp_path):
    """A connection of somebody who goes round opcal."""
    url = make_url(Place.of(tmp_path / "s").url)
    if url.get_backend_name() != "sqlite":
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(url)
    yield engine
    engine.dispose()


@pytest.mark.parametrize(
    "statement", ["UPDATE event SET label = 0", "DELETE FROM event", "DELETE FROM event WHERE seq = 1"]
)
def test_the_log_refuses_to_be_changed(session, raw, statement):
    (task,) = session.lease("ann")
    session.answer("ann", task.item, 1)
    with raw.begin() as connection, pytest.raises(DBAPIError, match="append-only"):
        connection.execute(text(statement))
    assert session.answers()[0]["answer"] == "1"


def test_truncating_the_log_is_refused_on_postgresql(session, raw):
    if raw.dialect.name != "postgresql":
        pytest.skip("SQLite has no TRUNCATE")
    with raw.begin() as connection, pytest.raises(DBAPIError, match="append-only"):
        connection.execute(text("TRUNCATE event"))


def test_the_database_itself_refuses_a_second_lease_of_an_item(session, raw):
    (task,) = session.lease("ann")
    statement = text("INSERT INTO lease (position, annotator, until) VALUES (:p, 'bob', 1e12)")
    with raw.begin() as connection, pytest.raises(DBAPIError):
        connection.execute(statement, {"p": task.position})


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_setting_the_clock_loses_no_lease_makes_none_immortal_and_keeps_the_order(session, monkeypatch, jump):
    (first,) = session.lease("ann")
    session.answer("ann", first.item, 1)
    (task,) = session.lease("ann")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    assert task.item not in {t.item for t in session.lease("bob", 3)}
    session.answer("ann", task.item, 1)
    seqs = [e.seq for e in session.events()]
    assert seqs == sorted(seqs)
    (held,) = session.lease("eve")
    boot, seconds = clock.ticks()
    monkeypatch.setattr(clock, "ticks", lambda: (boot, seconds + 599))
    assert held.item not in {t.item for t in session.lease("kim")}
    monkeypatch.setattr(clock, "ticks", lambda: (boot, seconds + 602))
    assert held.item in {t.item for t in session.lease("kim", 20)}


def test_a_restarted_machine_goes_on_with_the_session_clock(session, monkeypatch):
    (task,) = session.lease("ann")
    now = time.time()
    monkeypatch.setattr(clock, "ticks", lambda: ("after the restart", 5.0))
    monkeypatch.setattr(time, "time", lambda: now - DAY)  # and its clock was set back
    assert task.item not in {t.item for t in session.lease("bob", 3)}
    monkeypatch.setattr(clock, "ticks", lambda: ("after the restart", 700.0))
    assert task.item in {t.item for t in session.lease("kim", 20)}


def test_a_schema_from_the_future_is_refused(session, raw, tmp_path):
    with raw.begin() as connection:
        connection.execute(text("UPDATE meta SET value = '99' WHERE key = 'schema'"))
    with pytest.raises(SessionError, match="schema 99"):
        Session.open(tmp_path / "s")


@pytest.mark.parametrize("version", range(1, migrations.VERSION))
def test_a_session_of_an_earlier_schema_opens_with_all_its_labels(tmp_path, db, version):
    from old_sessions import make_old

    make_old(tmp_path / "old", CASE.pool, 40, version, db)
    with Session.open(tmp_path / "old") as session:
        assert (session.status().labelled, session.status().leased) == (40, 0)
        (task,) = session.lease("ann")
        session.answer("ann", task.item, 1, note="as good as new")
        assert session.status().labelled == 41


def test_passwords_are_neither_stored_nor_shown(tmp_path, postgres, monkeypatch):
    url = postgres.database().replace("opcal@", "opcal:secret@")
    Session.start(CASE.pool, tmp_path / "s", db=url).close()
    assert "secret" not in (tmp_path / "s" / "session.json").read_text()
    monkeypatch.setenv("OPCAL_DB", url)
    with Session.open(tmp_path / "s") as session:
        assert session.status().items == 60
    with Session.open(url) as session:
        assert session.folder == tmp_path / "s"
    with pytest.raises(SessionError, match="already") as refused:
        Session.start(CASE.pool, tmp_path / "other", db=url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 52, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_a_write_ahead_log_is_used_only_where_its_corruption_is_fixed(version, safe):
    assert (sqlite.journal_mode(version) == "wal") == safe
    assert ("has the fix" in sqlite.explanation(version)) == safe


def test_the_file_is_kept_with_the_settings_that_doctor_tells(tmp_path):
    with Session.start(CASE.pool, tmp_path / "s") as session, session._store.database.read() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "secure_delete")
        }
    wanted = sqlite.journal_mode(sqlite.library().sqlite_version_info)
    assert found == {"journal_mode": wanted, "synchronous": 2, "secure_delete": 1}


def test_a_file_left_in_wal_mode_is_taken_back_where_wal_is_not_safe(tmp_path):
    import sqlite3

    Session.start(CASE.pool, tmp_path / "s").close()
    other = sqlite3.connect(tmp_path / "s" / "session.db")
    other.execute("PRAGMA journal_mode = wal")
    other.close()
    with Session.open(tmp_path / "s") as session:
        session.answer("ann", "3", 1)
        assert session.status().labelled == 1


def test_inclusion_probabilities_are_in_the_log_of_every_question(session):
    asked = [e for e in session.events() if e.kind == "ask"]
    assert {e.data["purpose"] for e in asked} == {"audit", "chosen"}
    for event in asked:
        inclusion = event.data["inclusion"]
        assert inclusion == 1 if event.data["purpose"] == "chosen" else 0 < inclusion <= event.data["walked"] / 60
    json.dumps([e.data for e in asked])
