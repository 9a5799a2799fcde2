"""The default method at a person's screen and on a large pool: refits, asking, scoring. CPU time, one thread."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scale import D, PeakMemory, stored_pool

import opcal

LABELS, MORE = 250, 10


def grouped_pool(n: int, d: int, classes: int, seed: int = 0) -> tuple[opcal.Pool, Any]:
    """Features around class centres, a head that sees them dimly, so that about half of the predictions are right."""
    rng = np.random.default_rng(seed)
    centres, truth = rng.standard_normal((classes, d)), rng.integers(0, classes, n)
    z = (centres[truth] + 2 * rng.standard_normal((n, d))).astype(np.float32)
    w = (centres + 3 * rng.standard_normal((classes, d))).astype(np.float32) / np.sqrt(d)
    return opcal.Pool.from_arrays(z, z @ w.T), truth


def refit(classes: int) -> dict[str, float]:
    """Cold fit on 250 labels, then again after 10 more; scoring 100 rows each time."""
    pool, truth = grouped_pool(3_000, 1_280, classes)
    few, at = pool.take(np.arange(100)), np.random.default_rng(1).permutation(3_000)[: LABELS + MORE]
    calibrator = opcal.OperationalCalibrator(audit=0).fit(pool, at[:1], labels=truth[at[:1]])
    calibrator.confidence(few)
    spent = []
    for part in (at[1:LABELS], at[LABELS:]):
        calibrator.tell(part, labels=truth[part])
        started = time.process_time()
        calibrator.confidence(few)
        spent.append(time.process_time() - started)
    return {"refit_250_cpu_s": spent[0], "refit_after_10_more_cpu_s": spent[1], "warm_over_cold": spent[1] / spent[0]}


def large(n: int = 1_000_000, labels: int = 500) -> dict[str, float]:
    """A memory-mapped pool of 1,000,000 × 256: begin, ten items at a time, all confidences."""
    with tempfile.TemporaryDirectory() as folder:
        pool = stored_pool(Path(folder), n)
        right = (pool.predicted + np.arange(n) % 7) % 4 > 0
        truth = np.where(right, pool.predicted, (pool.predicted + 1) % pool.logits.shape[1])  # type: ignore[union-attr]
        started = time.process_time()
        calibrator = opcal.OperationalCalibrator().begin(pool)
        begin, asking = time.process_time() - started, []
        while len(calibrator.answers_) < labels:
            started = time.process_time()
            i = calibrator.ask(10)
            asking.append(time.process_time() - started)
            calibrator.tell(i, labels=truth[i])
        with PeakMemory() as memory:
            started = time.process_time()
            calibrator.confidence(pool)
            scoring = time.process_time() - started
    return {
        "begin_cpu_s": begin,
        "ask_10_median_cpu_s": float(np.median(asking)),
        "ask_10_slowest_cpu_s": max(asking),
        "confidence_cpu_s": scoring,
        "anonymous_memory_over_features": memory.most / (n * D * 4),
    }


def measure() -> dict[str, Any]:
    return {
        "d=1280, 10 classes": refit(10),
        "d=1280, 1000 classes": refit(1000),
        "1,000,000 x 256, 500 labels": large(),
    }


if __name__ == "__main__":
    import json

    print(json.dumps(measure(), indent=1))
