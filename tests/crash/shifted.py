"""One annotator whose clock somebody sets: python shifted.py SESSION NAME OUT [--hold]; it labels until killed.

Run with libfaketime before it. Each line of OUT is one event: "wall 1732000000", "since UPTIME" (before it asked),
"held ITEM", "got ID ITEM LABEL".
"""

from __future__ import annotations

import os
import sys
import time
import uuid

from opcal.session import Session
from opcal.session.clock import ticks


def main(where: str, name: str, file: str, hold: bool) -> None:
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Session.open(where) as session:
        while True:
            os.write(out, f"since {ticks()[1]}\n".encode())
            tasks = session.lease(name, 2)
            os.write(out, f"wall {time.time():.0f}\n".encode())
            os.write(out, "".join(f"held {task.item}\n" for task in tasks).encode())
            if hold:
                time.sleep(3600)
            for task in tasks:
                id, label = uuid.uuid4().hex, task.position % 4
                session.answer(name, task.item, label, id=id)
                os.write(out, f"got {id} {task.item} {label}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:4], hold="--hold" in sys.argv)
