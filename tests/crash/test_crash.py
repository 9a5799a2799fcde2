"""What an acknowledged answer survives: kills, crashes of the server, full disks, crowds, lost replies, old schemas.

`make crash` runs these with counts that fit CI; OPCAL_CRASH=full runs the counts of docs/sessions.md.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import opcal
from opcal.errors import SessionError, StorageFull
from opcal.session import Session, migrations
from opcal.session.database import Database

pytestmark = pytest.mark.crash
FULL = os.environ.get("OPCAL_CRASH") == "full"
HERE = Path(__file__).parent
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def count(full: int, reduced: int) -> int:
    return full if FULL else reduced


def report(name: str, found: object) -> None:
    """Kept where OPCAL_CRASH_REPORT says, for docs/sessions.md."""
    print(name, json.dumps(found))
    if file := os.environ.get("OPCAL_CRASH_REPORT"):
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(f"{name} {json.dumps(found)}\n")


def small_pool(n: int, d: int = 4) -> opcal.Pool:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, d))
    return opcal.Pool.from_arrays(z, z @ rng.standard_normal((d, 4)))


def quick(pool, out, db=None, **more):
    """A session whose refits take no time, so that the tests are about storage."""
    return Session.start(pool, out, method="paper", design="random", db=db, **{"ahead": 300, **more})


def run(script: str, *arguments: object) -> dict[str, object]:
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_kill_9_loses_and_doubles_nothing(tmp_path, db):
    quick(small_pool(20_000), tmp_path / "s", db).close()
    found = run("killing.py", tmp_path / "s", "--rounds", count(200, 20))
    report(f"kill -9, {'SQLite' if db is None else 'PostgreSQL'}", found)
    assert (found["lost"], found["twice"], found["over_budget"], found["broken"]) == (0, 0, 0, 0)
    assert found["acknowledged"] > found["kills"]
    assert found["slowest_ready_s"] < 2


def test_crashes_of_the_postgresql_server_lose_nothing(tmp_path, postgres):
    quick(small_pool(20_000), tmp_path / "s", postgres.database()).close()
    over, crashes = threading.Event(), []

    def crash_now_and_then():
        while not over.wait(2.0):
            postgres.stop("immediate")
            postgres.start()
            crashes.append(1)

    crasher = threading.Thread(target=crash_now_and_then)
    crasher.start()
    try:
        found = run("killing.py", tmp_path / "s", "--rounds", count(12, 3), "--longest", 5)
    finally:
        over.set()
        crasher.join()
    report("server crashed", found | {"server_crashes": len(crashes)})
    assert (found["lost"], found["twice"], len(crashes) > 0) == (0, 0, True)


def test_a_crowd_shares_the_queue_without_a_double_lease_and_meets_the_budget(tmp_path, db):
    budget = count(1900, 320)
    quick(small_pool(2_000), tmp_path / "s", db, budget=budget, ahead=40).close()
    found = run("crowd.py", tmp_path / "s", "--people", 32)
    report(f"32 annotators, {'SQLite' if db is None else 'PostgreSQL'}", found)
    assert found["errors"] == []
    assert found["leased_twice_at_once"] == 0
    assert (found["answered"], found["events_of_answers"]) == (budget, budget)


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of its own of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here ({mounted.stderr.decode().strip()}): a full disk is not tested")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def label_until_refused(session: Session, known: dict[str, object]) -> None:
    for number in range(3000):
        (task,) = session.lease("ann")
        receipt = session.answer("ann", task.item, number % 4, note="n" * 500)
        known[receipt.id] = receipt


def test_a_full_disk_is_a_clear_error_and_takes_nothing_with_it(tiny_disk):
    session = quick(small_pool(3_000), tiny_disk / "s")
    session.background = False
    rng, known, refused = random.Random(0), {}, 0
    for moment in range(count(50, 12)):
        # Pages free up to some tens of KB: the failure falls in the journal, in the database, in an ask or an answer.
        free = os.statvfs(tiny_disk).f_bavail * 4096
        (tiny_disk / "filler").write_bytes(b"x" * max(0, free - 4096 * rng.randint(0, 12)))
        with pytest.raises(StorageFull, match="Nothing was taken"):
            label_until_refused(session, known)
        refused += 1
        assert {e.id for e in session.events() if e.kind == "answer"} == set(known)
        (tiny_disk / "filler").unlink()
        (task,) = session.lease("ann")
        receipt = session.answer("ann", task.item, moment % 4)
        known[receipt.id] = receipt
    with Session.open(tiny_disk / "s") as again:
        assert {e.id for e in again.events() if e.kind == "answer"} == set(known)
    session.close()
    report("full disk", {"moments": refused, "acknowledged": len(known)})


def test_lost_replies_leave_one_row_and_the_same_success(tmp_path, postgres):
    from proxy import DroppingProxy

    url = postgres.database()
    quick(small_pool(500), tmp_path / "s", url).close()
    proxy = DroppingProxy(postgres.port)
    session = Session.open(url.replace(f":{postgres.port}/", f":{proxy.port}/"))
    session.background = False
    (task,) = session.lease("ann")
    receipts, failures = set(), 0
    for _ in range(10):
        proxy.drop = 2  # the first commit ends the reading, the second stores the answer
        with pytest.raises(SessionError, match="send it again"):
            session.answer("ann", task.item, 1, id="the one")
        failures += 1
    for _ in range(10):
        receipts.add(session.answer("ann", task.item, 1, id="the one"))
    rows = [e for e in session.events() if e.kind == "answer"]
    session.close()
    proxy.close()
    report("lost replies", {"dropped": proxy.dropped, "rows": len(rows)})
    assert (proxy.dropped, len(rows), len(receipts)) == (failures, 1, 1)


@pytest.mark.parametrize("version", range(1, migrations.VERSION))
def test_an_old_session_of_10_000_labels_migrates_whatever_kills_it(tmp_path, db, postgres, version):
    from old_sessions import make_old, restored

    labels, kills = count(10_000, 3_000), count(50, 8)
    make_old(tmp_path / "old", small_pool(labels + 500), labels, version, db)
    halfway = 0
    for number in range(kills):
        where = restored(tmp_path, number, db, postgres)
        moment = random.Random(number).uniform(0.0, 0.15)
        child = subprocess.Popen(
            [sys.executable, str(HERE / "old_sessions.py"), str(where)], stdout=subprocess.PIPE, env=ENVIRONMENT
        )
        child.stdout.readline()  # it is about to migrate
        time.sleep(moment)
        child.kill()
        child.wait()
        child.stdout.close()
        halfway += _schema(where, db) < migrations.VERSION
        with Session.open(where) as session:
            events = session.events()
            assert session.status().labelled == labels
        assert sum(e.kind == "answer" for e in events) == labels
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
    report(f"migration from {version}, {'SQLite' if db is None else 'PostgreSQL'}", {"kills": kills, "before": halfway})


def _schema(where, db) -> int:
    from opcal.session.folder import Place

    database = Database(Place.of(where).url)
    with database.read() as connection:
        found = migrations.version(connection)
    database.close()
    return found
