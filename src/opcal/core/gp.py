"""The exact Gaussian process: over fixed rows one label at a time, and over new rows from the labelled points.

k(z, z') = a² exp(−‖z − z'‖² / 2ℓ²), zero mean, observation noise v (section 4.1 of the paper, with noise).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opcal.core.kernels import squared_distances, squared_distances_to
from opcal.core.method import FloatArray, IntArray

NOISE_FLOOR = 1e-10
"""Times a²: without any noise, two labels at the same point divide by zero."""
LEAST = -80.0
"""exp of less underflows in float32, which NumPy may report; below e^-80 nothing is near anyway."""


@dataclass(frozen=True)
class Kernel:
    """Amplitude a², length ℓ and noise v of one cluster."""

    amplitude: float = 1.0
    length: float = 1.0
    noise: float = 0.1

    def of(self, d2: FloatArray) -> FloatArray:
        """k at squared distances; overwrites them."""
        d2 *= -0.5 / self.length**2
        np.maximum(d2, LEAST, out=d2)
        np.exp(d2, out=d2)
        d2 *= self.amplitude
        return d2

    @property
    def floored_noise(self) -> float:
        return max(self.noise, NOISE_FLOOR * self.amplitude)


def inverse_root(k: FloatArray, kernel: Kernel) -> FloatArray:
    """Upper triangular R with (K + vI)⁻¹ = RRᵀ, so that Rᵀ is the inverse of the Cholesky factor; float64."""
    noisy = k.astype(np.float64)
    noisy.flat[:: len(noisy) + 1] += kernel.floored_noise
    root: FloatArray = np.linalg.inv(np.linalg.cholesky(noisy)).T
    return root


class PoolGP:
    """Posterior mean and variance at n fixed rows, updated exactly with each label.

    With V [t, n] the rows r of earlier updates: l = V[:, j], s = √(var_j + v), r = (k(X, x_j) − lᵀV) / s,
    mean += r (y − mean_j) / s, var −= r². It costs O(n (d + t)) a label and equals refitting.
    """

    BLOCK = 128
    """Rows of V are kept in blocks of at most this many: growing never copies, so memory never doubles."""

    def __init__(self, points: FloatArray, norms: FloatArray, kernel: Kernel) -> None:
        self.points, self.norms, self.kernel = points, norms, kernel
        self.mean: FloatArray = np.zeros(len(points))
        self.variance: FloatArray = np.full(len(points), kernel.amplitude)
        self.blocks: list[FloatArray] = []
        self.count = 0
        self._filled = 0
        self._halves = norms * norms.dtype.type(0.5 / kernel.length**2)
        # Expanded squares are off by about eps ‖z‖²; where that cannot be seen in k, near-duplicates need no repair.
        rounding = float(self._halves.max(initial=0.0)) * np.finfo(points.dtype).eps
        self._safe = rounding < (1e-6 if points.dtype == np.float32 else 1e-12)

    def add(self, j: int, y: float) -> None:
        """A label at row j with residual y."""
        s = float(np.sqrt(max(self.variance[j], 0.0) + self.kernel.floored_noise))
        r = self._covariances(j)
        for block in self._rows():
            r -= block[:, j] @ block
        r /= s
        self.mean += r * ((y - self.mean[j]) / s)
        self.variance -= r * r
        np.maximum(self.variance, 0.0, out=self.variance)
        self._append(r)

    def _covariances(self, j: int | IntArray) -> FloatArray:
        """k(x_j, X): [n] for one row, [t, n] for several."""
        x = self.points[j]
        if not self._safe:
            one = x.ndim == 1
            return self.kernel.of(
                squared_distances_to(self.points, self.norms, x) if one else squared_distances(x, self.points)
            )
        exponent: FloatArray = x @ self.points.T
        exponent *= 1 / self.kernel.length**2
        exponent -= self._halves
        exponent -= self._halves[j][..., None]
        np.minimum(exponent, 0.0, out=exponent)
        np.maximum(exponent, LEAST, out=exponent)
        np.exp(exponent, out=exponent)
        exponent *= self.kernel.amplitude
        return exponent

    def begin(self, rows: IntArray, y: FloatArray) -> None:
        """The first labels, all at once: V = L⁻¹ k(X_labelled, X) by one matrix product, as if added one by one."""
        k = self._covariances(rows)
        root = inverse_root(k[:, rows], self.kernel)
        v = root.T.astype(k.dtype) @ k
        self.mean += (root.T @ y) @ v
        self.variance -= np.einsum("ij,ij->j", v, v)
        np.maximum(self.variance, 0.0, out=self.variance)
        self.blocks = [v]
        self.count = self._filled = len(rows)

    def expect(self, j: int) -> None:
        """A label at row j whose answer is what the mean says: only the variance changes."""
        self.add(j, float(self.mean[j]))

    def snapshot(self) -> tuple[FloatArray, FloatArray, int, int, int]:
        return self.mean.copy(), self.variance.copy(), self.count, len(self.blocks), self._filled

    def restore(self, saved: tuple[FloatArray, FloatArray, int, int, int]) -> None:
        self.mean, self.variance, self.count, blocks, self._filled = saved
        del self.blocks[blocks:]

    def _rows(self) -> list[FloatArray]:
        if not self.blocks:
            return []
        return [*self.blocks[:-1], self.blocks[-1][: self._filled]]

    def _append(self, r: FloatArray) -> None:
        if not self.blocks or self._filled == len(self.blocks[-1]):
            height = min(max(self.count, 8), self.BLOCK)
            self.blocks.append(np.empty((height, len(r)), dtype=r.dtype))
            self._filled = 0
        self.blocks[-1][self._filled] = r
        self._filled += 1
        self.count += 1


@dataclass(frozen=True)
class Fitted:
    """A Gaussian process given labelled points: all that is needed to score new rows."""

    points: FloatArray  # [t, d], relative to the cluster's medoid, as all rows here: small numbers keep float32 exact
    weights: FloatArray  # [t], K⁻¹y
    root: FloatArray  # [t, t], upper triangular R with K⁻¹ = RRᵀ
    kernel: Kernel

    @classmethod
    def fit(cls, points: FloatArray, y: FloatArray, kernel: Kernel) -> Fitted:
        exact = points.astype(np.float64, copy=False)
        root = inverse_root(kernel.of(squared_distances(exact, exact)), kernel)
        return cls(points, (root @ (root.T @ y)).astype(points.dtype), root.astype(points.dtype), kernel)

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
