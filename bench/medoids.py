"""k-medoids against full FasterPAM, one thread, CPU time: `python bench/medoids.py [--json FILE] [--n 20000]`.

Loss and CPU as ratios to `kmedoids.fasterpam` on the full N x N float32 matrix (its CPU without and with the making of
that matrix), on data with and without clear clusters; then 1,000,000 x 256 memory-mapped. The matrix takes 1.6 GB.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is first imported

import argparse
import importlib.util
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from opcal.core.medoids import cluster

K, D = 30, 64


def clear(rng: np.random.Generator, n: int) -> np.ndarray:
    return 4 * rng.standard_normal((K, D))[rng.integers(0, K, n)] + rng.standard_normal((n, D))


def uneven(rng: np.random.Generator, n: int) -> np.ndarray:
    """Sixty clear clusters for thirty medoids, their sizes falling as a power."""
    share = np.arange(1, 61) ** -1.5
    at = rng.choice(60, n, p=share / share.sum())
    return 4 * rng.standard_normal((60, D))[at] + rng.standard_normal((n, D))


def gaussian(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((n, D))


def cube(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(size=(n, D))


def heavy(rng: np.random.Generator, n: int) -> np.ndarray:
    """Student's t with 3 degrees of freedom."""
    return rng.standard_normal((n, D)) / np.sqrt(rng.chisquare(3, n) / 3)[:, None]


def cauchy(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal((n, D)) / np.sqrt(rng.chisquare(1, n))[:, None]


def plane(rng: np.random.Generator, n: int) -> np.ndarray:
    """Two dimensions in 64 and a little noise: many local optima."""
    return rng.standard_normal((n, 2)) @ rng.standard_normal((2, D)) + 0.05 * rng.standard_normal((n, D))


DATA = (clear, uneven, gaussian, cube, heavy, cauchy, plane)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    out = run()
    return time.process_time() - started, out


def full_matrix(x: np.ndarray) -> np.ndarray:
    """The plain float32 matrix a user of FasterPAM would make, without our repair of near-duplicates."""
    norms = np.einsum("ij,ij->i", x, x)
    d = x @ x.T
    d *= -2
    d += norms
    d += norms[:, None]
    np.maximum(d, 0, out=d)
    np.sqrt(d, out=d)
    np.fill_diagonal(d, 0)
    return d


def against_fasterpam(make: Callable[[np.random.Generator, int], np.ndarray], n: int) -> dict[str, float]:
    x = make(np.random.default_rng(7), n).astype(np.float32)
    ours_s, ours = timed(lambda: cluster(x, K, np.random.default_rng(0)))
    out = {"cpu_s": ours_s}
    if importlib.util.find_spec("kmedoids") is None:
        return out
    import kmedoids

    matrix_s, matrix = timed(lambda: full_matrix(x - x.mean(axis=0)))
    full_s, full = timed(lambda: kmedoids.fasterpam(matrix, K, random_state=0, n_cpu=1))
    return out | {
        "loss_ratio": ours.loss / float(full.loss),
        "cpu_ratio": ours_s / full_s,
        "cpu_ratio_with_matrix": ours_s / (full_s + matrix_s),
        "fasterpam_cpu_s": full_s,
        "matrix_cpu_s": matrix_s,
    }


def anonymous_mb() -> float:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line for line in text.splitlines() if line.startswith("RssAnon")).split()[1]) / 1024


def mapped(n: int = 1_000_000, d: int = 256) -> dict[str, float]:
    """Forty overlapping groups in a file."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, d)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "z.npy"
        z = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
        for start in range(0, n, 50_000):
            rows = min(50_000, n - start)
            part = rng.standard_normal((rows, d), dtype=np.float32)
            z[start : start + rows] = part + centres[rng.integers(0, 40, rows)]
        del z
        before = anonymous_mb()
        seconds, _ = timed(lambda: cluster(np.load(path, mmap_mode="r"), K, np.random.default_rng(0)))
        return {"cpu_s": seconds, "anonymous_mb_kept": anonymous_mb() - before}


def measure(n: int = 20_000) -> dict[str, Any]:
    out: dict[str, Any] = {f"{make.__name__}, n={n}": against_fasterpam(make, n) for make in DATA}
    return out | {"memory-mapped, 1,000,000 x 256": mapped()}


def table(results: dict[str, dict[str, float]]) -> str:
    columns = ("loss_ratio", "cpu_ratio", "cpu_ratio_with_matrix", "cpu_s", "fasterpam_cpu_s", "matrix_cpu_s")
    lines = [" " * 32 + "".join(f"{name:>23}" for name in columns)]
    for name, values in results.items():
        cells = (f"{values[c]:.4f}" if c in values else "-" for c in columns)
        lines.append(f"{name:32}" + "".join(f"{cell:>23}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--n", type=int, default=20_000)
    options = parser.parse_args()
    if importlib.util.find_spec("kmedoids") is None:
        print("kmedoids is not installed (pip install opcal[bench]): our own figures only.")
    results = measure(options.n)
    print(table(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
