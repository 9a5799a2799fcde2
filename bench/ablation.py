"""What each part of the default method and its design brings: `python bench/ablation.py --data ../shared/bench`.

Every variant changes one thing of the default; Brier score on unseen halves, mean over splits, and its ratio to the
default's, paired. Runs are kept in OUT/ablation.jsonl and not run again; the table goes to OUT/ablation.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from efficacy import Split, known, split_of
from efficacy_report import grouped, paired

import opcal
from opcal import metrics
from opcal.core.embedding import Preparation, prepared
from opcal.methods import Auto, Correctness, Field, Learner, Residual, Temperature

FULL = "auto, as it is"


@dataclass(frozen=True)
class Changed:
    """The default method on a changed preparation, which the design shares."""

    change: Callable[[Preparation], Preparation]

    def begin(self, field: Field) -> Learner:
        made = self.change(prepared(field))
        field.__dict__["_preparation"] = made
        return Auto().begin(field)


@dataclass(frozen=True)
class Blind:
    """Prototypes that see no difference between classes."""

    classes: int

    def scores(self, rows: Any) -> Any:
        return np.zeros((len(rows), self.classes), rows.dtype)

    def scores_without_self(self, rows: Any, own: Any) -> Any:
        return self.scores(rows)


def without_prototypes(p: Preparation) -> Preparation:
    blind: Any = Blind(p.embedding.classes)
    return replace(p, embedding=replace(p.embedding, prototypes_b=blind, prototypes_z=blind))


VARIANTS: dict[str, dict[str, Any]] = {
    FULL: {},
    "without prototypes": {"method": Changed(without_prototypes)},
    "without knowing whether it is at home": {"method": Changed(lambda p: replace(p, home=0.0))},
    "without the model's own confidence": {"method": Auto(with_own_confidence=False)},
    "without doubt about the whole": {"method": Auto(with_doubt=False)},
    "one amplitude": {"method": Auto(amplitudes=(1.0,))},
    "design: random": {"design": "random"},
    "design: k-means": {"design": "kmeans"},
    "design: the paper's": {"design": "paper"},
    "no audit slice": {"audit": 0.0},
    "all labels audit": {"audit": 1.0},
    "residual GP instead": {"method": Residual()},
    "right/wrong GP instead": {"method": Correctness()},
    "temperature instead": {"method": Temperature()},
}


def brier(s: Split, options: dict[str, Any]) -> float:
    calibrator = opcal.OperationalCalibrator(random_state=s.seed, **options).begin(s.pool, budget=s.labels)
    while len(i := calibrator.ask(10)):
        calibrator.tell(i, labels=s.truth[i])
    return metrics.brier(calibrator.confidence(s.test), s.test.predicted == s.test_truth)


def run(job: tuple[Path, int, float, str]) -> dict[str, Any]:
    path, split, share, variant = job
    score = brier(split_of(path, split, share), VARIANTS[variant])
    return {"file": path.stem, "split": split, "share": share, "method": variant, "brier": score}


def markdown(runs: list[dict[str, Any]]) -> str:
    cells = grouped(runs, "file", "share", "method")
    files, shares = sorted({r["file"] for r in runs}), sorted({r["share"] for r in runs})
    lines = ["# Ablation", "", "Brier score over that of the default method with as many labels, paired over splits;"]
    lines += ["in the first row the default's own score. Measured by `bench/ablation.py`."]
    for share in shares:
        lines += ["", f"## {share:.0%} of the pool labelled", "", "| variant | " + " | ".join(files) + " |"]
        lines += ["|" + "---|" * (len(files) + 1)]
        lines += [row(cells, files, share, variant) for variant in VARIANTS]
    return "\n".join(lines) + "\n"


def row(cells: dict[tuple[Any, ...], Any], files: list[str], share: float, variant: str) -> str:
    shown = []
    for file in files:
        ours, full = cells.get((file, share, variant), []), cells.get((file, share, FULL), [])
        ratio = paired(ours, full)
        own = np.mean([r["brier"] for r in full]) if full else np.nan
        shown.append(f"{own:.4f}" if variant == FULL else f"{ratio[0]:.2f} ± {ratio[1]:.2f}" if ratio else "")
    return f"| {variant} | " + " | ".join(shown) + " |"


def jobs(paths: list[Path], splits: int, shares: list[float]) -> Iterator[tuple[Path, int, float, str]]:
    for split in range(splits):
        for path in paths:
            for share in shares:
                for variant in VARIANTS:
                    yield path, split, share, variant


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/bench"))
    parser.add_argument("--files", nargs="*", help="stems of the files; all with at most 100 classes if left out")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--shares", type=float, nargs="*", default=[0.02, 0.1])
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    found = [p for p in sorted(options.data.glob("*.npz")) if not options.files or p.stem in options.files]
    paths = [p for p in found if options.files or "imagenet" not in p.stem]
    if not paths:
        sys.exit(f"no .npz files in {options.data}")
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "ablation.jsonl"
    done = {(r["file"], r["split"], r["share"], r["method"]) for r in known(file)}
    todo = [job for job in jobs(paths, options.splits, options.shares) if (job[0].stem, *job[1:]) not in done]
    with ProcessPoolExecutor(options.workers) as workers, file.open("a", encoding="utf-8") as out:
        for n, result in enumerate(workers.map(run, todo), 1):
            out.write(json.dumps(result) + "\n")
            out.flush()
            print(f"{n}/{len(todo)} {result['file']} {result['method']}: {result['brier']:.4f}", file=sys.stderr)
    (options.out / "ablation.md").write_text(markdown(known(file)), encoding="utf-8")


if __name__ == "__main__":
    main()
