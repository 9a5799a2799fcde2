"""`confidence` on new rows against the bare float32 matrix products that it cannot avoid. CPU time, one thread."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import opcal

D, CLUSTERS, LABELS_EACH, ROWS = 512, 30, 33, 100_000


def fitted(n: int = 6_000, seed: int = 0) -> tuple[opcal.OperationalCalibrator, opcal.Pool]:
    """Thirty clusters with 33 labels in each, and 100,000 new rows."""
    rng = np.random.default_rng(seed)
    centres, head = rng.standard_normal((CLUSTERS, D)), rng.standard_normal((10, D)) * 1.5 / np.sqrt(D)

    def rows(n: int) -> opcal.Pool:
        z = (centres[rng.integers(0, CLUSTERS, n)] + rng.standard_normal((n, D))).astype(np.float32)
        return opcal.Pool.from_arrays(z, (z @ head.T).astype(np.float32))

    pool = rows(n)
    calibrator = opcal.OperationalCalibrator("paper").begin(pool)
    at = calibrator.learner_.clustering.assignment  # type: ignore[attr-defined]
    told = np.concatenate([np.flatnonzero(at == c)[:LABELS_EACH] for c in range(at.max() + 1)])
    return calibrator.tell(told, correct=rng.random(len(told)) < 0.7), rows(ROWS)


def bare_products(calibrator: opcal.OperationalCalibrator, pool: opcal.Pool) -> float:
    """rows × medoids and rows × the labelled points of their cluster, 4,096 rows at a time and nothing else."""
    z, medoids = np.asarray(pool.features), np.random.default_rng(0).standard_normal((D, CLUSTERS)).astype(np.float32)
    points = np.random.default_rng(1).standard_normal((D, LABELS_EACH)).astype(np.float32)
    started = time.process_time()
    for start in range(0, len(z), 4096):
        part = z[start : start + 4096]
        part @ medoids
        part @ points
    return time.process_time() - started


def measure(repeats: int = 5) -> dict[str, Any]:
    calibrator, pool = fitted()
    calibrator.confidence(pool)
    ours, bare = [], []
    for _ in range(repeats):
        started = time.process_time()
        calibrator.confidence(pool)
        ours.append(time.process_time() - started)
        bare.append(bare_products(calibrator, pool))
    return {
        "rows_a_second": ROWS / min(ours),
        "bare_products_rows_a_second": ROWS / min(bare),
        "share_of_the_bare_speed": min(bare) / min(ours),
    }


if __name__ == "__main__":
    import json

    print(json.dumps(measure(), indent=1))
