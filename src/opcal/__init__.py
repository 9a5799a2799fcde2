"""Operational calibration: honest confidence for a classifier in the field where it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opcal.core.method import OUTSIDE

if TYPE_CHECKING:
    from opcal import assess, baselines, costs, errors, extract, methods, metrics, session, sharded
    from opcal.artifact import Artifact, load
    from opcal.calibrator import OperationalCalibrator
    from opcal.core.costs import Costs
    from opcal.pool import Pool

__version__ = "0.1.0"
__all__ = [
    "OUTSIDE",
    "Artifact",
    "Costs",
    "OperationalCalibrator",
    "Pool",
    "assess",
    "baselines",
    "costs",
    "errors",
    "extract",
    "load",
    "methods",
    "metrics",
    "session",
    "sharded",
]

_HOME = {
    "Artifact": "opcal.artifact",
    "Costs": "opcal.core.costs",
    "OperationalCalibrator": "opcal.calibrator",
    "Pool": "opcal.pool",
    "load": "opcal.artifact",
}
_MODULES = {"assess", "baselines", "costs", "errors", "extract", "methods", "metrics", "session", "sharded"}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import opcal` stays quick."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(f"opcal.{name}")
    raise AttributeError(f"module 'opcal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
