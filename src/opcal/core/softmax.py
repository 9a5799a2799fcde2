"""Kernel softmax: class probabilities by a Gaussian process on the logits, at its posterior mode (method.md §2).

f = e^(−τ)h + β_B S_B + β_Z S_Z + (γ·t + δ_ŷ) onehot(ŷ) + Kα with τ ~ N(τ₀, ½²), β ~ N(β₀, ½²), columns Kα ~ N(0, a²K),
γ/a, δ/a normal with the variances below. γ is what is wrong with predictions whatever their class, by their
log-odds and the prototypes' margin (t = `Seen.trend`), δ with those of one class. A class label adds
log softmax(f)_label; "wrong" and "outside", of which no class is known, add log(1 − softmax(f)_ŷ); each times the
answer's weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from opcal.core.embedding import Preparation, Seen
from opcal.core.method import Answers, BoolArray, FloatArray, IntArray

SPREAD = 0.5
"""Prior standard deviation of τ, β_B and β_Z."""
TREND = np.sqrt([0.025, 0.05, 0.05])
SAME = np.sqrt(0.06)
"""Prior standard deviations of γ and δ at a = 1."""
OWN = 6
"""Coordinates of the search before δ: τ, β_B, β_Z, γ."""
JITTER = 1e-8
STEPS = 200
FloatPair = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Prior:
    temperature: float = 1.0  # τ₀
    pull: float = 0.5  # β₀


@dataclass(frozen=True)
class Fit:
    """The mode: what is needed to score a row and to start the next search."""

    temperature: float  # τ
    pulls: FloatArray  # [2], β_B and β_Z
    trend: FloatArray  # [3], γ
    offsets: FloatArray  # [K], δ
    alpha: FloatArray  # [n, K]
    search: FloatArray  # the point in the search's own coordinates, [6 + K + nK]

    def base(self, x: Seen) -> FloatArray:
        """The part of f without the kernel [n, K]."""
        dtype = x.logits.dtype.type
        f: FloatArray = x.logits * dtype(np.exp(-self.temperature))
        f += dtype(self.pulls[0]) * x.near_b
        f += dtype(self.pulls[1]) * x.near_z
        f[np.arange(len(x)), x.predicted] += x.trend @ self.trend.astype(f.dtype) + self.offsets[x.predicted]
        return f

    def latent(self, x: Seen, kernel: FloatArray) -> FloatArray:
        """f [m, K] from the kernel between rows and labelled items [m, n]."""
        f = self.base(x)
        f += kernel @ self.alpha.astype(f.dtype, copy=False)
        return f


@dataclass(frozen=True)
class Labelled:
    """The answers as the likelihood sees them."""

    seen: Seen
    labels: IntArray  # [n], a class, or negative where only "not the predicted class" is known
    weight: FloatArray  # [n]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def right(self) -> BoolArray:
        right: BoolArray = self.labels == self.seen.predicted
        return right

    def take(self, rows: IntArray) -> Labelled:
        return Labelled(self.seen.take(rows), self.labels[rows], self.weight[rows])


def labelled(preparation: Preparation, answers: Answers) -> Labelled:
    """A label beyond the known classes says as much as "wrong"."""
    seen = preparation.see(answers.positions)
    known = answers.labels < seen.logits.shape[1]
    return Labelled(seen, np.where(known, answers.labels, -1).astype(np.intp), answers.weight)


def factor(kernel: FloatArray) -> FloatArray:
    """L with LLᵀ = K; the factor of the first labels is the corner of that of more labels."""
    if not len(kernel):
        return np.empty((0, 0))
    jittered = kernel.copy()  # and no other array of this size: with thousands of labels each is a hundred megabytes
    jittered.flat[:: len(kernel) + 1] += JITTER * 8
    lower: FloatArray = np.linalg.cholesky(jittered)
    return lower


def mode(data: Labelled, lower: FloatArray, amplitude: float, prior: Prior, start: FloatArray | None = None) -> Fit:
    """The posterior mode; `start` is the search point of a fit to the first of these labels."""
    n, k = len(data), data.seen.logits.shape[1]
    point = np.zeros(OWN + k + n * k)
    if start is not None:
        point[: len(start)] = start
    if n:
        point = _search(data, lower, amplitude, prior, point)
    tau, pulls = prior.temperature + SPREAD * point[0], prior.pull + SPREAD * point[1:3]
    whitened = point[OWN + k :].reshape(n, k)
    alpha = amplitude * solve_triangular(lower, whitened, lower=True, trans="T") if n else whitened
    trend, offsets = amplitude * TREND * point[3:OWN], amplitude * SAME * point[OWN : OWN + k]
    return Fit(float(tau), pulls, trend, offsets, alpha, point)


def _search(data: Labelled, lower: FloatArray, amplitude: float, prior: Prior, point: FloatArray) -> FloatArray:
    from scipy.optimize import minimize

    scaled = amplitude * lower

    def objective(v: FloatArray) -> tuple[float, FloatArray]:
        return _energy(v, data, scaled, amplitude, prior)

    found = minimize(objective, point, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "maxcor": 8})
    best: FloatArray = found.x
    return best


def _energy(
    v: FloatArray, data: Labelled, scaled: FloatArray, amplitude: float, prior: Prior
) -> tuple[float, FloatArray]:
    """−log posterior in the coordinates (τ, β_B, β_Z, γ, δ standardised; L⁻¹Kα/a) and its gradient."""
    x, k = data.seen, data.seen.logits.shape[1]
    at, g = (np.arange(len(data)), x.predicted), v[OWN + k :].reshape(len(data), k)
    cooled = np.exp(-(prior.temperature + SPREAD * v[0])) * x.logits
    pull_b, pull_z = prior.pull + SPREAD * v[1:3]
    trend, same = amplitude * TREND, amplitude * SAME
    f = cooled + pull_b * x.near_b + pull_z * x.near_z + scaled @ g
    f[at] += x.trend @ (trend * v[3:OWN]) + same * v[OWN + x.predicted]
    log_likelihood, slope = likelihood(f, data)
    gradient = v.copy()
    gradient[0] += SPREAD * (slope * cooled).sum()
    gradient[1] -= SPREAD * (slope * x.near_b).sum()
    gradient[2] -= SPREAD * (slope * x.near_z).sum()
    gradient[3:OWN] -= trend * (slope[at] @ x.trend)
    gradient[OWN : OWN + k] -= same * np.bincount(x.predicted, slope[at], k)
    gradient[OWN + k :] -= (scaled.T @ slope).ravel()
    return float(0.5 * v @ v - log_likelihood), gradient


def likelihood(f: FloatArray, data: Labelled) -> tuple[float, FloatArray]:
    """Log likelihood of the labels and its derivative by f [n, K]."""
    return likelihood_of(f, data.labels, data.seen.predicted, data.weight)


def likelihood_of(f: FloatArray, labels: IntArray, predicted: IntArray, weight: FloatArray) -> tuple[float, FloatArray]:
    """`likelihood` from the bare arrays."""
    log_p = f - f.max(1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    p = np.exp(log_p)
    has_class = (labels >= 0) & (labels < f.shape[1])
    known, partial = np.flatnonzero(has_class), np.flatnonzero(~has_class)
    total = weight[known] @ log_p[known, labels[known]]
    slope = -p
    slope[known, labels[known]] += 1
    if partial.size:
        value, others = _all_but(log_p[partial], predicted[partial])
        total += weight[partial] @ value
        slope[partial] += others
    slope *= weight[:, None]
    return float(total), slope


def _all_but(log_p: FloatArray, predicted: IntArray) -> FloatPair:
    """log(1 − p_ŷ) [n], and the probabilities of the other classes given that it is not ŷ [n, K]."""
    rest = log_p.copy()
    rest[np.arange(len(rest)), predicted] = -np.inf
    top = rest.max(1, keepdims=True)
    weight = np.exp(rest - top)
    mass = weight.sum(1, keepdims=True)
    return (top + np.log(mass))[:, 0], weight / mass


def of_predicted(f: FloatArray, predicted: IntArray) -> tuple[FloatArray, FloatArray]:
    """softmax(f) in place [n, K], and its value at the predicted class [n]."""
    f -= f.max(1, keepdims=True)
    np.exp(f, out=f)
    f /= f.sum(1, keepdims=True)
    return f, f[np.arange(len(f)), predicted]
