"""Draw, estimate, compare with the truth, again and again. Run counts: OPCAL_RUNS (default 500)."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import t as student

import opcal
from opcal.assess.crossfit import cross_fitted
from opcal.assess.looks import looks

RUNS = int(os.environ.get("OPCAL_RUNS", "500"))
TASKS = ("t1_mnist_usps", "t2_polarity", "t3_cifar_stl", "t5_pacs_art", "t8_pneumonia")


BY_CHANCE = 0.0005
"""Below this chance a test of label savings fails; test_simulation.py measures that fewer than 1 in 1,000 then do."""


def slack(rate: float, runs: int | None = None) -> float:
    """What chance may add with fewer than 500 runs; none with 500."""
    n = RUNS if runs is None else runs
    return max(0.0, 2.5 * np.sqrt(rate * (1 - rate)) * (1 / np.sqrt(n) - 1 / np.sqrt(500)))


@cache
def arrays(folder: Path, task: str):
    d = np.load(folder / "bench" / f"{task}.npz")
    z = d["features"]
    h = d["logits"] if "logits" in d else z @ d["head_weight"].T + d["head_bias"]
    return z, h, d["labels"].astype(int)


def half(folder: Path, task: str, seed: int):
    """A random half as the pool, and its truth."""
    z, h, y = arrays(folder, task)
    rows = np.random.default_rng(seed).permutation(len(y))[: len(y) // 2]
    return opcal.Pool.from_arrays(z[rows], h[rows]), y[rows]


def synthetic(seed: int, n: int = 600, accuracy: float = 0.8):
    """Five classes in eight dimensions, overconfident, with errors that are partly foreseeable."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((5, 8))
    y = rng.integers(0, 5, n)
    z = centres[y] + 0.8 * rng.standard_normal((n, 8))
    h = 3 * z @ centres.T - 1.5 * (centres**2).sum(1)
    share = accuracy / max(np.mean(h.argmax(1) == y), 1e-9)
    noisy = rng.random(n) > share
    y = np.where(noisy & (h.argmax(1) == y), (y + 1) % 5, y)
    return opcal.Pool.from_arrays(z, h), y


def labelled(pool, y, n: int, seed: int, audit: float):
    cal = opcal.OperationalCalibrator(audit=audit, random_state=seed).begin(pool, budget=n)
    while len(i := cal.ask(n if audit == 1 else 10)):
        cal.tell(i, labels=y[i])
    assert len(cal.answers_) == n
    return cal


@cache
def runs(folder: Path, task: str, n: int, audit: float, count: int) -> np.ndarray:
    """Per run: truth, estimate, lower, upper, simple estimate, exact lower, exact upper, plain mean of all answers."""
    found = []
    for seed in range(count):
        pool, y = synthetic(seed) if task == "synthetic" else half(folder, task, seed)
        cal = labelled(pool, y, n, seed, audit)
        a = opcal.assess.accuracy(cal)
        naive = cal.answers_.correct.mean()
        truth = np.mean(pool.predicted == y)
        found.append((truth, a.estimate, a.lower, a.upper, np.mean(a.crossfit.correct), *a.exact, naive))
    return np.array(found)


def covered(found: np.ndarray, lower: int, upper: int) -> float:
    return float(np.mean((found[:, lower] <= found[:, 0] + 1e-9) & (found[:, 0] <= found[:, upper] + 1e-9)))


def saving(found: np.ndarray) -> float:
    """How many times smaller the mean squared error is than that of the plain mean of the same random labels."""
    error = np.mean((found[:, 1] - found[:, 0]) ** 2)
    return float(np.mean((found[:, 4] - found[:, 0]) ** 2) / error)


def chance_if_it_saved(found: np.ndarray, least: float) -> float:
    """The chance of a saving as small as this if the mean squared error truly were `least` times smaller.

    One-sided paired t test: both errors are of the same draws, and their ratio alone has a spread of about 1.5/√runs.
    """
    ours, plain = ((found[:, column] - found[:, 0]) ** 2 for column in (1, 4))
    gain = plain - least * ours
    spread = gain.std(ddof=1) / np.sqrt(len(gain))
    return float(student.cdf(gain.mean() / spread, len(gain) - 1)) if spread else float(gain.mean() >= 0)


def sequence_misses(folder: Path, task: str, n: int, seed: int) -> bool:
    """Whether the confidence sequence ever lost the truth, at any of its n looks."""
    pool, y = half(folder, task, seed)
    cal = labelled(pool, y, n, seed, 1.0)
    at = looks(cal, cross_fitted(cal, 2), pool, 0.95)
    truth = np.mean(pool.predicted == y)
    return bool(((at.lower > truth + 1e-9) | (at.upper < truth - 1e-9)).any())


def certificate(folder: Path, seed: int, learn: int, fresh: int):
    """(certified, coverage of what is certified, violated) on digits at ε = δ = .1."""
    pool, y = half(folder, "t1_mnist_usps", 10_000 + seed)
    cal = labelled(pool, y, learn, seed, 0.25)
    region = opcal.assess.region(cal, error=0.1)
    i = region.ask(fresh)
    found = opcal.assess.certify(region, i, labels=y[i], delta=0.1)
    wrong = np.mean((pool.predicted != y)[found.mask]) if found.mask.any() else 0.0
    return found.certified, found.coverage if found.certified else 0.0, found.certified and wrong > 0.1
