"""The field on a plane: the two directions in which the representations differ most."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from opcal.core.method import FloatArray
from opcal.pool import Pool

SAMPLED = 4000
"""Rows that decide the directions."""
ROWS = 20_000
CUT = 0.001
"""Share of the points at each end that are set on the border, so that a few far ones do not squeeze the rest."""


class FieldMap:
    """Coordinates of every item, worked out once for each pool."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: tuple[Pool, bytes] | None = None

    def points(self, pool: Pool) -> bytes:
        """x and y of each item as two unsigned 16-bit numbers, little-endian."""
        with self._lock:
            if self._known is None or self._known[0] is not pool:
                self._known = pool, in_16_bits(projected(pool.features)).tobytes()
            return self._known[1]


def projected(features: FloatArray) -> FloatArray:
    """The first two principal components [N, 2] of features [N, d]; signs are fixed by the largest weight."""
    n, d = features.shape
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.intp))
    sample = np.asarray(features[rows], dtype=np.float64)
    mean = sample.mean(0)
    _, _, directions = np.linalg.svd(sample - mean, full_matrices=False)
    directions = directions[:2]
    if len(directions) < 2:
        directions = np.vstack([directions, np.zeros((2 - len(directions), d))])
    largest = np.abs(directions).argmax(1)
    directions *= np.sign(directions[[0, 1], largest] + 1e-300)[:, None]
    out = np.empty((n, 2))
    for start in range(0, n, ROWS):
        out[start : start + ROWS] = (features[start : start + ROWS] - mean) @ directions.T
    return out


def in_16_bits(points: FloatArray) -> NDArray[np.uint16]:
    low, high = np.quantile(points, [CUT, 1 - CUT], axis=0)
    scale = np.maximum(high - low, 1e-12)
    placed: NDArray[np.uint16] = (np.clip((points - low) / scale, 0, 1) * 65535).astype("<u2")
    return placed


def in_8_bits(values: FloatArray) -> bytes:
    """Values in [0, 1] as one byte each."""
    return np.round(np.clip(values, 0, 1) * 255).astype(np.uint8).tobytes()
