"""Many annotators at once: python crowd.py SESSION --people 32 (prints what they saw as JSON).

Each process runs several threads over one Session object; every thread notes when it held which item.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from pathlib import Path

from opcal.session import Session

PROCESSES = 4


def annotator(session: Session, name: str, held: list[tuple[str, float, float]], errors: list[str]) -> None:
    try:
        while tasks := session.lease(name, 1 + hash(name) % 3):
            since = time.monotonic()
            for task in tasks:
                # Noted before the answer, for the item is free for others from the answer on.
                held.append((task.item, since, time.monotonic()))
                session.answer(name, task.item, task.position % 4)
    except Exception:
        errors.append(traceback.format_exc(limit=-3))


def process(where: str, number: int, threads: int, out: Path) -> None:
    held: list[tuple[str, float, float]] = []
    errors: list[str] = []
    with Session.open(where) as session:
        people = [
            threading.Thread(target=annotator, args=(session, f"p{number}t{t}", held, errors)) for t in range(threads)
        ]
        for one in people:
            one.start()
        for one in people:
            one.join()
    out.write_text(json.dumps({"held": held, "errors": errors}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("session")
    parser.add_argument("--people", type=int, default=32)
    given = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        pids = []
        for number in range(PROCESSES):
            if (pid := os.fork()) == 0:
                try:
                    process(given.session, number, given.people // PROCESSES, Path(folder) / str(number))
                finally:
                    os._exit(0)
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)
        found = [json.loads(file.read_text()) for file in Path(folder).iterdir()]
    spans = defaultdict(list)
    for item, since, until in (h for f in found for h in f["held"]):
        spans[item].append((since, until))
    twice = sum(
        any(b[0] < a[1] for a, b in zip(sorted(s), sorted(s)[1:], strict=False)) for s in spans.values() if len(s) > 1
    )
    with Session.open(given.session) as session:
        status = session.status()
    print(
        json.dumps(
            {
                "people": given.people,
                "answered": status.answered,
                "budget": status.budget,
                "events_of_answers": sum(len(s) for s in spans.values()),
                "leased_twice_at_once": twice,
                "errors": [e for f in found for e in f["errors"]],
                "seconds": round(time.perf_counter() - started, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
