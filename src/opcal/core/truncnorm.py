"""The normal distribution cut to [0, 1]: stable moments, probabilities, quantiles, and the location behind a mean.

With location m and scale s the density on [0, 1] is proportional to exp(-(x - m)^2 / 2s^2). Everything is computed
after a reflection that puts the nearer bound on the left, x = min(m, 1 - m) <= 1/2, and in one of two ways:

- middle (s <= 10 and the left bound at most 6 s beyond the location): normal densities and `ndtr`;
- far (the tail, or a window so narrow that the density is nearly flat): Gauss-Legendre nodes on
  exp(-k y - y^2 / 2s^2) with k = -x / s^2, over the part of [0, 1] that holds all but e^-30 of the mass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from opcal.core.method import BoolArray, FloatArray
from opcal.errors import InvalidArray

Float64Array = NDArray[np.float64]
_Part = Callable[[Float64Array, Float64Array, Float64Array], Float64Array]

_POINT = 1e-150  # a smaller scale counts as 0: its reciprocal squared would overflow
_WIDE = 10.0  # the textbook variance loses 12 s^3 of its digits: 1e-12 here
_TAIL = 6.0  # and a^6 of them in the tail at a: 1e-11 here
_REACH = 30.0  # 24 nodes integrate exp(-30 u) on [0, 1] to 1e-14
_LEAST = -700.0  # exp of less underflows, which NumPy may be set to raise
_BOUNDS = np.array([[0.0], [1.0]])
_CHUNK = 8192  # the dozen temporaries of a block stay in the cache
_NORMALISER = 1 / np.sqrt(2 * np.pi)
_END = 1e-9
_MAX_STEPS = 60
_TOLERANCE = 1e-12

_roots, _root_weights = np.polynomial.legendre.leggauss(24)
_NODES: Float64Array = (_roots + 1) / 2
_WEIGHTS: Float64Array = np.stack([_root_weights / 2 * _NODES**power for power in range(3)])  # [3, 24]


def moments(m: ArrayLike, s: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of N(m, s^2) truncated to [0, 1], for broadcast m and s of any shape.

    mu_tn = m + s (phi(a) - phi(b)) / Z and sd_tn^2 = s^2 (1 + (a phi(a) - b phi(b)) / Z - ((phi(a) - phi(b)) / Z)^2),
    a = -m / s, b = (1 - m) / s, Z = Phi(b) - Phi(a). Scale 0 is the point clip(m); NaN stays NaN; float32 in gives
    float32 out.
    """
    location, scale = np.asarray(m), np.asarray(s)
    single = location.dtype == np.float32 and scale.dtype == np.float32
    if location.shape != scale.shape:
        location, scale = np.broadcast_arrays(location, scale)
    shape = location.shape
    if len(shape) == 1 and len(location) <= _CHUNK and not single:
        return _block(location, scale)
    mean, sd = _chunked(location.ravel(), scale.ravel(), single)
    return mean.reshape(shape)[()], sd.reshape(shape)[()]


def _chunked(m: NDArray[Any], s: NDArray[Any], single: bool) -> tuple[FloatArray, FloatArray]:
    mean, sd = np.empty((2, len(m)), np.float32 if single else np.float64)
    for start in range(0, len(m), _CHUNK):
        rows = slice(start, start + _CHUNK)
        mean[rows], sd[rows] = _block(m[rows], s[rows])
    return mean, sd


def _block(m: NDArray[Any], s: NDArray[Any]) -> tuple[Float64Array, Float64Array]:
    m, s = m.astype(np.float64, copy=False), s.astype(np.float64, copy=False)
    if m.size and np.minimum.reduce(s) >= _POINT and np.maximum.reduce(s) <= _WIDE:
        x = np.minimum(m, 1.0 - m)
        if np.minimum.reduce(x + _TAIL * s) >= 0:
            return _middle(m, x, s)
    return _mixed(m, s)


def _middle(m: Float64Array, x: Float64Array, s: Float64Array) -> tuple[Float64Array, Float64Array]:
    """The textbook formula at the reflected location x; stacking both bounds halves the number of NumPy calls."""
    z = (x - _BOUNDS) / s
    density = z * z
    density *= -0.5
    np.maximum(density, _LEAST, out=density)
    np.exp(density, out=density)
    density *= _NORMALISER / _mass(z)
    shift = density[0] - density[1]
    density *= z
    variance = density[1] - density[0]
    variance -= shift * shift
    variance += 1.0
    sd = s * np.sqrt(np.maximum(variance, 0.0))
    shift *= np.copysign(s, 0.5 - m)
    shift += m
    return np.minimum(np.maximum(shift, 0.0), 1.0), sd


def _mass(z: Float64Array) -> Float64Array:
    """Phi(b) - Phi(a) from z = (-a, -b): with the nearer bound on the left the two never cancel."""
    cumulative = ndtr(z)
    return np.asarray(cumulative[0] - cumulative[1])


def _mixed(m: Float64Array, s: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Rows of every kind: the middle formula on stand-ins where it does not hold, then the rows that it cannot do."""
    with np.errstate(all="ignore"):
        x = np.minimum(m, 1.0 - m)
        point, far = _kinds(x, s)
        other = point | far
        mean, sd = _middle(np.where(other, 0.5, m), np.where(other, 0.5, x), np.where(other, 1.0, s))
        left, sd[far] = _far_moments(x[far], s[far])
        mean[far] = np.where(m[far] > 0.5, 1.0 - left, left)
        mean[point], sd[point] = np.clip(m[point], 0.0, 1.0), 0.0
    return mean, sd


def _kinds(x: Float64Array, s: Float64Array) -> tuple[BoolArray, BoolArray]:
    """Masks of the points and of the rows that need quadrature (NaN among these, to stay NaN)."""
    if (s < 0).any():
        raise InvalidArray(f"s[{int(np.argmax(s < 0))}] is {s[s < 0][0]}: a standard deviation is at least 0")
    point = s < _POINT
    return point, ~point & ~((s <= _WIDE) & (x >= -_TAIL * s))


def _far_moments(x: Float64Array, s: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Moments by quadrature, in units of the reach so that squares cannot underflow."""
    reach, values = _exponential(x, s, np.ones_like(x))
    total, first, second = np.einsum("mi,in->mn", _WEIGHTS, values)  # not BLAS: equal on any number of threads
    mean = first / total
    return reach * mean, reach * np.sqrt(second / total - mean * mean)


def _slope(x: Float64Array, s: Float64Array) -> Float64Array:
    return np.minimum(-x / s / s, 1e300)


def _exponential(x: Float64Array, s: Float64Array, upto: Float64Array) -> tuple[Float64Array, Float64Array]:
    """exp(-k y - y^2 / 2s^2) at the nodes of [0, reach], reach <= upto: ([n], [24, n])."""
    slope = _slope(x, s)
    reach = upto / np.maximum(slope * upto / _REACH, 1.0)
    linear, square = slope * reach, (reach / s) ** 2 / 2
    nodes = _NODES[:, None]
    return reach, np.exp(-nodes * (linear + square * nodes))


def _far_integral(x: Float64Array, s: Float64Array, upto: Float64Array) -> Float64Array:
    reach, values = _exponential(x, s, upto)
    return np.asarray(reach * np.einsum("i,in->n", _WEIGHTS[0], values))


@dataclass(frozen=True)
class TruncatedNormal:
    """N normal distributions cut to [0, 1]; an item of scale 0 is the point clip(location)."""

    location: FloatArray  # [N]
    scale: FloatArray  # [N]

    def cdf(self, x: ArrayLike) -> FloatArray:
        """P(X <= x), [N]: the mass between the left bound and x over the mass of [0, 1]."""
        m, s, at = _aligned(self.location, self.scale, x)
        with np.errstate(all="ignore"):
            inside, reflected = np.clip(at, 0.0, 1.0), m > 0.5
            share = _by_kind(m, s, np.where(reflected, 1.0 - inside, inside), _middle_share, _far_share)
            share = np.clip(np.where(reflected, 1.0 - share, share), 0.0, 1.0)
            share = np.where(s < _POINT, at >= np.clip(m, 0.0, 1.0), share)
        return np.where(at < 0, 0.0, np.where(at >= 1, 1.0, share))

    def quantile(self, p: ArrayLike) -> FloatArray:
        """The x with cdf(x) = p; p broadcasts against [N]."""
        m, s, below = _aligned(self.location, self.scale, p)
        with np.errstate(all="ignore"):
            reflected = m > 0.5
            share = np.where(reflected, 1.0 - below, below)
            y = _by_kind(m, s, share, _middle_quantile, _far_quantile)
            x = np.clip(np.where(reflected, 1.0 - y, y), 0.0, 1.0)
        x = np.where(below <= 0, 0.0, np.where(below >= 1, 1.0, x))
        return np.where(s < _POINT, np.clip(m, 0.0, 1.0), x)


def _aligned(*arrays: ArrayLike) -> list[Float64Array]:
    return [np.asarray(a) for a in np.broadcast_arrays(*(np.asarray(a, np.float64) for a in arrays))]


def _by_kind(m: Float64Array, s: Float64Array, y: Float64Array, middle: _Part, far: _Part) -> Float64Array:
    """Apply to each row the function for its kind, in reflected coordinates; points get a stand-in."""
    point, is_far = _kinds(np.minimum(m, 1.0 - m), s)
    x, s = np.where(point, 0.5, np.minimum(m, 1.0 - m)), np.where(point, 1.0, s)
    out = np.empty(m.shape)
    for rows, part in ((is_far, far), (~is_far, middle)):
        out[rows] = part(x[rows], s[rows], y[rows])
    return out


def _middle_share(x: Float64Array, s: Float64Array, y: Float64Array) -> Float64Array:
    return np.asarray((ndtr(x / s) - ndtr((x - y) / s)) / _mass(np.stack([x, x - 1.0]) / s))


def _far_share(x: Float64Array, s: Float64Array, y: Float64Array) -> Float64Array:
    return _far_integral(x, s, y) / _far_integral(x, s, np.ones_like(x))


def _middle_quantile(x: Float64Array, s: Float64Array, p: Float64Array) -> Float64Array:
    """x + s z with Phi(z) = Phi(a) + p Z, solved in the lighter tail of the whole normal."""
    mass = _mass(np.stack([x, x - 1.0]) / s)
    below, above = ndtr(-x / s) + p * mass, ndtr((x - 1.0) / s) + (1.0 - p) * mass
    return np.asarray(x + s * np.where(below < above, ndtri(below), -ndtri(above)))


def _far_quantile(x: Float64Array, s: Float64Array, p: Float64Array) -> Float64Array:
    """Newton from the truncated exponential's quantile, an upper bound; F is concave: from the left it is safe."""
    k, total = _slope(x, s), _far_integral(x, s, np.ones_like(x))
    exponential = np.where(np.abs(k) < 1e-12, p, -np.log1p(p * np.expm1(-k)) / k)
    low, high = np.zeros_like(x), np.clip(exponential, 0.0, 1.0)
    y = high
    for _ in range(_MAX_STEPS):
        excess = _far_integral(x, s, y) - p * total
        low, high = np.where(excess < 0, y, low), np.where(excess > 0, y, high)
        step = y - excess / np.exp(-k * y - (y / s) ** 2 / 2)
        previous, y = y, np.where((step >= low) & (step <= high), step, (low + high) / 2)
        if not (np.abs(y - previous) > _TOLERANCE * y).any():
            break
    return y


def location_for_mean(mean: ArrayLike, s: ArrayLike) -> FloatArray:
    """The location whose truncated mean is `mean`, for broadcast arrays; an end counts as 1e-9 away from it.

    Newton's method on 1 / mu_tn, nearly linear in the location's tail, with d mu_tn / dm = sd_tn^2 / s^2, kept inside
    [-s^2 / mean, mean], which holds the root for mean <= 1/2.
    """
    wanted, scale = _aligned(mean, s)
    target = np.clip(np.minimum(wanted, 1.0 - wanted), _END, 0.5)
    with np.errstate(all="ignore"):
        left = np.where(scale < _POINT, target, _left_location(target, np.maximum(scale, _POINT)))
    return np.where(wanted > 0.5, 1.0 - left, left)[()]


def _left_location(target: Float64Array, s: Float64Array) -> Float64Array:
    low, high = -s * s / target, target
    m = target
    for _ in range(_MAX_STEPS):
        mean, sd = moments(m, s)
        excess = mean - target
        if not (np.abs(excess) > _TOLERANCE * target).any():
            break
        low, high = np.where(excess < 0, m, low), np.where(excess > 0, m, high)
        step = m - excess * mean / target * (s / sd) ** 2
        m = np.where((step >= low) & (step <= high), step, (low + high) / 2)
    return m
