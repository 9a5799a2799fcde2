"""How good a confidence is: c_i in [0, 1] against I_i, 1 when the prediction is right, over N items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from opcal.core.checks import Float64Array, scored, within
from opcal.core.costs import loss_from_threshold, threshold_from_loss
from opcal.core.method import BoolArray, IntArray
from opcal.errors import InvalidInput, UnknownOption

_GRID = 8192  # smooth ECE within 1e-8 of direct integration wherever it exceeds 6e-4


def brier(conf: ArrayLike, correct: ArrayLike) -> float:
    """Mean of (c - I)^2."""
    c, right = scored(conf, correct)
    return float(np.mean((c - right) ** 2))


@dataclass(frozen=True)
class BrierDecomposition:
    """brier = reliability - resolution + uncertainty + remainder, exactly when added in this order."""

    reliability: float
    resolution: float
    uncertainty: float
    remainder: float
    """What the three parts miss because confidence varies within a bin; 0 when it does not."""
    brier: float


def brier_decomposition(conf: ArrayLike, correct: ArrayLike, bins: int = 10) -> BrierDecomposition:
    """Murphy's partition over bins D_m = ((m-1)/M, m/M], 0 in the first bin.

    Reliability sum_m |D_m|/N (conf(D_m) - acc(D_m))^2, resolution sum_m |D_m|/N (acc(D_m) - acc)^2, uncertainty
    acc (1 - acc). The paper's text drops the weight |D_m| of the resolution.
    """
    c, right = scored(conf, correct)
    table = _table(c, right, bins, "width")
    accuracy = float(np.mean(right))
    reliability = float(table.share @ (table.confidence - table.accuracy) ** 2)
    resolution = float(table.share @ (table.accuracy - accuracy) ** 2)
    parts = reliability - resolution + accuracy * (1 - accuracy)
    remainder = brier(c, right) - parts
    return BrierDecomposition(reliability, resolution, accuracy * (1 - accuracy), remainder, parts + remainder)


def ece(conf: ArrayLike, correct: ArrayLike, bins: int = 15, *, binning: str = "width") -> float:
    """Expected calibration error: sum_m |D_m|/N |conf(D_m) - acc(D_m)|.

    `binning`: "width" for the bins ((m-1)/M, m/M]; "mass" for bins of equal counts, in which items of equal confidence
    go together to the bin that holds the middle of their ranks; "smooth" for the smooth error without bins of Blasiok &
    Nakkiran (2023), which `bins` does not touch.
    """
    c, right = scored(conf, correct)
    if binning == "smooth":
        return _smooth_ece(c, right)
    table = _table(c, right, bins, binning)
    return float(table.share @ np.abs(table.confidence - table.accuracy))


def lce(
    conf: ArrayLike,
    correct: ArrayLike,
    threshold: float | None = None,
    *,
    u: float | None = None,
    scaled: bool = False,
) -> float:
    """Loss due to confidence error, (sum_i I_i - sum_i g_i) / N with g = I - u (1 - I) where c >= lambda, else 0.

    Give the break-even confidence `threshold` (default .9) or the loss `u` of a false prediction, not both. `scaled`
    multiplies by 1 - lambda, as the paper's Table 3 does. Refusing everything scores the accuracy: `lce_comparison`.
    """
    return lce_comparison(conf, correct, threshold, u=u, scaled=scaled).lce


@dataclass(frozen=True)
class LceComparison:
    """LCE beside that of the two ways to decide without any confidence."""

    lce: float
    act_on_nothing: float
    act_on_everything: float
    threshold: float
    u: float
    scaled: bool


def lce_comparison(
    conf: ArrayLike,
    correct: ArrayLike,
    threshold: float | None = None,
    *,
    u: float | None = None,
    scaled: bool = False,
) -> LceComparison:
    """`lce` with what acting on nothing (the accuracy) and on everything (u times the error) would score."""
    level, loss = _break_even(threshold, u)
    c, right = scored(conf, correct)
    acted, total = _confident(c, right, level), int(right.sum())
    unit = (1 - level if scaled else 1.0) / len(c)
    missed = total - acted.right
    return LceComparison(
        lce=(missed + loss * acted.false) * unit,
        act_on_nothing=total * unit,
        act_on_everything=loss * (len(c) - total) * unit,
        threshold=level,
        u=loss,
        scaled=scaled,
    )


def _break_even(threshold: float | None, u: float | None) -> tuple[float, float]:
    """(lambda, u), the one given kept to the last bit: an item exactly at the threshold must be acted on."""
    if u is None:
        level = 0.9 if threshold is None else threshold
        return float(level), loss_from_threshold(level)
    if threshold is not None:
        raise UnknownOption(f"threshold={threshold!r} and u={u!r} were both given: pass one, the other follows from it")
    return threshold_from_loss(u), float(u)


@dataclass(frozen=True)
class Confident:
    """How many predictions with confidence at or above a threshold are right, and how many are false."""

    right: int
    false: int


def confident(conf: ArrayLike, correct: ArrayLike, threshold: float = 0.9) -> Confident:
    """High-confidence right and false predictions, c >= threshold."""
    return _confident(*scored(conf, correct), within(threshold, "threshold", 0, 1))


def _confident(c: Float64Array, right: BoolArray, threshold: float) -> Confident:
    taken = c >= threshold
    hits = int(np.count_nonzero(taken & right))
    return Confident(hits, int(np.count_nonzero(taken)) - hits)


def aurc(conf: ArrayLike, correct: ArrayLike) -> float:
    """Area under the risk-coverage curve: the mean over k = 1..N of the error among the k most confident items.

    Items of equal confidence count with their expected errors over all orders of them, so that no order is special.
    """
    c, right = scored(conf, correct)
    _, group, count = np.unique(-c, return_inverse=True, return_counts=True)
    wrong = np.bincount(group, weights=~right) / count
    return float(np.mean(np.cumsum(np.repeat(wrong, count)) / np.arange(1, len(c) + 1)))


@dataclass(frozen=True)
class ReliabilityCurve:
    """One entry for each bin that holds items, in order of confidence."""

    confidence: Float64Array  # mean confidence
    accuracy: Float64Array  # share of right predictions
    lower: Float64Array
    upper: Float64Array
    count: IntArray


def reliability_curve(
    conf: ArrayLike, correct: ArrayLike, bins: int = 10, *, level: float = 0.9, binning: str = "width"
) -> ReliabilityCurve:
    """Accuracy against confidence, with the exact (Clopper-Pearson) interval of each bin's accuracy at `level`."""
    within(level, "level", 0, 1, below=True)
    table = _table(*scored(conf, correct), bins, binning)
    lower, upper = _clopper_pearson(table.right, table.count, (1 - level) / 2)
    return ReliabilityCurve(table.confidence, table.accuracy, lower, upper, table.count)


def _clopper_pearson(k: IntArray, n: IntArray, tail: float) -> tuple[Float64Array, Float64Array]:
    """The success rates for which k or more, and k or fewer, of n have probability `tail`."""
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, tail), 0.0)
    upper = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - tail), 1.0)
    return lower, upper


@dataclass(frozen=True)
class _Table:
    """Counts and means of the bins that hold items."""

    count: IntArray
    right: IntArray
    confidence: Float64Array

    @property
    def accuracy(self) -> Float64Array:
        return np.asarray(self.right / self.count, np.float64)

    @property
    def share(self) -> Float64Array:
        return np.asarray(self.count / self.count.sum(), np.float64)


def _table(c: Float64Array, right: BoolArray, bins: int, binning: str) -> _Table:
    index = _bin_index(c, bins, binning)
    count, hits = np.bincount(index), np.bincount(index[right], minlength=int(index.max()) + 1)
    filled = count > 0
    total = np.asarray(np.bincount(index, weights=c), np.float64)
    return _Table(count[filled], hits[filled], total[filled] / count[filled])


def _bin_index(c: Float64Array, bins: int, binning: str) -> IntArray:
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise InvalidInput(f"bins is {bins!r}: pass a whole number of at least 1")
    if binning == "width":
        # Edges by division: ceil(0.7 * 10) is 8, and 3 * 0.1 exceeds 0.3, but 7 / 10 is the float written 0.7.
        return np.searchsorted(np.arange(1, bins) / bins, c, side="left")
    if binning == "mass":
        ranked = np.sort(c)
        twice_middle = np.searchsorted(ranked, c, side="left") + np.searchsorted(ranked, c, side="right")
        return twice_middle * int(bins) // (2 * len(c))
    raise UnknownOption(f'binning is {binning!r}: pass "width" or "mass" (or "smooth" for ece)')


def _smooth_ece(c: Float64Array, right: BoolArray) -> float:
    """The sigma with smECE_sigma = sigma, smECE_sigma = int_0^1 |(1/N) sum_i K_sigma(t, c_i) (I_i - c_i)| dt.

    K is the Gaussian kernel reflected at 0 and 1. Residuals are shared out between the two nearest midpoints of a grid;
    mirrored once, smoothing is a product in the Fourier domain. smECE_sigma never grows with sigma: bisection.
    """
    mass = _residual_mass(c, right)
    spectrum = np.fft.rfft(np.concatenate([mass, mass[::-1]]))
    frequency = np.pi * np.arange(len(spectrum))
    low, high = 0.0, 1.0
    for _ in range(45):
        sigma = (low + high) / 2
        smooth = np.fft.irfft(spectrum * np.exp(-0.5 * (sigma * frequency) ** 2), 2 * _GRID)[:_GRID]
        low, high = (sigma, high) if np.abs(smooth).sum() > sigma else (low, sigma)
    return low


def _residual_mass(c: Float64Array, right: BoolArray) -> Float64Array:
    """(I - c) / N at the midpoints of [0, 1]'s cells, shared linearly; beyond the ends it is reflected."""
    position = c * _GRID - 0.5
    cell = np.floor(position).astype(np.intp)
    part, residual = position - cell, (right - c) / len(c)
    cells = np.concatenate([np.maximum(cell, 0), np.minimum(cell + 1, _GRID - 1)])
    shares = np.concatenate([(1 - part) * residual, part * residual])
    return np.asarray(np.bincount(cells, weights=shares, minlength=_GRID), np.float64)
