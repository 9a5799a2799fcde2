"""Loads the files named on standard input, one a line, and tells of each what became of it and what it cost."""

import json
import sys
import time
from pathlib import Path

import opcal
from opcal.errors import ArtifactError

STATUS, FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def megabytes(name: str) -> float:
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def loaded(path: str) -> str:
    try:
        opcal.load(path)
    except ArtifactError:
        return "refused"
    except BaseException as error:
        return repr(error)
    return "loaded"


def told(path: str) -> dict[str, object]:
    FORGET.write_text("5")  # the peak counts from here
    before, modules, started = megabytes("VmRSS"), set(sys.modules), time.process_time()
    found = loaded(path)
    seconds = time.process_time() - started  # CPU time: a busy machine is not the file's fault
    new = sorted(set(sys.modules) - modules)
    return {"found": found, "seconds": seconds, "megabytes": megabytes("VmHWM") - before, "imported": new}


if __name__ == "__main__":
    loaded(sys.argv[1])  # what every loading imports
    for line in sys.stdin:
        print(json.dumps(told(line.rstrip("\n"))), flush=True)
