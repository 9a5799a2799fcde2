"""How good a confidence is: `conf` in [0, 1] against `correct`, whether each prediction was right."""

from opcal.core.metrics import (
    BrierDecomposition,
    Confident,
    LceComparison,
    ReliabilityCurve,
    aurc,
    brier,
    brier_decomposition,
    confident,
    ece,
    lce,
    lce_comparison,
    reliability_curve,
)

__all__ = [
    "BrierDecomposition",
    "Confident",
    "LceComparison",
    "ReliabilityCurve",
    "aurc",
    "brier",
    "brier_decomposition",
    "confident",
    "ece",
    "lce",
    "lce_comparison",
    "reliability_curve",
]
