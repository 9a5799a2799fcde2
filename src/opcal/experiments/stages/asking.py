"""Calibrators that choose their labels themselves, one question after another."""

from __future__ import annotations

from collections.abc import Iterator

from opcal.calibrator import OperationalCalibrator
from opcal.experiments.shift import Split

STEPS = 20
"""The default method is asked for a twentieth of its labels at a time, ten at least; the paper's for one."""


def paper(split: Split, budget: int, threshold: float) -> OperationalCalibrator:
    """Algorithm 1: no audit slice, one label at a time, selection around λ."""
    made = OperationalCalibrator("paper", threshold=threshold, audit=0, random_state=split.seed)
    return made.begin(split.here.pool, budget=budget)


def auto(split: Split, budget: int, threshold: float = 0.9) -> OperationalCalibrator:
    """Default settings: a quarter of the questions is drawn uniformly for judging quality."""
    made = OperationalCalibrator(threshold=threshold, random_state=split.seed)
    return made.begin(split.here.pool, budget=budget)


ASKING = {"paper": paper, "auto": auto}


def asked(
    calibrator: OperationalCalibrator, split: Split, counts: list[int], step: int
) -> Iterator[tuple[int, OperationalCalibrator]]:
    """The calibrator each time it has been told as many labels as `counts` says, in rising order."""
    told = 0
    for count in counts:
        while told < count:
            i = calibrator.ask(min(step, count - told))
            if not len(i):
                break
            calibrator.tell(i, labels=split.here.labels[i])
            told += len(i)
        yield told, calibrator


def step_of(method: str, labels: int) -> int:
    return 1 if method == "paper" else max(10, labels // STEPS)
