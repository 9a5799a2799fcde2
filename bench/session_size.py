"""A labelling session of 1,000,000 items on SQLite: start, and how long `ask` and `tell` take. Wall time.

Run: python bench/session_size.py [--items N] [--answers K]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scale import stored_pool

from opcal.session import Session


def measure(items: int, answers: int, think: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        pool = stored_pool(Path(folder), items)
        started = time.perf_counter()
        session = Session.start(pool, Path(folder) / "session")
        start = time.perf_counter() - started
        ask, tell = labelled(session, answers, think)
        digest = timed(session.calibrator)
        session.close()
        reopened = Session.open(Path(folder) / "session")
        ready = timed(reopened.status)
        first = timed(lambda: reopened.lease("ann"))
        reopened.close()
    return {
        "items": items,
        "answers": answers,
        "seconds_to_think": think,
        "start_s": round(start, 1),
        "ask_p50_ms": round(1e3 * float(np.quantile(ask, 0.5)), 1),
        "ask_p95_ms": round(1e3 * float(np.quantile(ask, 0.95)), 1),
        "tell_p50_ms": round(1e3 * float(np.quantile(tell, 0.5)), 1),
        "tell_p95_ms": round(1e3 * float(np.quantile(tell, 0.95)), 1),
        "calibrator_s": round(digest, 1),
        "status_after_reopening_s": round(ready, 3),
        "first_ask_after_reopening_s": round(first, 1),
    }


def labelled(session: Session, answers: int, think: float) -> tuple[list[float], list[float]]:
    ask, tell = [], []
    for number in range(answers):
        started = time.perf_counter()
        (task,) = session.lease("ann")
        asked = time.perf_counter()
        time.sleep(think)
        answered = time.perf_counter()
        session.answer("ann", task.item, number % 10)
        tell.append(time.perf_counter() - answered)
        ask.append(asked - started)
    return ask, tell


def timed(call: Any) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--answers", type=int, default=300)
    parser.add_argument("--think", type=float, default=0.0, help="Seconds between asking and telling.")
    given = parser.parse_args()
    print(json.dumps(measure(given.items, given.answers, given.think), indent=1))
