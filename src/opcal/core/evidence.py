"""The marginal likelihood of many small Gaussian processes that share an amplitude and a multiplier of their lengths.

For cluster c with labelled residuals y_c, K_c = a² exp(−D²/(2 m² ℓ_c²)) + v I and
log p = Σ_c −½ y_cᵀ K_c⁻¹ y_c − ½ log|K_c|, up to a constant; θ = (log a², log m). A label of weight w has noise v/w:
by √w on both sides of K_c and on y_c that is v again, and log p differs by a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opcal.core.method import BoolArray, FloatArray, IntArray

LOWEST = np.log([0.01, 0.1])
HIGHEST = np.log([10.0, 10.0])
STEPS = 30


@dataclass(frozen=True)
class Group:
    """Clusters of similar size, padded to one: what is padded has no covariance and residual 0."""

    d2: FloatArray  # [g, t, t], squared distances over ℓ_c²
    real: FloatArray  # [g, t, t], √w√w', 0 where padded
    y: FloatArray  # [g, t]
    padded: int


@dataclass(frozen=True)
class Evidence:
    value: float
    gradient: FloatArray  # [2]
    fisher: FloatArray  # [2, 2]


def grouped(
    distances: Sequence[FloatArray], residuals: Sequence[FloatArray], weights: Sequence[FloatArray]
) -> list[Group]:
    """Batches of clusters whose sizes share a power of two: one NumPy call serves a whole batch."""
    sizes = np.array([len(y) for y in residuals])
    bucket = np.ceil(np.log2(np.maximum(sizes, 1))).astype(int)
    return [
        _pad(*([part[c] for c in at] for part in (distances, residuals, weights))) for at in _members(bucket, sizes > 0)
    ]


def _members(bucket: IntArray, used: BoolArray) -> list[IntArray]:
    return [np.flatnonzero(used & (bucket == b)) for b in np.unique(bucket[used])]


def _pad(distances: list[FloatArray], residuals: list[FloatArray], weights: list[FloatArray]) -> Group:
    t = max(len(y) for y in residuals)
    d2, real, y = (np.zeros((len(residuals), *shape)) for shape in ((t, t), (t, t), (t,)))
    for c, (d, r, w) in enumerate(zip(distances, residuals, weights, strict=True)):
        inside, root = slice(0, len(r)), np.sqrt(w)
        d2[c, inside, inside], real[c, inside, inside], y[c, inside] = d, np.outer(root, root), root * r
    return Group(d2, real, y, sum(t - len(r) for r in residuals))


def evidence(groups: Sequence[Group], theta: FloatArray, noise: float) -> Evidence:
    """Log marginal likelihood with its gradient and expected information in θ."""
    parts = [_group_evidence(group, theta, noise) for group in groups]
    return Evidence(
        sum(p.value for p in parts), np.sum([p.gradient for p in parts], 0), np.sum([p.fisher for p in parts], 0)
    )


def _group_evidence(group: Group, theta: FloatArray, noise: float) -> Evidence:
    amplitude, shrink = np.exp(theta[0]), np.exp(-2 * theta[1])
    scaled = group.d2 * shrink
    k = np.exp(-0.5 * scaled)
    k *= amplitude * group.real
    by_length = k * scaled
    diagonal = np.arange(k.shape[1])
    k[:, diagonal, diagonal] += noise
    inverse = np.linalg.inv(k)
    weights = np.matmul(inverse, group.y[:, :, None])[:, :, 0]
    # K⁻¹ ∂K/∂log a² = I − vK⁻¹ needs no product.
    by_amplitude = -noise * inverse
    by_amplitude[:, diagonal, diagonal] += 1
    by_length_product = inverse @ by_length
    products = (by_amplitude, by_length_product)
    fits = (group.y * weights - noise * weights**2, weights * np.matmul(by_length, weights[:, :, None])[:, :, 0])
    gradient = [0.5 * (fit.sum() - p[:, diagonal, diagonal].sum()) for fit, p in zip(fits, products, strict=True)]
    cross = [[0.5 * np.vdot(a, b.transpose(0, 2, 1)) for b in products] for a in products]
    root = np.linalg.cholesky(k)[:, diagonal, diagonal]
    logdet = 2 * np.log(root).sum() - group.padded * np.log(noise)
    value = -0.5 * float(np.vdot(group.y, weights) + logdet)
    return Evidence(value, np.array(gradient), np.array(cross))


def maximise(groups: Sequence[Group], noise: float, near: tuple[float, float] = (1.0, 1.0)) -> tuple[float, float]:
    """Amplitude a² and multiplier m of greatest evidence: Fisher scoring, bounded, from the better of two starts."""
    starts = [np.log(near), np.zeros(2)] if near != (1.0, 1.0) else [np.zeros(2)]
    at, theta = max(((evidence(groups, s, noise), s) for s in starts), key=lambda pair: pair[0].value)
    for _ in range(STEPS):
        at, theta, gain = _ascend(groups, at, theta, noise)
        if gain < 1e-4:
            break
    return float(np.exp(theta[0])), float(np.exp(theta[1]))


def _ascend(
    groups: Sequence[Group], at: Evidence, theta: FloatArray, noise: float
) -> tuple[Evidence, FloatArray, float]:
    """One scoring step, halved until it gains; gain 0 where it is at its best."""
    free = ~((theta <= LOWEST) & (at.gradient < 0) | (theta >= HIGHEST) & (at.gradient > 0))
    step = np.zeros(2)
    information = at.fisher[np.ix_(free, free)] + 1e-3 * np.eye(free.sum())
    step[free] = np.clip(np.linalg.solve(information, at.gradient[free]), -1.5, 1.5)
    for _ in range(8):
        tried = np.clip(theta + step, LOWEST, HIGHEST)
        found = evidence(groups, tried, noise)
        if found.value > at.value:
            return found, tried, found.value - at.value
        step *= 0.5
    return at, theta, 0.0
