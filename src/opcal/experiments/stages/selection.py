"""Which item next: the paper's selection against others, each feeding the same methods."""

from __future__ import annotations

import numpy as np

from opcal.calibrator import OperationalCalibrator
from opcal.core.designs import KMeans, PaperSelection, Random
from opcal.core.method import Design
from opcal.core.variance import Variance
from opcal.experiments.choosers import Density, Disagreement, Uncertainty
from opcal.experiments.shift import Split
from opcal.experiments.stages.context import Context
from opcal.experiments.stages.few import SHARE
from opcal.experiments.stages.scores import rounded, scores
from opcal.experiments.store import Figures

DESIGNS: dict[str, Design] = {
    "paper": PaperSelection(0.9),
    "uncertainty": Uncertainty(),
    "density": Density(),
    "disagreement": Disagreement(),
    "random": Random(),
    "k-means": KMeans(),
    "ours": Variance(),
}


def measure(context: Context) -> Figures:
    split = context.split
    labels = max(8, round(SHARE * len(split.here)))
    found = {name: _with(split, design, labels) for name, design in DESIGNS.items()}
    return {"designs": rounded(found), "labels": labels, "unseen": len(split.unseen)}


def _with(split: Split, design: Design, labels: int) -> Figures:
    """The paper's Gaussian process asks with the design; then both methods learn from what was asked."""
    asking = OperationalCalibrator("paper", design, audit=0, random_state=split.seed)
    asking.begin(split.here.pool, budget=labels)
    while len(i := asking.ask(max(1, labels // 20))):
        asking.tell(i, labels=split.here.labels[i])
    rows = np.sort(asking.answers_.positions)
    auto = OperationalCalibrator(random_state=split.seed).fit(split.here.pool, rows, labels=split.here.labels[rows])
    made = {"paper": asking, "auto": auto}
    return {name: scores(c.confidence(split.unseen.pool), split.unseen.correct) for name, c in made.items()}
