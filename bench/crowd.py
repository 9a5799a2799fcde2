"""A crowd on one labelling server: latency of an answer, answers lost or doubled, growth of memory.

    python bench/crowd.py --annotators 50 --minutes 10

Starts `opcal label` as a process of its own on a synthetic session. Every annotator is a page: it signs in by a link,
listens to the panel, leases four items, thinks for a while, answers, and sends one answer in twenty a second time, as
a page does whose connection broke. Prints JSON; ends with 1 where an answer was lost or doubled or an error came.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np

from opcal import Pool
from opcal.session import Session

ITEMS, DIMENSIONS, CLASSES = 8_000, 32, 4


@dataclass
class Crowd:
    base: str
    think: float
    until: float
    answered: dict[tuple[str, str], int] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"answer": [], "lease": []})
    errors: list[str] = field(default_factory=list)
    events: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def connect(self) -> http.client.HTTPConnection:
        where = urlsplit(self.base)
        return http.client.HTTPConnection(where.hostname or "", where.port, timeout=120)

    def sign_in(self, link: str) -> dict[str, str]:
        connection = self.connect()
        connection.request("GET", urlsplit(link).path)
        cookie = (connection.getresponse().getheader("set-cookie") or "").split(";")[0]
        return {"cookie": cookie, "origin": self.base, "sec-fetch-site": "same-origin", "accept": "application/json"}

    def post(self, connection: http.client.HTTPConnection, headers: dict[str, str], path: str, body: object) -> dict:
        begun = time.perf_counter()
        connection.connect()  # a server may have closed an idle one
        connection.request("POST", path, json.dumps(body), headers | {"content-type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        with self.lock:
            self.seconds[path.rsplit("/", 1)[1].removesuffix("s")].append(time.perf_counter() - begun)
            if response.status != 200:
                self.errors.append(f"{path} {response.status} {content[:200]!r}")
        return json.loads(content) if response.status == 200 else {}

    def listen(self, link: str) -> None:
        connection, headers = self.connect(), self.sign_in(link)
        connection.request("GET", "/api/live", headers=headers)
        stream = connection.getresponse()
        while time.time() < self.until and (line := stream.readline()):
            with self.lock:
                self.events += line.startswith(b"data:")

    def label(self, name: str, link: str) -> None:
        dice = random.Random(name)
        connection = self.connect()
        headers = self.sign_in(link) | {"x-opcal-annotator": quote(name)}
        time.sleep(dice.uniform(0, self.think))
        while time.time() < self.until:
            tasks = self.post(connection, headers, "/api/lease", {"k": 4}).get("tasks", [])
            if not tasks:
                time.sleep(1)
                continue
            task = tasks[0]
            time.sleep(dice.expovariate(1 / self.think))
            label = dice.randrange(CLASSES)
            body = {"id": f"{dice.getrandbits(128):032x}", "item": task["item"], "label": label}
            for _ in range(2 if dice.random() < 0.05 else 1):
                if self.post(connection, headers, "/api/answers", body):
                    with self.lock:
                        self.answered[name, task["item"]] = label


def resident(pid: int) -> float:
    """Megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def watched(pid: int, until: float) -> list[float]:
    """Megabytes, every two seconds; one look alone may fall into a refit."""
    seen = []
    while time.time() < until:
        seen.append(resident(pid))
        time.sleep(2)
    return seen


def synthetic(folder: Path) -> None:
    r = np.random.default_rng(0)
    features = r.normal(size=(ITEMS, DIMENSIONS)).astype(np.float32)
    logits = (features @ r.normal(size=(DIMENSIONS, CLASSES))).astype(np.float32)
    payload = [f"Case {i}: nothing of note." for i in range(ITEMS)]
    Session.start(Pool.from_arrays(features, logits, payload=payload), folder, ahead=200).close()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--annotators", type=int, default=50)
    options.add_argument("--minutes", type=float, default=10)
    options.add_argument("--think", type=float, default=8.0, help="mean seconds over an item")
    chosen = options.parse_args()
    names = [f"annotator {i}" for i in range(chosen.annotators)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "session"
        synthetic(folder)
        given = [word for name in names for word in ("--annotator", name)]
        command = [
            str(Path(sys.executable).parent / "opcal"),
            "label",
            str(folder),
            "--json",
            "--owner",
            "owner",
            *given,
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        about = json.loads(server.stdout.readline())
        crowd = Crowd(about["base"], chosen.think, time.time() + 60 * chosen.minutes)
        people = [threading.Thread(target=crowd.label, args=(n, about["links"][n])) for n in names]
        listeners = [threading.Thread(target=crowd.listen, args=(about["links"][n],), daemon=True) for n in names]
        for thread in people + listeners:
            thread.start()
        seen = watched(server.pid, crowd.until)
        for thread in people:
            thread.join()
        tenth = max(1, len(seen) // 10)
        early, late = (float(np.median(part)) for part in (seen[tenth : 3 * tenth], seen[-2 * tenth :]))
        server.kill()  # without a farewell: what was acknowledged must be there
        server.wait()
        with Session.open(folder) as session:
            stored = [(row["annotator"], row["item"], int(row["answer"])) for row in session.answers()]
    return report(crowd, stored, early, late)


def report(crowd: Crowd, stored: list[tuple[str, str, int]], early: float, late: float) -> int:
    sent = {(who, item, label) for (who, item), label in crowd.answered.items()}
    figures = {
        "answers": len(sent),
        "lost": len(sent - set(stored)),
        "doubled_or_unknown": len(stored) - len(sent & set(stored)),
        "errors": len(crowd.errors),
        "first_errors": crowd.errors[:3],
        "panel_events": crowd.events,
        "resident_mb": [round(early), round(late)],  # medians of the second and third tenth, and of the last two
        "growth": round(late / early - 1, 3),
    }
    for kind, seconds in crowd.seconds.items():
        p = np.quantile(seconds, [0.5, 0.95, 0.99, 1]) * 1000
        figures[f"{kind}_ms"] = dict(zip(("p50", "p95", "p99", "max"), p.round(1).tolist(), strict=True))
    print(json.dumps(figures, indent=1))
    return int(bool(figures["lost"] or figures["doubled_or_unknown"] or figures["errors"]))


if __name__ == "__main__":
    sys.exit(main())
