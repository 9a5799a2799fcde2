"""Other ways to mend a confidence, to compare with: all `fit(pool, positions, labels=...)`, `confidence(pool)`.

They never change a prediction: each gives the probability that the model's own prediction is right. They are those of
the paper's comparison, as they should be, and stronger ones that it lacks; all are fitted on labels from the field.
"""

from opcal.baselines.base import Baseline
from opcal.baselines.boosting import GradientBoosting
from opcal.baselines.density import DensityAwareScaling
from opcal.baselines.logits import MatrixScaling, TemperatureScaling
from opcal.baselines.neighbours import DeepNeighbours, NearestNeighbours
from opcal.baselines.regression import ForestRegression, SupportVectorRegression
from opcal.baselines.scalar import HistogramBinning, IsotonicScaling, PlattScaling
from opcal.baselines.surprise import SurpriseAdequacy
from opcal.baselines.venn_abers import VennAbers

__all__ = [
    "Baseline",
    "DeepNeighbours",
    "DensityAwareScaling",
    "ForestRegression",
    "GradientBoosting",
    "HistogramBinning",
    "IsotonicScaling",
    "MatrixScaling",
    "NearestNeighbours",
    "PlattScaling",
    "SupportVectorRegression",
    "SurpriseAdequacy",
    "TemperatureScaling",
    "VennAbers",
]
