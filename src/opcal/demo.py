"""The whole story on the shipped X-rays: a simulated annotator, a tenth of the pool's labels, before and after."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from opcal import metrics
from opcal.calibrator import OperationalCalibrator
from opcal.core.method import BoolArray, FloatArray, IntArray
from opcal.data import Case, load_pneumonia
from opcal.pool import Pool

THRESHOLDS = (0.8, 0.9)
STEP = 3
"""Labels between two points of the efficiency curve."""


@dataclass(frozen=True)
class Scores:
    """How good one confidence is on the unseen cases."""

    brier: float
    ece: float
    aurc: float
    lce: dict[str, float]
    act_on_nothing: dict[str, float]
    act_on_everything: dict[str, float]
    confident_right: dict[str, int]
    confident_wrong: dict[str, int]


@dataclass(frozen=True)
class Demo:
    """What the demo measured; `labels`, `right`, `false` are the efficiency curve at λ = .9."""

    pool_size: int
    unseen_size: int
    budget: int
    accuracy: float
    before: Scores
    after: Scores
    labels: list[int]
    right: list[float]
    false: list[float]
    confidence_before: FloatArray
    confidence_after: FloatArray
    correct: BoolArray

    def figures(self) -> dict[str, object]:
        """Every number, as plain JSON values."""
        plain = asdict(self)
        return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in plain.items()}


def run(seed: int = 0, progress: Callable[[int, int], None] = lambda done, of: None) -> Demo:
    """Half of the X-rays are the pool, the other half are never seen before they are scored."""
    case = load_pneumonia()
    shuffled = np.random.default_rng(seed).permutation(len(case))
    here, unseen = np.sort(shuffled[: len(case) // 2]), np.sort(shuffled[len(case) // 2 :])
    pool, new = pool_of(case, here), pool_of(case, unseen)
    correct = new.predicted == case.labels[unseen]
    budget = len(pool) // 10
    calibrator = OperationalCalibrator(random_state=seed).begin(pool, budget=budget)
    confidence, curve = new.confidence, [(0, new.confidence)]
    while len(asked := calibrator.ask(STEP)):
        calibrator.tell(asked, labels=case.labels[here][asked])
        confidence = calibrator.confidence(new)
        curve.append((len(calibrator.answers_), confidence))
        progress(len(calibrator.answers_), budget)
    shares = [metrics.confident(c, correct, 0.9) for _, c in curve]
    return Demo(
        pool_size=len(pool),
        unseen_size=len(new),
        budget=budget,
        accuracy=float(correct.mean()),
        before=score(new.confidence, correct),
        after=score(confidence, correct),
        labels=[n for n, _ in curve],
        right=[s.right / len(new) for s in shares],
        false=[s.false / len(new) for s in shares],
        confidence_before=new.confidence,
        confidence_after=confidence,
        correct=correct,
    )


def pool_of(case: Case, rows: IntArray) -> Pool:
    return Pool.from_arrays(
        features=case.features[rows],
        logits=case.logits[rows],
        ids=[case.ids[i] for i in rows],
        classes=case.classes,
        head=(case.head_weight, case.head_bias),
    )


def score(confidence: FloatArray, correct: BoolArray) -> Scores:
    compared = {f"{t:g}": metrics.lce_comparison(confidence, correct, t) for t in THRESHOLDS}
    counted = {f"{t:g}": metrics.confident(confidence, correct, t) for t in THRESHOLDS}
    return Scores(
        brier=metrics.brier(confidence, correct),
        ece=metrics.ece(confidence, correct, binning="smooth"),
        aurc=metrics.aurc(confidence, correct),
        lce={t: c.lce for t, c in compared.items()},
        act_on_nothing={t: c.act_on_nothing for t, c in compared.items()},
        act_on_everything={t: c.act_on_everything for t, c in compared.items()},
        confident_right={t: c.right for t, c in counted.items()},
        confident_wrong={t: c.false for t, c in counted.items()},
    )


def draw(demo: Demo, out: Path) -> list[Path]:
    """demo.json and the figures as PNG."""
    from opcal.report import plots

    out.mkdir(parents=True, exist_ok=True)
    before, after, correct = demo.confidence_before, demo.confidence_after, demo.correct
    labels, right, false = np.array(demo.labels), np.array(demo.right), np.array(demo.false)
    figures = {
        "reliability": plots.reliability(before, after, correct),
        "lce": plots.lce_curve({"before": before, "after": after}, correct),
        "efficiency": plots.efficiency_curve(labels, right, false),
        "summary": plots.summary(before, after, correct, labels=labels, right=right, false=false),
    }
    written = []
    for name, figure in figures.items():
        figure.savefig(out / f"{name}.png", dpi=144)
        written.append(out / f"{name}.png")
    (out / "demo.json").write_text(json.dumps(demo.figures(), indent=1), encoding="utf-8")
    return [*written, out / "demo.json"]
