"""All speed figures in one process, one thread, CPU time: `make bench`, or `python bench/run.py --only label,scoring`.

Writes bench.json and bench.md to --out (default docs/).
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

PARTS = ("start", "label", "scoring", "medoids", "scale", "default")
TITLES = {
    "start": "`import opcal`",
    "label": "One label: N = 5,000, d = 512, 500 labels",
    "scoring": "`confidence` on new rows: d = 512, 30 clusters, 33 labels each",
    "medoids": "k-medoids against full FasterPAM",
    "scale": '`method="paper"` on a pool of 1,000,000 × 256, memory-mapped',
    "default": "The default method: refits, asking, scoring",
}


def start() -> dict[str, Any]:
    """CPU seconds of the import in a fresh process, the best of five."""
    code = "import time; t = time.process_time(); import opcal; print(time.process_time() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return {"import_cpu_s": min(float(run.stdout) for run in runs)}


def measure(part: str) -> dict[str, Any]:
    return start() if part == "start" else importlib.import_module(part).measure()


def flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for name, value in values.items():
        label = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(value, dict):
            rows += flat(value, f"{label}: ")
        else:
            rows.append((label, f"{value:.4g}" if isinstance(value, float) else str(value)))
    return rows


def markdown(results: dict[str, Any]) -> str:
    lines = [
        "# Speed",
        "",
        f"`make bench` on {platform.machine()}, Python {platform.python_version()}, {date.today()}; one process,",
        "one thread, CPU time. Ratios are of rivals run in the same process.",
    ]
    for part, values in results.items():
        lines += ["", f"## {TITLES[part]}", "", "| figure | value |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in flat(values)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"comma-separated: {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for part in options.only.split(","):
        print(f"{part} …", file=sys.stderr, flush=True)
        results[part] = measure(part)
        print(json.dumps(results[part], indent=1), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (options.out / "bench.md").write_text(markdown(results), encoding="utf-8")


if __name__ == "__main__":
    main()
