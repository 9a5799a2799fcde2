"""How good the confidence is, and for how few labels: every method on every shift, paired over random splits.

    python bench/efficacy.py --data ../shared/bench --splits 10 --shares .02 .05 .1 1 --out docs

Each .npz file of the folder holds features, labels and logits (or head_weight and head_bias). A split is half pool,
half unseen test. Runs are kept in OUT/efficacy.jsonl: what is there is not run again, so a stopped bench goes on.
Then the table OUT/efficacy.md and the plot OUT/images/efficacy.png are written. `authors_gp.py` in the data folder is
the authors' own Gaussian process; without it, ratios are to `paper, random labels`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import opcal
from opcal import metrics

AUTHORS, PAPER = "authors' GP, random labels", "paper, random labels"


@dataclass(frozen=True)
class Split:
    """Half of a shift is the pool, the other half is seen only when it is scored."""

    pool: opcal.Pool
    truth: np.ndarray[Any, Any]
    test: opcal.Pool
    test_truth: np.ndarray[Any, Any]
    labels: int
    seed: int
    folder: Path

    @property
    def random(self) -> np.ndarray[Any, Any]:
        """The random labels of the reference: the same for every method."""
        return np.random.default_rng(self.seed).permutation(len(self.truth))[: self.labels]


def split_of(path: Path, split: int, share: float) -> Split:
    z, h, y = arrays(path)
    order = np.random.default_rng(1000 + split).permutation(len(y))
    here, there = order[: len(y) // 2], order[len(y) // 2 :]
    labels = min(len(here), max(8, round(share * len(here))))
    pools = [opcal.Pool.from_arrays(z[rows], h[rows]) for rows in (here, there)]
    return Split(pools[0], y[here], pools[1], y[there], labels, split, path.parent)


@cache
def arrays(path: Path) -> tuple[Any, Any, Any]:
    with np.load(path) as d:
        z = d["features"].astype(np.float32)
        given = d["logits"] if "logits" in d.files else z @ d["head_weight"].astype(np.float32).T + d["head_bias"]
        return z, given.astype(np.float32), d["labels"].astype(int)


def own_selection(s: Split, method: Any, *, correct_only: bool = False) -> Any:
    """Asked with default arguments, the audit slice included, in batches of ten or of a twentieth of many labels."""
    calibrator = opcal.OperationalCalibrator(method, random_state=s.seed).begin(s.pool, budget=s.labels)
    while len(i := calibrator.ask(max(10, s.labels // 20))):
        if correct_only:
            calibrator.tell(i, correct=s.pool.predicted[i] == s.truth[i])
        else:
            calibrator.tell(i, labels=s.truth[i])
    return calibrator.confidence(s.test)


def random_labels(s: Split, method: Any) -> Any:
    calibrator = opcal.OperationalCalibrator(method, random_state=s.seed)
    return calibrator.fit(s.pool, s.random, labels=s.truth[s.random]).confidence(s.test)


def authors(s: Split) -> Any:
    spec = importlib.util.spec_from_file_location("authors_gp", s.folder / "authors_gp.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(s.seed)
    i = rng.permutation(len(s.truth))[: s.labels]
    residual = (s.pool.predicted == s.truth)[i] - s.pool.confidence[i]
    z = s.pool.features
    return module.authors_gp(z, z[i], residual, s.test.features, s.test.confidence, rng)


def temperature(s: Split) -> Any:
    """One scalar by maximum likelihood (Guo et al. 2017)."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    h, y = np.asarray(s.pool.logits, float)[s.random], s.truth[s.random]
    loss = lambda t: -log_softmax(h * np.exp(-t), axis=1)[np.arange(len(y)), y].mean()  # noqa: E731
    best = minimize_scalar(loss, bounds=(-3, 5), method="bounded").x
    return np.exp(log_softmax(np.asarray(s.test.logits, float) * np.exp(-best), axis=1)).max(1)


def matrix(s: Split) -> Any:
    """Logistic regression of the class on the logits; a class without labels has probability 0."""
    from sklearn.linear_model import LogisticRegression

    h, y = np.asarray(s.pool.logits, float), s.truth
    if len(set(y[s.random].tolist())) < 2:
        return (s.test.predicted == y[s.random][0]).astype(float)
    model = LogisticRegression(max_iter=2000).fit(h[s.random], y[s.random])
    column = {int(c): k for k, c in enumerate(model.classes_)}
    p = model.predict_proba(np.asarray(s.test.logits, float))
    return np.array([p[row, column[c]] if c in column else 0.0 for row, c in enumerate(s.test.predicted.tolist())])


METHODS: dict[str, Callable[[Split], Any]] = {
    "uncalibrated": lambda s: s.test.confidence,
    "temperature": temperature,
    "matrix logistic regression": matrix,
    AUTHORS: authors,
    PAPER: lambda s: random_labels(s, "paper"),
    "paper, own selection": lambda s: own_selection(s, "paper"),
    "auto, right/wrong only": lambda s: own_selection(s, "auto", correct_only=True),
    "auto, random labels": lambda s: random_labels(s, "auto"),
    "auto": lambda s: own_selection(s, "auto"),
}


def run(job: tuple[Path, int, float, str]) -> dict[str, Any]:
    path, split, share, method = job
    s = split_of(path, split, share)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's warnings of the rivals' optimisers
        confidence = METHODS[method](s)
    right = s.test.predicted == s.test_truth
    row: dict[str, Any] = {"file": path.stem, "split": split, "share": share, "labels": s.labels, "method": method}
    row |= {"seconds": time.process_time() - started, "accuracy": float(right.mean()), "tested": len(right)}
    row["brier"] = metrics.brier(confidence, right)
    for threshold in (0.8, 0.9):
        compared, counted = (
            metrics.lce_comparison(confidence, right, threshold),
            metrics.confident(confidence, right, threshold),
        )
        row |= {f"lce{threshold}": compared.lce, f"nothing{threshold}": compared.act_on_nothing}
        row |= {f"right{threshold}": counted.right, f"false{threshold}": counted.false}
    return row


def jobs(paths: list[Path], splits: int, shares: list[float], methods: list[str], slow: int) -> Iterator[Any]:
    for path in paths:
        authors_there = (path.parent / "authors_gp.py").exists()
        for split in range(splits):
            for share in shares:
                for method in methods:
                    too_slow = arrays(path)[1].shape[1] > 100 and share == 1 and split >= slow
                    if not too_slow and (method != AUTHORS or authors_there):
                        yield path, split, share, method


def known(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/bench"))
    parser.add_argument("--files", nargs="*", help="stems of the files; all of the folder if left out")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--shares", type=float, nargs="*", default=[0.02, 0.05, 0.1, 1.0])
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument(
        "--slow-splits", type=int, default=2, help="splits of all labels where there are over 100 classes"
    )
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    paths = [p for p in sorted(options.data.glob("*.npz")) if not options.files or p.stem in options.files]
    if not paths:
        sys.exit(f"no .npz files in {options.data}")
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "efficacy.jsonl"
    done = {(r["file"], r["split"], r["share"], r["method"]) for r in known(file)}
    wanted = jobs(paths, options.splits, options.shares, options.methods, options.slow_splits)
    todo = [job for job in wanted if (job[0].stem, *job[1:]) not in done]
    with ProcessPoolExecutor(options.workers) as workers, file.open("a", encoding="utf-8") as out:
        for n, row in enumerate(workers.map(run, todo), 1):
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(f"{n}/{len(todo)} {row['file']} {row['share']} {row['method']}: {row['brier']:.4f}", file=sys.stderr)
    from efficacy_report import write

    write(known(file), options.out, AUTHORS, PAPER)


if __name__ == "__main__":
    main()
