"""A loaded artefact's scoring against the matrix products that it cannot avoid. CPU time, one thread.

    python bench/score.py

`paper` is scored by rows a second at d = 512; `auto` against the kernel with its labelled
points and the product with their weights.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scoring

import opcal

ROWS = 40_000


def cpu(work: Any, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def auto(folder: Path) -> dict[str, float]:
    """d = 512, K = 10, 250 labels."""
    rng = np.random.default_rng(0)
    head = rng.standard_normal((10, 512)) / 16
    z = rng.standard_normal((ROWS, 512)).astype(np.float32)
    pool = opcal.Pool.from_arrays(z[:4000], (z[:4000] @ head.T).astype(np.float32))
    labels = rng.integers(0, 10, 250)
    loaded = opcal.load(opcal.OperationalCalibrator().fit(pool, range(250), labels=labels).save(folder / "a.opcal"))
    new = opcal.Pool.from_arrays(z, (z @ head.T).astype(np.float32))
    points, alpha = z[:250].T.copy(), rng.standard_normal((250, 30)).astype(np.float32)

    def bare() -> None:
        for start in range(0, ROWS, 4096):
            (z[start : start + 4096] @ points) @ alpha

    ours, spread, products = cpu(lambda: loaded.confidence(new)), cpu(lambda: loaded.posterior(new)), cpu(bare)
    return {
        "rows_a_second": ROWS / ours,
        "rows_a_second_with_sd": ROWS / spread,
        "times_the_bare_kernel_products": ours / products,
    }


def paper(folder: Path) -> dict[str, float]:
    calibrator, new = scoring.fitted()
    loaded = opcal.load(calibrator.save(folder / "p.opcal"))
    scored, fenced = cpu(lambda: loaded.confidence(new)), cpu(lambda: loaded.judged(new.outputs))
    return {"rows_a_second": len(new) / scored, "rows_a_second_with_fence_and_above": len(new) / fenced}


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return {"paper": paper(Path(folder)), "auto": auto(Path(folder))}


if __name__ == "__main__":
    import json

    print(json.dumps(measure(), indent=1))
