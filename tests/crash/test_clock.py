"""The clock set for real, by libfaketime (Debian's package faketime), while a process labels and is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_crash import ENVIRONMENT, HERE, quick, small_pool

from opcal.session import Session
from opcal.session.clock import ticks

pytestmark = pytest.mark.crash
DAY = 24 * 3600
LIBRARY = next((str(p) for at in ("/usr/lib", "/usr/local/lib") for p in Path(at).rglob("libfaketimeMT.so.1")), None)
LEASE = 4.0


@contextmanager
def annotator(where, name, out, clock, *options):
    """A process for which it is as late as the file `clock` says; killed -9 at the end."""
    if LIBRARY is None:
        pytest.skip("libfaketimeMT.so.1 is not below /usr/lib or /usr/local/lib (Debian: apt install faketime)")
    # Whoever sets a clock does not set the time since the machine's start.
    faked = {"LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1"}
    environment = ENVIRONMENT | faked | {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    command = [sys.executable, str(HERE / "shifted.py"), str(where), name, str(out), *options]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def lines(file, kind):
    text = file.read_text() if file.exists() else ""
    return [line.split()[1:] for line in text.splitlines() if line.startswith(kind)]


def wait(process, ready, seconds=60):
    end = time.monotonic() + seconds
    while not ready():
        assert process.poll() is None, process.stderr.read().decode()[-2000:]
        assert time.monotonic() < end, "nothing came in time"
        time.sleep(0.02)


def set_to(clock, shift):
    written = clock.with_suffix(".new")
    written.write_text(shift + "\n")
    written.replace(clock)


def test_a_clock_set_a_day_forward_and_back_loses_no_answer_and_no_lease_and_keeps_the_order(tmp_path, db):
    quick(small_pool(4_000), tmp_path / "s", db).close()
    clock, out, now = tmp_path / "clock", tmp_path / "out", time.time()
    set_to(clock, "+0")
    seen = lambda: [round((float(wall) - now) / DAY) for (wall,) in lines(out, "wall")]  # noqa: E731
    with Session.open(tmp_path / "s") as session, annotator(tmp_path / "s", "ann", out, clock) as process:
        for shift, days in (("+0", 0), ("+1d", 1), ("-1d", -1), ("+1d", 1)):
            set_to(clock, shift)
            before = len(seen())
            wait(process, lambda before=before, days=days: seen()[before:].count(days) >= 4)
            for task in session.lease("bob", 3):  # meanwhile, with the right time
                session.answer("bob", task.item, task.position % 4)
    assert {-1, 0, 1} <= set(seen())
    with Session.open(tmp_path / "s") as session:
        answers = [e for e in session.events() if e.kind == "answer"]
        at = {e.id: (e.item, str(e.label)) for e in answers}
        told = lines(out, "got")
        assert len(told) > 20
        assert [at[id] for id, _, _ in told] == [(item, label) for _, item, label in told]
        assert len({e.item for e in answers}) == len(answers)  # nobody got what the other held
        assert all(e.data["counted"] for e in answers)
        assert [e.seq for e in session.events()] == list(range(1, len(session.events()) + 1))
        by_ann = [e.id for e in answers if e.annotator == "ann"]
        assert by_ann[: len(told)] == [id for id, _, _ in told]  # in the order given, whatever the clock said
        assert sorted(e.at for e in answers) != [e.at for e in answers]  # which it did not follow


@pytest.mark.parametrize("shift", ["+1d", "-1d"])
def test_a_lease_of_a_process_that_died_with_a_wrong_clock_ends_on_time(tmp_path, db, shift):
    quick(small_pool(400), tmp_path / "s", db, lease_seconds=LEASE, budget=2).close()
    clock, out = tmp_path / "clock", tmp_path / "out"
    set_to(clock, shift)
    with annotator(tmp_path / "s", "ann", out, clock, "--hold") as process:
        wait(process, lambda: len(lines(out, "held")) == 2)
    held, (since,) = {item for (item,) in lines(out, "held")}, lines(out, "since")[0]
    with Session.open(tmp_path / "s") as session:
        session.background = False
        while not (tasks := session.lease("bob", 2)):
            assert ticks()[1] < float(since) + LEASE + 30, "the lease never ends"
            time.sleep(0.1)
        assert {task.item for task in tasks} == held
        assert ticks()[1] >= float(since) + LEASE
