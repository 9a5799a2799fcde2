"""The whole loop on real X-rays: label, export, serve, the scanner changes, watch, label again, export again, reload.

    python examples/production_loop.py [FOLDER]

Runs in FOLDER (a temporary one by default) and prints what it sees. The truth answers where people would.
The new scanner is made up: the network's representations of the second half are scaled and shifted.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

import opcal
from opcal.artifact import save
from opcal.artifact.figures import held_out_figures
from opcal.data import load_pneumonia
from opcal.metrics import brier
from opcal.monitor import history, look, start_next
from opcal.session import Session
from opcal.web.security import origins
from opcal.web.serving import Holder, application


def main(folder: Path) -> dict[str, Any]:
    x = load_pneumonia()
    april, may, june = np.arange(0, 300), np.arange(300, 450), np.arange(450, 624)
    changed = x.features * 0.7 + 0.5 * x.features.mean(0)
    new_logits = changed @ x.head_weight.T + x.head_bias

    def pool(rows: Any, z: Any = x.features, h: Any = x.logits) -> opcal.Pool:
        return opcal.Pool.from_arrays(z[rows], h[rows], classes=x.classes, ids=[x.ids[i] for i in rows])

    with Session.start(pool(april), folder / "ward3", budget=40) as session:
        answer(session, x, april)
        calibrator = session.calibrator()
        artifact = save(calibrator, folder / "ward3.opcal", audit=held_out_figures(calibrator))
        first = opcal.load(artifact).digest
        print("exported", artifact.name, first[:12])

        with Service(artifact) as service:
            told = service.score(x.features[may], x.logits[may])
            right = x.logits[may].argmax(1) == x.labels[may]
            before = brier(pool(may).confidence, right), brier(told["confidence"], right)
            print(f"in May, as in April: Brier of the model {before[0]:.3f}, served {before[1]:.3f}")

            quiet = look(session, pool(may), name="May")
            alarm = look(session, pool(june, changed, new_logits), name="June")
            print("May alarms:", quiet.alarm, " June alarms:", alarm.alarm, " expected accuracy", alarm.now.accuracy)

            here, unseen = june[::2], june[1::2]
            with start_next(session, pool(here, changed, new_logits), folder / "june", budget=20) as second:
                answer(second, x, here)
                save(second.calibrator(), artifact)
                rounds = history(second)
            while service.score(changed[unseen], new_logits[unseen])["artifact"] == first:
                time.sleep(0.05)
            told = service.score(changed[unseen], new_logits[unseen])
            right = new_logits[unseen].argmax(1) == x.labels[unseen]
            after = brier(pool(unseen, changed, new_logits).confidence, right), brier(told["confidence"], right)
            print(f"in June, on the new scanner: Brier of the model {after[0]:.3f}, served {after[1]:.3f}")
    return {"before": before, "after": after, "quiet": quiet.alarm, "alarm": alarm.alarm, "rounds": rounds}


def answer(session: Session, x: Any, rows: Any) -> None:
    """What a person does on the labelling page."""
    session.background = False
    truth = {x.ids[i]: int(x.labels[i]) for i in rows}
    while tasks := session.lease("radiologist", 10):
        for task in tasks:
            session.answer("radiologist", task.item, truth[task.item])


class Service:
    """`opcal serve` inside this process."""

    def __init__(self, artifact: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        app: Any = application(Holder(artifact, seconds=0.05), origins=origins("127.0.0.1", self.port))
        self.server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_config=None, access_log=False))
        self.thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> Service:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()

    def score(self, features: Any, logits: Any) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        body = json.dumps({"features": features.tolist(), "logits": logits.tolist()})
        connection.request("POST", "/score", body, {"content-type": "application/json"})
        told: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return told


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
