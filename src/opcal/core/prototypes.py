"""Class prototypes from the unlabelled pool: where each class lies in this field (method.md §2).

z̃ = z/‖z‖ is looked at in two spaces F: B, a whitened principal subspace of z̃ on the pool, and Z, centred z̃ itself.
With f_i = F_i/‖F_i‖, P = softmax(e^(−.4)h), three times: m_c = Σ_j P_jc f_j + ŵ_c and S_ic = f_i·m_c/‖m_c‖, centred
over classes and divided by its RMS on the pool; then P = softmax(e^(−.7)h + 1.5 S). ŵ_c is the last layer's row in F,
where known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from opcal.core.method import FloatArray

DIMENSIONS = 12
"""Of the whitened subspace; 8 to 32 give the same Brier score within .01."""
ROUNDS = 3
START, LATER, PULL = 0.4, 0.7, 1.5
TINY = 1e-12


@dataclass(frozen=True)
class Projection:
    """Rows of the pool's model as z̃ − mean, [n, d], and its whitened principal part B, [n, r]."""

    mean: FloatArray  # [d]
    basis: FloatArray  # [d, r], eigenvectors over the root of their eigenvalues
    scale: FloatArray  # [r], roots of the eigenvalues

    def centred(self, features: FloatArray, dtype: np.dtype[np.floating]) -> FloatArray:
        rows = unit(features.astype(dtype, copy=False))
        rows -= self.mean.astype(dtype, copy=False)
        return rows

    def whitened(self, centred: FloatArray) -> FloatArray:
        part: FloatArray = centred @ self.basis.astype(centred.dtype, copy=False)
        return part

    def head(self, weight: FloatArray) -> FloatArray:
        """Rows of the last layer [K, d] as directions in B [K, r]."""
        directions: FloatArray = (weight @ self.basis) * self.scale**2
        return directions


@dataclass(frozen=True)
class Prototypes:
    """The classes' places m_c in one space F, frozen after `begin`."""

    places: FloatArray  # [K, dim F], not normalised
    scale: float  # RMS of centred S on the pool

    def scores(self, rows: FloatArray) -> FloatArray:
        """S [n, K] of rows of F, [n, dim F]."""
        dtype = rows.dtype
        s = _along(rows, unit(self.places).astype(dtype, copy=False))
        s -= s.mean(1, keepdims=True)
        s /= dtype.type(self.scale)
        return s

    def scores_without_self(self, rows: FloatArray, own: FloatArray) -> FloatArray:
        """S of pool rows that leave themselves out; own [n, K] is their share P in each class."""
        return _centred_scores(unit(rows), self.places, own) / self.scale


def _along(x: FloatArray, directions: FloatArray) -> FloatArray:
    """Cosines between rows [n, m] and rows of length 1 [K, m], without a copy of x where its lengths are tame."""
    norms = np.sqrt(np.einsum("ij,ij->i", x, x))
    if not _tame(norms):
        return unit(x) @ directions.T
    cosines: FloatArray = x @ directions.T
    cosines /= norms[:, None]
    return cosines


def _tame(norms: FloatArray) -> bool:
    return bool((np.isfinite(norms) & (norms > 1e-18)).all())


def unit(x: FloatArray) -> FloatArray:
    """Rows of length 1; rows of zeros stay zero."""
    norms = np.sqrt(np.einsum("ij,ij->i", x, x))
    if _tame(norms):
        scaled: FloatArray = x / norms[:, None]
        return scaled
    largest = np.abs(x).max(1, initial=0.0)
    x = x / np.where(largest > 0, largest, 1)[:, None].astype(x.dtype)
    norms = np.sqrt(np.einsum("ij,ij->i", x, x))
    return x / np.where(norms > 0, norms, 1)[:, None]


def project(features: FloatArray, dimensions: int = DIMENSIONS) -> Projection:
    """The pool's mean z̃ and its whitened principal subspace; directions without variance are left out."""
    rows = unit(np.asarray(features, dtype=np.float64))
    mean = rows.mean(0)
    rows -= mean
    variances, vectors = _principal(rows, min(dimensions, *rows.shape))
    kept = variances > max(1e-10 * variances.max(initial=0.0), 1e-20)
    scale = np.sqrt(variances[kept])
    return Projection(mean, vectors[:, kept] / scale, scale)


def _principal(rows: FloatArray, r: int) -> tuple[FloatArray, FloatArray]:
    """The r largest variances and their directions, from the smaller of the two Gram matrices."""
    from scipy.linalg import eigh

    n, d = rows.shape
    gram = (rows.T @ rows if d <= n else rows @ rows.T) / n
    variances, vectors = eigh(gram, subset_by_index=[len(gram) - r, len(gram) - 1])
    variances, vectors = np.maximum(variances[::-1], 0.0), vectors[:, ::-1]
    if d > n:
        vectors = rows.T @ vectors / np.sqrt(np.maximum(n * variances, TINY**2))
    return variances, vectors


def learn(
    spaces: tuple[FloatArray, FloatArray], logits: FloatArray, heads: tuple[FloatArray, FloatArray] | None
) -> tuple[tuple[Prototypes, FloatArray], tuple[Prototypes, FloatArray]]:
    """For B and Z: the prototypes and each pool row's own share P [N, K] in them."""
    whitened, centred = (None, None) if heads is None else heads
    return _learn(spaces[0], logits, whitened), _learn(spaces[1], logits, centred)


def _learn(rows: FloatArray, logits: FloatArray, head: FloatArray | None) -> tuple[Prototypes, FloatArray]:
    f = unit(rows)
    start = 0.0 if head is None else unit(head)
    own: FloatArray = softmax(np.exp(-START) * logits, axis=1)
    for _ in range(ROUNDS):
        before, places = own, own.T @ f + start
        s = _centred_scores(f, places, before)
        scale = float(np.sqrt((s**2).mean())) or 1.0
        own = softmax(np.exp(-LATER) * logits + PULL / scale * s, axis=1)
    return Prototypes(places, scale), before


def _centred_scores(f: FloatArray, places: FloatArray, own: FloatArray) -> FloatArray:
    """(f_i·m_c − P_ic)/‖m_c − P_ic f_i‖, minus its mean over classes; 0 for a place that only i holds."""
    length2 = np.einsum("ij,ij->i", f, f)[:, None]
    dot = f @ places.T
    left2 = np.einsum("ij,ij->i", places, places) - 2 * own * dot + own**2 * length2
    s: FloatArray = np.where(left2 > TINY, (dot - own * length2) / np.sqrt(np.maximum(left2, TINY)), 0.0)
    s -= s.mean(1, keepdims=True)
    return s
