"""Where the default method could do harm: models that are right already, strong imbalance, and its own uncertainty.

    python bench/robust.py --data ../shared/bench --splits 10 --out docs

- *at home*: `origin_*.npz` of the data folder, and the `feat_orig` of `--imagenet` (a file with feat_orig, y, W, b);
- *temperature fitted*: one half of a file fits one temperature to all its labels and is the pool; the other is unseen;
- *imbalanced*: pool and test halves subsampled without replacement to class shares from 1 % to 40 %;
- *uncertainty*: unseen items in ten groups by confidence: how often the group's right-rate lies in the 90 % interval
  of its mean (joint draws, binomial noise included), at 5 and 10 % labels.

Writes OUT/robust.md and OUT/robust.json.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from efficacy import Split, arrays, authors, own_selection, split_of

import opcal
from opcal import metrics

GROUPS, DRAWS = 10, 400


def fitted_temperature(s: Split) -> Split:
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    h, y = np.asarray(s.pool.logits, float), s.truth
    loss = lambda t: -log_softmax(h * np.exp(-t), axis=1)[np.arange(len(y)), y].mean()  # noqa: E731
    cooling = np.float32(np.exp(-minimize_scalar(loss, bounds=(-3, 5), method="bounded").x))
    cooled = [opcal.Pool.from_arrays(p.features, p.logits * cooling) for p in (s.pool, s.test)]  # type: ignore[operator]
    return replace(s, pool=cooled[0], test=cooled[1])


def imbalanced(s: Split) -> Split:
    """The same class shares in both halves, in an order drawn at random."""
    rng = np.random.default_rng(5000 + s.seed)
    classes = np.unique(s.truth)
    shares = rng.permutation(np.geomspace(0.4, 0.01, len(classes)))
    here, there = (_subsample(y, classes, shares / shares.sum(), rng) for y in (s.truth, s.test_truth))
    labels = max(8, round(s.labels / len(s.truth) * len(here)))
    return replace(
        s,
        pool=s.pool.take(here),
        truth=s.truth[here],
        test=s.test.take(there),
        test_truth=s.test_truth[there],
        labels=labels,
    )


def _subsample(y: Any, classes: Any, shares: Any, rng: np.random.Generator) -> Any:
    size = min((y == c).sum() / share for c, share in zip(classes, shares, strict=True))
    kept = [
        rng.permutation(np.flatnonzero(y == c))[: max(1, round(size * share))]
        for c, share in zip(classes, shares, strict=True)
    ]
    return rng.permutation(np.concatenate(kept))


KINDS = {"at home": lambda s: s, "temperature fitted": fitted_temperature, "imbalanced": imbalanced}


def run(job: tuple[str, Path, int, float]) -> dict[str, Any]:
    kind, path, split, share = job
    s = KINDS[kind](split_of(path, split, share))
    right = s.test.predicted == s.test_truth
    row: dict[str, Any] = {"kind": kind, "file": path.stem, "split": split, "share": share, "labels": s.labels}
    row["uncalibrated"] = metrics.brier(s.test.confidence, right)
    row["auto"] = metrics.brier(own_selection(s, "auto"), right)
    if kind == "imbalanced":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row["authors"] = metrics.brier(authors(s), right)
    return row


def covered(job: tuple[Path, int, float]) -> dict[str, Any]:
    path, split, share = job
    s = split_of(path, split, share)
    calibrator = opcal.OperationalCalibrator(random_state=s.seed).begin(s.pool, budget=s.labels)
    while len(i := calibrator.ask(max(10, s.labels // 20))):
        calibrator.tell(i, labels=s.truth[i])
    posterior, right = calibrator.posterior(s.test), s.test.predicted == s.test_truth
    draws = posterior.sample(DRAWS, random_state=split)
    observed = np.random.default_rng(split).random(draws.shape) < draws
    inside = []
    for group in np.array_split(np.argsort(posterior.mean, kind="stable"), GROUPS):
        low, high = np.quantile(observed[:, group].mean(1), [0.05, 0.95])
        inside.append(bool(low <= right[group].mean() <= high))
    return {"file": path.stem, "split": split, "share": share, "inside": float(np.mean(inside))}


def ratio(rows: list[dict[str, Any]], reference: str) -> str:
    a, b = (np.array([row[name] for row in rows]) for name in ("auto", reference))
    mean = a.mean() / b.mean()
    error = np.std(a - mean * b, ddof=1) / np.sqrt(len(a)) / b.mean() if len(a) > 1 else 0.0
    return f"{mean:.3f} ± {error:.3f}"


def markdown(rows: list[dict[str, Any]], coverage: list[dict[str, Any]]) -> str:
    lines = ["# Do no harm", "", *(__doc__ or "").splitlines()[4:-2], ""]
    lines += ["Measured by `make bench-robust`. Ratios of Brier scores on unseen items, paired over splits.", ""]
    lines += ["| | file | labels | uncalibrated | auto | auto / uncalibrated | auto / authors' GP |", "|" + "---|" * 7]
    for key in dict.fromkeys((r["kind"], r["file"], r["share"]) for r in rows):
        some = [r for r in rows if (r["kind"], r["file"], r["share"]) == key]
        means = [f"{np.mean([r[name] for r in some]):.4f}" for name in ("uncalibrated", "auto")]
        rival = ratio(some, "authors") if "authors" in some[0] else ""
        shown = [key[0], key[1], f"{key[2]:.0%} ({some[0]['labels']})", *means, ratio(some, "uncalibrated"), rival]
        lines.append("| " + " | ".join(shown) + " |")
    lines += ["", "## Its own uncertainty", "", "Share of groups whose right-rate lies in their 90 % interval.", ""]
    lines += ["| file | labels | inside |", "|---|---|---|"]
    for file, share in dict.fromkeys((r["file"], r["share"]) for r in coverage):
        found = [r["inside"] for r in coverage if (r["file"], r["share"]) == (file, share)]
        lines.append(f"| {file} | {share:.0%} | {np.mean(found):.2f} |")
    return "\n".join(lines) + "\n"


def jobs(files: list[Path], splits: int) -> list[tuple[str, Path, int, float]]:
    origin = [f for f in files if f.stem.startswith("origin")]
    balanced = [f for f in files if len(np.unique(arrays(f)[2])) in range(5, 50) and f.stem.startswith(("t1", "t3"))]
    small = [f for f in files if arrays(f)[1].shape[1] <= 100]
    wanted = [("at home", f, 0.02) for f in origin] + [("temperature fitted", f, 0.02) for f in small]
    wanted += [("imbalanced", f, share) for f in balanced for share in (0.02, 0.1)]
    return [(kind, f, k, share) for kind, f, share in wanted for k in range(splits)]


def with_imagenet(files: list[Path], source: Path, out: Path) -> list[Path]:
    """`origin_t6_imagenet.npz` in OUT's temporary folder from the features of undisturbed images."""
    if not source.exists():
        return files
    made = out / "origin_t6_imagenet.npz"
    with np.load(source) as d:
        np.savez(made, features=d["feat_orig"], labels=d["y"], head_weight=d["W"], head_bias=d["b"])
    return [*files, made]


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/bench"))
    parser.add_argument("--imagenet", type=Path, help="default: data/imagenet_val_effnetlite0.npz beside --data")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    imagenet = options.imagenet or options.data.parent / "data" / "imagenet_val_effnetlite0.npz"
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(options.workers) as workers:
        files = with_imagenet(sorted(options.data.glob("*.npz")), imagenet, Path(folder))
        rows = list(workers.map(run, jobs(files, options.splits)))
        small = [f for f in files if arrays(f)[1].shape[1] <= 100]
        wanted = [(f, k, share) for f in small for share in (0.05, 0.1) for k in range(options.splits)]
        coverage = list(workers.map(covered, wanted))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "robust.json").write_text(json.dumps({"brier": rows, "coverage": coverage}, indent=1) + "\n")
    (options.out / "robust.md").write_text(markdown(rows, coverage), encoding="utf-8")
    print((options.out / "robust.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
