"""Distances that survive float32 and near-duplicates, and the kernel built on them (method.md §7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

CHUNK = 4096
"""Rows taken at a time from features that may be a memory-mapped file."""
_PAIRS = 1 << 20
"""Most numbers gathered at once when pairs are recomputed by difference."""


def working_dtype(x: FloatArray) -> np.dtype[Any]:
    """float32 for half and single precision, float64 for everything else."""
    small = x.dtype.kind == "f" and x.dtype.itemsize <= 4
    return np.dtype(np.float32 if small else np.float64)


def chunks(n: int, size: int = CHUNK) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def centre(x: FloatArray) -> FloatArray:
    """The mean row [d] of x [N, d] in float64, read chunk by chunk."""
    total = np.zeros(x.shape[1])
    for rows in chunks(len(x)):
        total += x[rows].sum(axis=0, dtype=np.float64)
    return total / max(len(x), 1)


def squared_norms(x: FloatArray) -> FloatArray:
    """‖x_i‖² [n]."""
    norms: FloatArray = np.einsum("ij,ij->i", x, x)
    return norms


def squared_distances(x: FloatArray, y: FloatArray) -> FloatArray:
    """‖x_i − y_j‖² = ‖x_i‖² − 2x_i·y_j + ‖y_j‖², [n, d] and [m, d] to [n, m].

    Rows are expected centred. Pairs much closer than they are long are recomputed by difference: exact duplicates
    are exactly 0, near-duplicates keep their relative accuracy, nothing is negative.
    """
    dtype = np.result_type(working_dtype(x), working_dtype(y))
    x, y = x.astype(dtype, copy=False), y.astype(dtype, copy=False)
    d2, near = _about_members(x, y)
    _recompute_pairs(d2, x, y, np.flatnonzero(near))
    return d2


def squared_distances_to(x: FloatArray, norms: FloatArray, rows: FloatArray) -> FloatArray:
    """‖row_i − x_j‖² [t, n] for few centred rows [t, d] and contiguous, centred x [n, d] of squared norms [n]:
    `squared_distances` for the hot path, with the matrix product in the order that is quick for a few rows."""
    d2: FloatArray = np.multiply((x @ rows.T).T, -2, order="C")
    squares = squared_norms(rows)[:, None]
    d2 += norms
    d2 += squares
    _recompute_pairs(d2, rows, x, np.flatnonzero(d2 < _near_below(squares)))
    return np.maximum(d2, 0, out=d2)


def rbf(d2: FloatArray, length: float) -> FloatArray:
    """exp(−‖z−z'‖²/2ℓ²) in the precision of d2."""
    scaled = d2 * (-0.5 / float(length) ** 2)
    kernel: FloatArray = np.exp(scaled, out=scaled)
    return kernel


def median_distance(x: FloatArray, rng: np.random.Generator, limit: int = 1000) -> float:
    """Median of ‖x_i − x_j‖ over i < j, x [n, d], among at most `limit` rows drawn without replacement.

    Where more than half of the pairs are duplicates, the median of the others; 0 for fewer than two distinct rows.
    """
    rows = x if len(x) <= limit else x[np.sort(rng.choice(len(x), limit, replace=False))]
    rows = rows.astype(working_dtype(rows), copy=False)
    rows = rows - centre(rows).astype(rows.dtype)
    distances = np.sqrt(squared_distances(rows, rows)[np.triu_indices(len(rows), 1)])
    median = float(np.median(distances)) if distances.size else 0.0
    if median > 0 or not distances.any():
        return median
    return float(np.median(distances[distances > 0]))


class Block(NamedTuple):
    """Some rows as `Nearest` left them, for whoever goes on with them."""

    centred: FloatArray  # [B, d], float32 for float16 and float32 rows, else float64
    norms: FloatArray  # [B], squared
    nearest: IntArray  # [B]


@dataclass(frozen=True)
class Nearest:
    """Which of L points is nearest to a row, the same for a row wherever it stands, in any precision and any company.

    argmin_j ½‖p_j‖² − x·p_j by one matrix product; rows whose best two lie within its rounding error are decided by
    difference in float64, ties go to the lowest j.
    """

    centre: FloatArray  # [d] float64
    points: FloatArray  # [L, d] float64, centred

    def blocks(self, features: FloatArray) -> Iterator[tuple[slice, Block]]:
        """`block` over raw rows [N, d], possibly memory-mapped, 4,096 at a time."""
        return ((rows, self.block(features[rows])) for rows in chunks(len(features)))

    def block(self, rows: FloatArray) -> Block:
        table = self._tables[working_dtype(rows)]
        centred = np.subtract(rows, table.centre, dtype=table.centre.dtype)
        norms = squared_norms(centred)
        scores = centred @ table.columns
        scores += table.bias
        nearest = scores.argmin(axis=1)
        best = scores[np.arange(len(scores)), nearest]
        near = scores <= (best + table.uncertainty(norms, best))[:, None]
        if np.count_nonzero(near) > len(near):
            self._decide(rows, near, nearest)
        return Block(centred, norms, nearest)

    @cached_property
    def _tables(self) -> dict[np.dtype[Any], _Table]:
        return {dtype: _table(self, dtype) for dtype in (np.dtype(np.float32), np.dtype(np.float64))}

    def _decide(self, rows: FloatArray, near: BoolArray, nearest: IntArray) -> None:
        tied = np.flatnonzero(np.count_nonzero(near, axis=1) > 1)
        exact = rows[tied].astype(np.float64) - self.centre
        d2 = np.full((len(tied), len(self.points)), np.inf)
        _recompute_pairs(d2, exact, self.points, np.flatnonzero(near[tied]))
        nearest[tied] = d2.argmin(axis=1)


class _Table(NamedTuple):
    """The points of `Nearest` in one precision."""

    centre: FloatArray  # [d]
    columns: FloatArray  # [d, L], −p_j
    bias: FloatArray  # [L], ½‖p_j‖²
    shift: float  # how far the centre moved when it was rounded

    def uncertainty(self, norms: FloatArray, best: FloatArray) -> FloatArray:
        """Rounding error of a difference of scores: a rival of the best is no longer than ‖x‖ + ‖x − p_best‖."""
        reach = np.sqrt(norms) + np.sqrt(np.maximum(norms + 2 * best, 0))
        rounding = 4 * float(np.finfo(norms.dtype).eps) * len(self.centre) ** 0.5
        bound: FloatArray = reach * (rounding * reach + 2 * self.shift)
        return bound


def _table(nearest: Nearest, dtype: np.dtype[Any]) -> _Table:
    centre, points = nearest.centre.astype(dtype), nearest.points.astype(dtype)
    shift = float(np.linalg.norm(nearest.centre - centre))
    return _Table(centre, np.ascontiguousarray(-points.T), squared_norms(points) / 2, shift)


def _near_below(norms: Any) -> Any:
    """The d² below which cancellation is felt, for rows of these squared norms.

    Of two rows that close, either norm bounds the other within 7 %, so one is enough to test.
    """
    share = 2e-3 if norms.dtype == np.float32 else 2e-6
    return share * norms


def _expanded(x: FloatArray, y: FloatArray) -> tuple[FloatArray, BoolArray]:
    """‖x_i − y_j‖² by expanded squares [n, m] and where it is not to be trusted."""
    x_norms, y_norms = squared_norms(x), squared_norms(y)
    d2: FloatArray = np.empty((len(x), len(y)), x.dtype)
    near = np.empty(d2.shape, np.bool_)
    for rows in chunks(len(x), 256):
        block = np.matmul(x[rows], y.T, out=d2[rows])
        block *= -2
        block += x_norms[rows, None]
        block += y_norms
        np.less(block, _near_below(x_norms[rows, None]), out=near[rows])
        np.maximum(block, 0, out=block)
    return d2, near


def _about_members(x: FloatArray, y: FloatArray, depth: int = 4) -> tuple[FloatArray, BoolArray]:
    """`_expanded`, where every tight group is recomputed about one of its rows, which leaves few pairs near.

    Pair by pair alone, 5,000 rows in ten tight groups (d = 512) take 1.3 s instead of .4.
    """
    d2, near = _expanded(x, y)
    if depth and np.count_nonzero(near) > 8 * (len(x) + len(y)):
        for i in range(len(x)):
            columns = np.flatnonzero(near[i])
            if columns.size > 8:
                rows = np.flatnonzero(near[:, columns[0]])
                block = np.ix_(rows, columns)
                closer, still_near = _about_members(x[rows] - x[i], y[columns] - x[i], depth - 1)
                d2[block] = np.where(near[block], closer, d2[block])
                near[block] &= still_near
    return d2, near


def _recompute_pairs(d2: FloatArray, x: FloatArray, y: FloatArray, flat: IntArray) -> None:
    for part in chunks(len(flat), max(1, _PAIRS // x.shape[1])):
        i, j = np.divmod(flat[part], len(y))
        difference = x[i] - y[j]
        d2[i, j] = np.einsum("ij,ij->i", difference, difference)
