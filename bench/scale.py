"""A pool of 1,000,000 × 256 float32, memory-mapped: begin, a thousand labels, memory, growth. CPU time, one thread."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import opcal

D, CLASSES = 256, 10


def stored_pool(folder: Path, n: int, seed: int = 0) -> opcal.Pool:
    """Forty overlapping groups, written in chunks; opened memory-mapped."""
    rng = np.random.default_rng(seed)
    centres, head = rng.standard_normal((40, D)), rng.standard_normal((CLASSES, D)) * 1.5 / np.sqrt(D)
    z = np.lib.format.open_memmap(folder / "z.npy", mode="w+", dtype=np.float32, shape=(n, D))
    h = np.lib.format.open_memmap(folder / "h.npy", mode="w+", dtype=np.float32, shape=(n, CLASSES))
    for start in range(0, n, 50_000):
        rows = min(50_000, n - start)
        part = centres[rng.integers(0, 40, rows)] + rng.standard_normal((rows, D))
        z[start : start + rows], h[start : start + rows] = part, part @ head.T
    z.flush(), h.flush()
    opened = (np.load(folder / name, mmap_mode="r") for name in ("z.npy", "h.npy"))
    return opcal.Pool.from_arrays(*opened)


class PeakMemory:
    """The most anonymous memory of this process above what it had at the start, sampled every 20 ms."""

    def __enter__(self) -> PeakMemory:
        self.start, self.most, self.over = anonymous_bytes(), 0, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.over.wait(0.02):
            self.most = max(self.most, anonymous_bytes() - self.start)

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


def anonymous_bytes() -> int:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(next(line for line in text.splitlines() if line.startswith("RssAnon")).split()[1])


def labelled(pool: opcal.Pool, labels: int) -> dict[str, Any]:
    """begin, then labels one by one through ask and tell; about three of four predictions are right."""
    right = (pool.predicted + np.arange(len(pool)) % 7) % 4 > 0
    with PeakMemory() as memory:
        started = time.process_time()
        calibrator = opcal.OperationalCalibrator("paper", audit=0).begin(pool)
        begin, each = time.process_time() - started, []
        for _ in range(labels):
            started = time.process_time()
            i = calibrator.ask(1)
            calibrator.tell(i, correct=right[i])
            each.append(time.process_time() - started)
    return {
        "begin_cpu_s": begin,
        "label_median_ms": 1e3 * float(np.median(each)),
        "label_p95_ms": 1e3 * float(np.quantile(each, 0.95)),
        "first_100_s": sum(each[:100]),
        "anonymous_memory_over_features": memory.most / (len(pool) * D * 4),
    }


def measure(n: int = 1_000_000, labels: int = 1_000) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        small = labelled(stored_pool(Path(folder), n // 10), 100)
    with tempfile.TemporaryDirectory() as folder:
        large = labelled(stored_pool(Path(folder), n), labels)
    return {
        f"n={n // 10}": small,
        f"n={n}": large,
        "first_100_labels_large_over_small": large["first_100_s"] / small["first_100_s"],
    }


if __name__ == "__main__":
    import json

    print(json.dumps(measure(), indent=1))
