"""Annotators who are killed at random moments: python killing.py SESSION --rounds N (prints what was found as JSON).

Every acknowledged answer is written to a file by the annotator who got the receipt; after each kill the session is
opened and the log compared with the files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

from opcal.errors import SessionError
from opcal.session import Session

ANNOTATORS = 4


def annotate(where: str, name: str, file: Path) -> None:
    """Label until killed; a server that is down for a while is asked again, with the same id."""
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    session = opened(where)
    while True:
        for task in again(lambda: session.lease(name, 2)):
            id = uuid.uuid4().hex
            label = task.position % 4
            again(lambda item=task.item, label=label, id=id: session.answer(name, item, label, id=id))
            os.write(out, f"{id} {task.item} {label}\n".encode())


def again(call):
    while True:
        try:
            return call()
        except SessionError:
            time.sleep(0.05)


def opened(where: str) -> Session:
    return again(lambda: Session.open(where))


def acknowledged(folder: Path) -> dict[str, tuple[str, int]]:
    lines = [line.split() for file in folder.iterdir() for line in file.read_text().splitlines()]
    return {id: (item, int(label)) for id, item, label in lines if len(id) == 32}


def check(where: str, folder: Path) -> dict[str, object]:
    """What is wrong between the files and the log."""
    started = time.perf_counter()

    def read():
        with opened(where) as session:
            status, ready = session.status(), time.perf_counter() - started
            return status, ready, {e.id: e for e in session.events() if e.kind == "answer"}

    status, ready, answers = again(read)  # a server that is crashed meanwhile says so: then once more
    items = Counter(e.item for e in answers.values())
    known = acknowledged(folder)
    wrong = [id for id, said in known.items() if id in answers and (answers[id].item, answers[id].label) != said]
    return {
        "ready": ready,
        "acknowledged": len(known),
        "lost": sum(id not in answers for id in known) + len(wrong),
        "twice": sum(n > 1 for n in items.values()),
        "over_budget": max(0, status.answered - (status.budget or status.answered)),
        "integrity": integrity(where),
    }


def integrity(where: str) -> str:
    file = Path(where) / "session.db"
    if not file.exists():
        return "ok"
    connection = sqlite3.connect(file)
    found = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    return found


def one_round(where: str, folder: Path, number: int, moment: float) -> None:
    crew = []
    for a in range(ANNOTATORS):
        if (pid := os.fork()) == 0:
            try:
                annotate(where, f"annotator {a}", folder / f"{number}-{a}")
            finally:
                os._exit(1)
        crew.append(pid)
    while not any(file.stat().st_size for file in folder.glob(f"{number}-*")):
        time.sleep(0.005)
    time.sleep(moment)
    for pid in crew:
        os.kill(pid, signal.SIGKILL)
    for pid in crew:
        os.waitpid(pid, 0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("session")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--longest", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, found = random.Random(given.seed), []
    with opened(given.session) as session:
        again(lambda: session.lease("warm", 1))  # what is imported now need not be by every annotator
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds):
            one_round(given.session, Path(folder), number, rng.uniform(0.0, given.longest))
            found.append(check(given.session, Path(folder)))
    last = found[-1]
    print(
        json.dumps(
            {
                "kills": given.rounds,
                "acknowledged": last["acknowledged"],
                "lost": max(f["lost"] for f in found),
                "twice": max(f["twice"] for f in found),
                "over_budget": max(f["over_budget"] for f in found),
                "broken": sum(f["integrity"] != "ok" for f in found),
                "slowest_ready_s": round(max(f["ready"] for f in found), 3),
            }
        )
    )


if __name__ == "__main__":
    main()
    sys.stdout.flush()
