"""A cost matrix as an artefact holds it: an optional part, so that artefacts without one are read as ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from opcal import costs
from opcal.artifact.manifest import Manifest
from opcal.calibrator import OperationalCalibrator
from opcal.core.cost_matrix import Action, CostMatrix
from opcal.core.method import FloatArray

LARGEST = 1e100


@dataclass(frozen=True)
class Gains:
    """What each action brings, by predicted and true class; the first is acting on the prediction."""

    names: tuple[str, ...]  # of the other actions
    values: FloatArray  # [1 + others, K, K + 1] float64
    capacities: tuple[int | None, ...]

    @classmethod
    def of(cls, matrix: CostMatrix) -> Gains:
        return cls(matrix.names[1:], np.asarray(matrix.gains, np.float64), matrix.capacities)

    @cached_property
    def matrix(self) -> CostMatrix:
        act, *others = self.values
        own, *capacities = self.capacities
        return CostMatrix(act, tuple(map(Action, self.names, others, capacities)), own)


def gains_of(calibrator: OperationalCalibrator) -> Gains | None:
    """The calibrator's cost matrix, checked against its pool; None where its costs are a number or none."""
    given = calibrator.costs
    return Gains.of(costs.of_pool(given, calibrator.pool_)) if isinstance(given, CostMatrix) else None


def stored_gains(stored: dict[str, Any], decode: Callable[[Any], Any], manifest: Manifest) -> Gains | None:
    """Those of a file, or None. Raises whatever comes where they do not hold together."""
    found = decode(stored.get("gains"))
    if found is None:
        return None
    if type(found) is not Gains or manifest.costs is not None:
        raise ValueError("its costs are no gains of actions")
    _, k, columns = found.values.shape
    wanted = manifest.layout.classes or (None if manifest.classes is None else len(manifest.classes))
    if columns != k + 1 or k != (wanted or k) or found.values.dtype != np.float64:
        raise ValueError(f"its costs are of {k} classes")
    if not len(found.names) + 1 == len(found.capacities) == len(found.values) > 1:
        raise ValueError("its costs have not one gain and one capacity for each action")
    if any(c is not None and c < 0 for c in found.capacities) or np.abs(found.values).max() > LARGEST:
        raise ValueError("its costs hold a number that cannot be")
    return found
