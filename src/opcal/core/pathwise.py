"""Joint draws of a clustered Gaussian process without any covariance matrix of the rows (Matheron's rule).

A draw is φ(x)ᵀw + k(x, X) K⁻¹ (y − φ(X)ᵀw − ε): with φ random Fourier features, w standard normal and ε the noise.
Its deviation from the posterior mean is linear in (w, ε); dividing by the length of that row of coefficients makes
every item's draw exactly standard normal, whatever the Fourier features lack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opcal.core.gp import Fitted, Kernel
from opcal.core.kernels import chunks
from opcal.core.method import FloatArray, IntArray, Outputs

if TYPE_CHECKING:
    from opcal.core.paper import PaperLearner

FREQUENCIES = 128
"""Pairs of cosine and sine: correlations are right to about 1/√128."""
ROWS = 4096


@dataclass(frozen=True)
class Pathwise:
    """Standard normal draws for rows that lie in given clusters."""

    learner: PaperLearner
    rows: Outputs
    at: IntArray  # [N]

    def __call__(self, n: int, rng: np.random.Generator) -> FloatArray:
        draws = np.empty((n, len(self.rows)))
        kernels = self.learner.kernels(len(self.learner.answers))
        for c, (kernel, expert) in enumerate(zip(kernels, self.learner.experts, strict=True)):
            frequencies = rng.standard_normal((self.rows.features.shape[1], FREQUENCIES)) / kernel.length
            t = 0 if expert is None else len(expert.points)
            normal = rng.standard_normal((2 * FREQUENCIES + t, n))
            members = np.flatnonzero(self.at == c)
            for part in chunks(len(members), ROWS):
                z = self.learner.relative(self.rows.features[members[part]], c).astype(np.float64)
                spread = _deviation(z, frequencies, kernel, expert)
                spread /= np.maximum(np.sqrt(np.einsum("ij,ij->i", spread, spread)), 1e-150)[:, None]
                draws[:, members[part]] = (spread @ normal).T
        return draws


def _deviation(z: FloatArray, frequencies: FloatArray, kernel: Kernel, expert: Fitted | None) -> FloatArray:
    """Coefficients of (w, ε/√v) in the draw's deviation from the posterior mean, [m, 2F + t]."""
    phi = _fourier(z, frequencies, kernel.amplitude)
    if expert is None:
        return phi
    points = expert.points.astype(np.float64)
    k = expert.covariances(z.astype(expert.points.dtype), np.einsum("ij,ij->i", z, z))
    gain = (k @ expert.root) @ expert.root.T
    return np.hstack([phi - gain @ _fourier(points, frequencies, kernel.amplitude), -gain * np.sqrt(expert.noise)])


def _fourier(z: FloatArray, frequencies: FloatArray, amplitude: float) -> FloatArray:
    angle = z @ frequencies
    waves: FloatArray = np.hstack([np.cos(angle), np.sin(angle)]) * np.sqrt(amplitude / frequencies.shape[1])
    return waves
