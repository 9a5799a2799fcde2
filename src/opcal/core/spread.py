"""How sure the kernel softmax is: the log-odds of being right, linearised at the mode, as a Gaussian process.

Its prior covariance follows from that of f: log-odds m = f_ŷ − log Σ_{c≠ŷ} e^{f_c} have slope 1 at ŷ and −p_c/(1−p_ŷ)
elsewhere, so cov(m, m') = a²ρρ'K(x, x') + ∇m·∇m'/4 for (τ, β_B, β_Z), ρ² = 1 + Σ_{c≠ŷ} (p_c/(1−p_ŷ))². K is carried by
landmark rows, what they cannot explain is each item's own (FITC). An offset and a slope of m, N(0, 1½²) and N(0, 1),
stand for what is wrong with the whole. An answer is worth p_ŷ(1−p_ŷ)/3 of information on m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opcal.core.embedding import FieldKernel, Places, Seen
from opcal.core.method import FloatArray
from opcal.core.softmax import SPREAD

LANDMARKS = 256
NUGGET = 1e-4
OFFSET, SLOPE = 1.5, 1.0
EDGE = 1e-6
CAUTION = 3.0
"""Answers tell this much less than the linearised model thinks; how well group means are covered: docs/robust.md."""


@dataclass(frozen=True)
class Spread:
    """Posterior of the log-odds: m = features(x)·w + own, w ~ N(0, RRᵀ)."""

    kernel: FieldKernel
    landmarks: Places  # [m, ·]
    whiten: FloatArray  # [m, m], landmark kernel to features
    root: FloatArray  # [m + 5, m + 5], R
    amplitude2: float

    def directions(self, x: Seen, p: FloatArray, cooled: FloatArray) -> tuple[FloatArray, FloatArray]:
        """features(x)·R [n, m + 5] and the variance that is each item's own [n]."""
        features, own = features_of(self.kernel, self.landmarks, self.whiten, self.amplitude2, x, p, cooled)
        return features @ self.root.astype(features.dtype, copy=False), own


def landmark_basis(kernel: FieldKernel, landmarks: Places) -> FloatArray:
    """W with k(x, U)W the features whose inner products stand for K."""
    gram = kernel(landmarks, landmarks)
    gram[np.diag_indices_from(gram)] += NUGGET * gram.diagonal().max(initial=1.0)
    inverse: FloatArray = np.linalg.inv(np.linalg.cholesky(gram)).T
    return inverse


def features_of(
    kernel: FieldKernel,
    landmarks: Places,
    whiten: FloatArray,
    amplitude2: float,
    x: Seen,
    p: FloatArray,
    cooled: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Prior features of the log-odds [n, m + 5] and the variance they leave out [n]; p, e^(−τ)h are [n, K]."""
    dtype = x.logits.dtype
    at = np.arange(len(x)), x.predicted
    others = p.copy()
    others[at] = 0
    odds = np.log(np.clip(p[at], EDGE, 1 - EDGE)) - np.log(np.clip(1 - p[at], EDGE, 1 - EDGE))
    others /= np.maximum(others.sum(1, keepdims=True), np.finfo(dtype).tiny)
    by_kernel = kernel(x, landmarks) @ whiten.astype(dtype, copy=False)
    left = np.maximum(kernel.diagonal(x) - np.einsum("ij,ij->i", by_kernel, by_kernel), 0)
    rho2 = amplitude2 * (1 + np.einsum("ij,ij->i", others, others))
    by_kernel *= np.sqrt(rho2)[:, None]
    by_prior = [g[at] - np.einsum("ij,ij->i", others, g) for g in (cooled, x.near_b, x.near_z)]
    whole = np.column_stack([np.full(len(x), OFFSET), SLOPE * odds])
    features = np.column_stack([by_kernel, SPREAD * np.stack(by_prior, 1), whole])
    return features.astype(dtype, copy=False), rho2 * left


def posterior_root(features: FloatArray, own: FloatArray, right: FloatArray, weight: FloatArray) -> FloatArray:
    """R [f, f] after answers to items with these features [n, f], own variances, P(right) and weights [n]."""
    information = weight * right * (1 - right) / CAUTION
    weight = information / (1 + information * own)
    precision = np.eye(features.shape[1]) + (features.T * weight) @ features
    root: FloatArray = np.linalg.inv(np.linalg.cholesky(precision)).T
    return root


def through_logistic(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Variance of σ(m) where E σ(m) = mean and m has this variance; exact as it → 0, at most mean(1 − mean)."""
    widest = mean * (1 - mean)
    spread: FloatArray = widest * (1 - 1 / np.sqrt(1 + 2 * widest * variance))
    return spread
