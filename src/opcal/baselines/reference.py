"""Items that the field is compared with: the training data where they are at hand, else what the model is sure of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from opcal.baselines.base import Told, same_model
from opcal.core.kernels import centre, chunks, squared_distances
from opcal.core.method import BoolArray, FloatArray, IntArray, Outputs
from opcal.pool import Pool

SURE = 0.9


@dataclass(frozen=True)
class Reference:
    features: FloatArray  # [m, d]
    predicted: IntArray  # [m]
    of_field: bool
    """Are they items of the field itself?"""
    told: str
    """What they are, in words."""

    def __len__(self) -> int:
        return len(self.predicted)


def reference_of(told: Told, given: Pool | None) -> Reference:
    if given is not None:
        same_model(given, Pool(told.pool), "the field pool")
        return Reference(np.asarray(given.features), given.predicted, False, f"{len(given)} items passed as reference=")
    sure = confident(told.pool)
    at = np.flatnonzero(sure)
    level = float(told.pool.confidence[at].min())
    words = f"the field pool's own {len(at)} items of confidence {level:.3g} or more: no reference= was passed"
    return Reference(np.asarray(told.pool.features)[at], told.pool.predicted[at], True, words)


def confident(pool: Outputs) -> BoolArray:
    """Confidence of .9 or more; the more confident half where those are fewer."""
    sure: BoolArray = pool.confidence >= SURE
    if sure.sum() * 2 >= len(pool):
        return sure
    return np.asarray(pool.confidence >= np.median(pool.confidence), np.bool_)


@dataclass(frozen=True)
class Distances:
    """Squared distances of rows to points [m, d], which are centred once."""

    middle: FloatArray  # [d]
    points: FloatArray  # [m, d]
    skip_self: bool
    """A row at distance 0 is taken for the point itself, which then says nothing about it."""

    def blocks(self, features: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """[B, m] for a block of rows."""
        return ((rows, self._block(features[rows])) for rows in chunks(len(features), 1024))

    def _block(self, rows: FloatArray) -> FloatArray:
        d2 = squared_distances(np.asarray(rows, np.float64) - self.middle, self.points)
        if self.skip_self:
            at = np.arange(len(d2)), d2.argmin(1)
            d2[at] = np.where(d2[at] == 0, np.inf, d2[at])
        return d2


def distances_to(features: FloatArray, *, skip_self: bool) -> Distances:
    middle = centre(features)
    return Distances(middle, np.asarray(features, np.float64) - middle, skip_self)
