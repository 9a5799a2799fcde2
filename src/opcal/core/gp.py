"""The exact Gaussian process: over fixed rows one label at a time, and over new rows from the labelled points.

k(z, z') = a² exp(−‖z − z'‖² / 2ℓ²), zero mean, observation noise v (section 4.1 of the paper, with noise).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opcal.core import step
from opcal.core.kernels import squared_distances, squared_distances_to
from opcal.core.method import FloatArray, IntArray

NOISE_FLOOR = 1e-10
"""Times a²: without any noise, two labels at the same point divide by zero."""
AHEAD = 15
"""Rows whose distances are computed beside those that are needed."""
KEPT = 2**20
"""Distances from labelled rows are kept for the next change of the kernel, at most so many numbers."""
LEAST = -80.0
"""exp of less underflows in float32, which NumPy may report; below e^-80 nothing is near anyway."""


@dataclass(frozen=True)
class Kernel:
    """Amplitude a², length ℓ and noise v of one cluster."""

    amplitude: float = 1.0
    length: float = 1.0
    noise: float = 0.1

    def of(self, d2: FloatArray) -> FloatArray:
        """k at squared distances."""
        k: FloatArray = d2 * (-0.5 / self.length**2)
        np.maximum(k, LEAST, out=k)
        np.exp(k, out=k)
        k *= self.amplitude
        return k

    @property
    def floored_noise(self) -> float:
        return max(self.noise, NOISE_FLOOR * self.amplitude)


def inverse_root(k: FloatArray, noise: FloatArray) -> FloatArray:
    """Upper triangular R with (K + diag(noise))⁻¹ = RRᵀ: Rᵀ is the inverse of the Cholesky factor; float64."""
    noisy = k.astype(np.float64)
    noisy.flat[:: len(noisy) + 1] += noise
    root: FloatArray = np.linalg.inv(np.linalg.cholesky(noisy)).T
    return root


class PoolGP:
    """Posterior mean and variance at n fixed rows, updated exactly with each label.

    V [t, n] holds the rows r of earlier updates (step.py). It costs O(n (d + t)) a label and equals refitting.
    """

    BLOCK = 128
    """Rows of V are kept in blocks of at most this many: growing never copies, so memory never doubles."""

    def __init__(self, points: FloatArray, norms: FloatArray, kernel: Kernel) -> None:
        self.points, self.norms = points, norms
        self._distances: dict[int, FloatArray] = {}
        self._ahead: dict[int, FloatArray] = {}
        self._likely: FloatArray = np.empty(0)
        self.mean: FloatArray = np.empty(len(self.points))
        self.variance: FloatArray = np.empty(len(self.points))
        self._step = step.adder(self.mean, self.variance)
        self._start(kernel)

    def _start(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.mean[:], self.variance[:] = 0.0, kernel.amplitude
        self.blocks: list[FloatArray] = []
        self.count = 0
        self._filled = 0

    def begin(self, kernel: Kernel, rows: IntArray, y: FloatArray, weight: FloatArray) -> None:
        """Anew with these labels, all at once: V = L⁻¹ k(X_labelled, X) by one product, as if added one by one."""
        self._start(kernel)
        if not len(rows):
            return
        k = kernel.of(self._distances_of(rows))
        root = inverse_root(k[:, rows], kernel.floored_noise / weight)
        v = root.T.astype(k.dtype) @ k
        self.mean += (root.T @ y) @ v
        self.variance -= np.einsum("ij,ij->j", v, v)
        np.maximum(self.variance, 0.0, out=self.variance)
        self.blocks = [v]
        self.count = self._filled = len(rows)

    def add(self, j: int, y: float, weight: float = 1.0) -> None:
        """A label at row j with residual y; its noise is v over its weight."""
        d2 = self._distances_from(j)
        earlier, r = self._rows(), self._next_row(d2.dtype)
        self._step(self.kernel, d2, j, y, self.kernel.floored_noise / weight, earlier, r)
        self._filled += 1
        self.count += 1

    def expect_next(self, score: FloatArray) -> None:
        """The next labels will probably be at rows of low score [n]."""
        self._likely = score

    def _distances_from(self, j: int) -> FloatArray:
        """‖x_j − X‖² [n]; those from the likely next rows are computed along: reading X is what takes the time.

        Seven of eight labels that the paper's design asks for find their row there.
        """
        if j in self._distances:
            return self._distances[j]
        if j not in self._ahead:
            likely = self._likely.argpartition(AHEAD)[:AHEAD].tolist() if len(self._likely) > 2 * AHEAD else []
            rows = np.array(sorted({*likely, j}), dtype=np.intp)
            self._ahead = dict(zip(rows.tolist(), self._compute(rows), strict=True))
        d2 = self._ahead.pop(j)
        self._keep([j], d2.copy()[None])
        return d2

    def _distances_of(self, rows: IntArray) -> FloatArray:
        """‖x_j − X‖² of several rows [t, n]; computed for those that are not kept."""
        missing = [j for j in rows.tolist() if j not in self._distances]
        computed = self._compute(np.array(missing, dtype=np.intp))
        self._keep(missing, computed)
        if len(missing) == len(rows):
            return computed
        fresh = dict(zip(missing, computed, strict=True))
        return np.array([fresh[j] if j in fresh else self._distances[j] for j in rows.tolist()])

    def _keep(self, rows: list[int], d2: FloatArray) -> None:
        room = KEPT // max(len(self.points), 1) - len(self._distances)
        self._distances.update(zip(rows[: max(room, 0)], d2, strict=False))

    def _compute(self, rows: IntArray) -> FloatArray:
        return squared_distances_to(self.points, self.norms, self.points[rows])

    def expect(self, j: int) -> None:
        """A label at row j whose answer is what the mean says: only the variance changes."""
        self.add(j, float(self.mean[j]))

    def snapshot(self) -> tuple[FloatArray, FloatArray, int, int, int]:
        return self.mean.copy(), self.variance.copy(), self.count, len(self.blocks), self._filled

    def restore(self, saved: tuple[FloatArray, FloatArray, int, int, int]) -> None:
        self.mean[:], self.variance[:], self.count, blocks, self._filled = saved
        del self.blocks[blocks:]

    def _rows(self) -> list[FloatArray]:
        if not self._filled:
            return self.blocks[:-1]
        return [*self.blocks[:-1], self.blocks[-1][: self._filled]]

    def _next_row(self, dtype: np.dtype[np.floating]) -> FloatArray:
        if not self.blocks or self._filled == len(self.blocks[-1]):
            height = min(max(self.count, 8), self.BLOCK)
            self.blocks.append(np.empty((height, len(self.points)), dtype=dtype))
            self._filled = 0
        row: FloatArray = self.blocks[-1][self._filled]
        return row


@dataclass(frozen=True)
class Fitted:
    """A Gaussian process given labelled points: all that is needed to score new rows."""

    points: FloatArray  # [t, d], relative to the cluster's medoid, as all rows here: small numbers keep float32 exact
    weights: FloatArray  # [t], K⁻¹y
    root: FloatArray  # [t, t], upper triangular R with K⁻¹ = RRᵀ
    noise: FloatArray  # [t], on the diagonal of K
    kernel: Kernel

    @classmethod
    def fit(cls, points: FloatArray, y: FloatArray, weight: FloatArray, kernel: Kernel) -> Fitted:
        exact, noise = points.astype(np.float64, copy=False), kernel.floored_noise / weight
        root = inverse_root(kernel.of(squared_distances(exact, exact)), noise)
        return cls(points, (root @ (root.T @ y)).astype(points.dtype), root.astype(points.dtype), noise, kernel)

    def covariances(self, rows: FloatArray, norms: FloatArray) -> FloatArray:
        """k(rows, points) [m, t]; `norms` are the rows' squared norms."""
        scale = 1 / self.kernel.length**2
        exponent = rows @ (self.points * scale).T
        exponent -= (0.5 * scale) * norms[:, None]
        exponent -= (0.5 * scale) * np.einsum("ij,ij->i", self.points, self.points)
        np.clip(exponent, LEAST, 0.0, out=exponent)
        np.exp(exponent, out=exponent)
        exponent *= self.kernel.amplitude
        return exponent

    def moments(self, rows: FloatArray, norms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the function at new rows, [m] each."""
        k = self.covariances(rows, norms)
        half = k @ self.root
        variance = self.kernel.amplitude - np.einsum("ij,ij->i", half, half)
        return k @ self.weights, np.maximum(variance, 0.0)
