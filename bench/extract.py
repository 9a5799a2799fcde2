"""Extraction against the plain forward pass and against two passes; memory over many items: `make bench-extract`.

Each ratio is of throughputs in one process, same model, batch size and threads, rounds taken in turn, the best of
each; set-up, hashing, syncing and the last step of an extraction count. Writes extract.json and extract.md to --out.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from opcal.extract import extract

BATCH = 32


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.short = nn.Conv2d(before, after, 1, stride, bias=False) if stride > 1 or before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norms[0](self.one(x)))
        return torch.relu(self.norms[1](self.two(y)) + self.short(x))


class ResNet18(nn.Module):
    """ResNet-18: four stages of two basic blocks, 512 features, 1,000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        widths = [64, 64, 128, 256, 512]
        stages = [(Block(a, b, 1 if a == b else 2), Block(b, b, 1)) for a, b in pairwise(widths)]
        self.body = nn.Sequential(*(block for stage in stages for block in stage))
        self.fc = nn.Linear(512, 1000)

    def features(self, x: Tensor) -> Tensor:
        return self.body(self.stem(x)).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.features(x))


class Transformer(nn.Module):
    """Four layers of width 128 over 64 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5000, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.fc = nn.Linear(128, 4)

    def features(self, x: Tensor) -> Tensor:
        return self.body(self.words(x)).mean(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.features(x))


def cases() -> dict[str, tuple[nn.Module, Any]]:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    images = rng.standard_normal((512, 3, 96, 96)).astype(np.float32)
    return {
        "ResNet-18, 96 × 96": (ResNet18().eval(), images),
        "transformer, 64 tokens": (Transformer().eval(), rng.integers(0, 5000, (2048, 64))),
    }


def passes(functions: list[Callable[[Tensor], Tensor]], x: Any) -> None:
    with torch.inference_mode():
        for function in functions:
            for start in range(0, len(x), BATCH):
                function(torch.from_numpy(x[start : start + BATCH]))


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def throughput(model: Any, x: Any, rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        works: dict[str, Callable[[], Any]] = {
            "plain": lambda: passes([model], x),
            "extract": lambda: extract(model, x, out=Path(folder) / "pool", batch_size=BATCH),
            "two_passes": lambda: passes([model.features, model], x),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
        passes([model], x[: 2 * BATCH])
        for _ in range(rounds):
            for name, work in works.items():
                found[name].append(timed(work))
    best = {name: np.min(times, axis=0) for name, times in found.items()}
    return {
        "items_a_second_plain": len(x) / best["plain"][0],
        "extract_over_plain_cpu": best["plain"][1] / best["extract"][1],
        "extract_over_plain_wall": best["plain"][0] / best["extract"][0],
        "two_passes_over_plain_cpu": best["plain"][1] / best["two_passes"][1],
    }


MEMORY = """
import json, os, sys, tempfile, numpy as np, torch
from opcal.extract import extract
n = int(sys.argv[1])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
seen = []
def items():
    rng = np.random.default_rng(0)
    for start in range(0, n, 1000):
        yield from rng.standard_normal((1000, 32), dtype=np.float32)
def progress(done, total):
    if done % 10_240 < 256:
        seen.append((done, resident()))
with tempfile.TemporaryDirectory() as folder:
    extract(model, items(), out=folder + "/pool", batch_size=256, progress=progress)
    seen.append((n, resident()))
first = max(r for done, r in seen if done <= 100_000)
later = max(r for done, r in seen if done > 100_000)
print(json.dumps({"items": n, "megabytes_after_100_000": first / 2**20, "largest_later_over_that": later / first}))
"""


def memory(n: int) -> dict[str, float]:
    found = subprocess.run([sys.executable, "-c", MEMORY, str(n)], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


def slices(trials: int = 150) -> dict[str, float]:
    """How often a product over part of a cluster's rows differs from that part of the product over all of them."""
    rng, differ = np.random.default_rng(0), 0
    for _ in range(trials):
        n, h = int(rng.integers(300, 9000)), int(rng.integers(1, 129))
        rows, weights = rng.standard_normal((h, n)).astype(np.float32), rng.standard_normal(h).astype(np.float32)
        start = int(rng.integers(0, n - 200))
        part = slice(start, start + int(rng.integers(64, n - start + 1)))
        differ += not np.array_equal((weights @ rows)[part], weights @ np.ascontiguousarray(rows[:, part]))
    return {"trials": trials, "share_that_differs": differ / trials}


def markdown(results: dict[str, dict[str, float]]) -> str:
    lines = [
        "# Speed and memory of extraction",
        "",
        f"`make bench-extract` on {platform.machine()}, Python {platform.python_version()}, torch {torch.__version__},",
        f"{date.today()}; batches of {BATCH}, {torch.get_num_threads()} thread(s); the best of rounds taken in turn.",
    ]
    for name, values in results.items():
        lines += ["", f"## {name}", "", "| figure | value |", "|---|---|"]
        lines += [f"| {key.replace('_', ' ')} | {value:.4g} |" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=1_000_000, help="of the memory run")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    results = {}
    for name, (model, x) in cases().items():
        print(f"{name} …", file=sys.stderr, flush=True)
        results[name] = throughput(model, x, options.rounds)
        print(json.dumps(results[name], indent=1), flush=True)
    print("memory …", file=sys.stderr, flush=True)
    results["Memory over many items"] = memory(options.items)
    print(json.dumps(results["Memory over many items"], indent=1))
    results["Products over a slice of a cluster, float32"] = slices()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "extract.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (options.out / "extract-bench.md").write_text(markdown(results), encoding="utf-8")


if __name__ == "__main__":
    main()
