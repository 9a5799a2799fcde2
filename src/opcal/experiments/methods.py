"""Every method of the tables by name: fitted on some labels of a split's pool, then asked for any side of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opcal import baselines
from opcal.calibrator import OperationalCalibrator
from opcal.core.method import FloatArray, IntArray
from opcal.experiments.shift import Side, Split

Scorer = Callable[[Side], FloatArray]
Fit = Callable[[Split, IntArray], Scorer]

WORDS = {
    "uncalibrated": "the model's own confidence",
    "paper": "the paper's method (GPR): a Gaussian process in each cluster",
    "auto": "opcal's default method",
    "RFR": "random forest regression of I − c on the representation, ten trees",
    "SVR": "linear support vector regression of I − c on the representation",
    "TS": "temperature scaling",
    "PS-conf": "Platt scaling of the confidence",
    "PS-logit": "matrix scaling of the logits, held towards temperature scaling",
    "IR": "isotonic regression of the confidence",
    "SAR": "polynomial of the likelihood-based surprise adequacy",
    "SAR-D": "polynomial of the distance-based surprise adequacy",
    "HB": "histogram binning",
    "Venn–Abers": "Venn–Abers calibration of the confidence",
    "kNN": "share of right predictions among the nearest labelled items",
    "DAC": "density-aware scaling",
    "GB": "gradient boosting on confidence, margin, entropy and principal components",
    "DkNN": "deep k-nearest neighbours: credibility, mapped by a sigmoid",
    "MC-dropout": "mean confidence over passes with dropout, no labels used",
}
IGNORE_CONFIDENCE = ("kNN", "DkNN")
"""These estimate from neighbours' answers alone: where classes are many and labels few, they know less than c does."""


def uncalibrated(split: Split, rows: IntArray) -> Scorer:
    return lambda side: side.pool.confidence


def dropout(split: Split, rows: IntArray) -> Scorer:
    def score(side: Side) -> FloatArray:
        assert side.part.dropout is not None
        return side.part.dropout

    return score


def calibrator(method: str) -> Fit:
    def fit(split: Split, rows: IntArray) -> Scorer:
        made = OperationalCalibrator(method, random_state=split.seed)
        made.fit(split.here.pool, rows, labels=split.here.labels[rows])
        return lambda side: made.confidence(side.pool)

    return fit


@dataclass(frozen=True)
class Rival:
    """A baseline; `at_home` ones are given the training items as their reference."""

    make: Callable[..., baselines.Baseline]
    settings: dict[str, Any]
    at_home: bool = False

    def __call__(self, split: Split, rows: IntArray) -> Scorer:
        extra = {"reference": split.training} if self.at_home else {}
        made = self.make(**self.settings, **extra)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's about optimisers that stop early
            made.fit(split.here.pool, rows, labels=split.here.labels[rows])
        return lambda side: made.confidence(side.pool)


METHODS: dict[str, Fit] = {
    "uncalibrated": uncalibrated,
    "paper": calibrator("paper"),
    "auto": calibrator("auto"),
    "RFR": Rival(baselines.ForestRegression, {}),
    "SVR": Rival(baselines.SupportVectorRegression, {}),
    "TS": Rival(baselines.TemperatureScaling, {}),
    "PS-conf": Rival(baselines.PlattScaling, {}),
    "PS-logit": Rival(baselines.MatrixScaling, {}),
    "IR": Rival(baselines.IsotonicScaling, {}),
    "SAR": Rival(baselines.SurpriseAdequacy, {}, at_home=True),
    "SAR-D": Rival(baselines.SurpriseAdequacy, {"kind": "distance"}, at_home=True),
    "HB": Rival(baselines.HistogramBinning, {}),
    "Venn–Abers": Rival(baselines.VennAbers, {}),
    "kNN": Rival(baselines.NearestNeighbours, {}),
    "DAC": Rival(baselines.DensityAwareScaling, {}, at_home=True),
    "GB": Rival(baselines.GradientBoosting, {}),
    "DkNN": Rival(baselines.DeepNeighbours, {}),
    "MC-dropout": dropout,
}


def available(split: Split) -> dict[str, Fit]:
    without = set() if split.here.part.dropout is not None else {"MC-dropout"}
    return {name: fit for name, fit in METHODS.items() if name not in without}


def every(split: Split) -> IntArray:
    return np.arange(len(split.here))
