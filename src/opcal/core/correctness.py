"""Right or wrong only: a Gaussian process on the log-odds of being right (method.md §2).

m = ½s + g, s = logit c clipped to ±6, g ~ GP(0, 1 + ¼ss' + tt'/4 + a²K + ½[ŷ = ŷ']), t the prototypes' margin of ŷ.
Laplace's approximation at each amplitude a; the average is weighted by its evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve
from scipy.special import expit, log_expit

from opcal.core.embedding import Embedding, FieldKernel, Preparation, Seen, prepared
from opcal.core.kernels import chunks
from opcal.core.method import Answers, Field, FloatArray, Outputs
from opcal.core.posterior import Beta, Posterior
from opcal.core.spread import through_logistic

AMPLITUDES = (0.25, 0.5, 1.0)
SLOPE = 0.5
TREND = np.array([1.0, 0.25, 0.25])
"""Variances of an offset and of the slopes by s and t."""
SAME_PREDICTION = 0.5
NEWTON_STEPS = 50
SETTLED = 1e-10


@dataclass(frozen=True)
class Correctness:
    """Looks only at which predictions are right."""

    amplitudes: tuple[float, ...] = AMPLITUDES

    def begin(self, field: Field) -> CorrectnessLearner:
        return CorrectnessLearner(self, prepared(field))


@dataclass(frozen=True)
class Laplace:
    """Mode and curvature at one amplitude."""

    amplitude: float
    slope: FloatArray  # [n], the answers' weights times I − σ(m)
    root: FloatArray  # [n], √W
    lower: FloatArray  # [n, n], LLᵀ = I + √W C √W
    evidence: float


def covariance(kernel: FieldKernel, amplitude: float, x: Seen, y: Seen) -> FloatArray:
    """[n, m]."""
    c = amplitude**2 * kernel(x, y).astype(np.float64)
    c += (x.trend * TREND) @ y.trend.T
    c += SAME_PREDICTION * (x.predicted[:, None] == y.predicted)
    return c


def own_variance(kernel: FieldKernel, amplitude: float, x: Seen) -> FloatArray:
    own: FloatArray = amplitude**2 * kernel.diagonal(x) + x.trend**2 @ TREND + SAME_PREDICTION
    return own.astype(np.float64)


def laplace(amplitude: float, c: FloatArray, prior_mean: FloatArray, right: FloatArray, weight: FloatArray) -> Laplace:
    """Newton's method for the mode, halving steps that lose (Rasmussen & Williams, algorithm 3.1)."""
    problem = c, prior_mean, right, weight
    a, best = np.zeros(len(right)), -np.inf
    direction = a
    for _ in range(NEWTON_STEPS):
        step = 1.0
        while _objective(*problem, a + step * direction) < best - 1e-12 and step > 1e-6:
            step /= 2
        a = a + step * direction
        value = _objective(*problem, a)
        if value - best < SETTLED:
            break
        best = value
        direction = _newton(*problem, a)[0] - a
    _, root, lower = _newton(*problem, a)
    slope = weight * (right - expit(prior_mean + c @ a))
    evidence = _objective(*problem, a) - float(np.log(lower.diagonal()).sum())
    return Laplace(amplitude, slope, root, lower, evidence)


def _objective(c: FloatArray, prior_mean: FloatArray, right: FloatArray, weight: FloatArray, a: FloatArray) -> float:
    g = c @ a
    signs = np.where(right, 1.0, -1.0)
    return float(weight @ log_expit(signs * (prior_mean + g)) - 0.5 * a @ g)


def _newton(
    c: FloatArray, prior_mean: FloatArray, right: FloatArray, weight: FloatArray, a: FloatArray
) -> tuple[FloatArray, ...]:
    g = c @ a
    p = expit(prior_mean + g)
    root = np.sqrt(np.maximum(weight * p * (1 - p), 1e-12))
    lower = np.linalg.cholesky(np.eye(len(a)) + root[:, None] * c * root)
    b = root**2 * g + weight * (right - p)
    return b - root * cho_solve((lower, True), root * (c @ b)), root, lower


class CorrectnessLearner:
    def __init__(self, settings: Correctness, preparation: Preparation) -> None:
        self.settings, self.preparation = settings, preparation
        self.answers = Answers.none()
        self._scorer: Scorer | None = None

    def tell(self, answers: Answers) -> None:
        self.answers, self._scorer = answers, None

    def predict(self, rows: Outputs) -> Posterior:
        if self._scorer is None:
            self._scorer = self._fit()
        return self._scorer.posterior(rows)

    def _fit(self) -> Scorer:
        known = self.preparation.see(self.answers.positions)
        return fitted(self.preparation, known, self.answers, self.settings.amplitudes)


@dataclass(frozen=True)
class Scorer:
    """A fitted method: scoring is a pure function of it and the rows."""

    embedding: Embedding
    kernel: FieldKernel
    known: Seen
    fits: tuple[Laplace, ...]
    weights: FloatArray

    def at_mode(self, x: Seen) -> FloatArray:
        """P(right) [n] by the mode at the likeliest amplitude: two kernel products and no variance."""
        fit = self.fits[int(self.weights.argmax())]
        mode: FloatArray = prior_mean(x) + covariance(self.kernel, fit.amplitude, x, self.known) @ fit.slope
        return expit(mode)

    def posterior(self, rows: Outputs) -> Posterior:
        mean, sd = np.empty(len(rows)), np.empty(len(rows))
        for block in chunks(len(rows), 4096):
            x = self.embedding(rows.take(block))
            mean[block], sd[block] = self._moments(x)
        return Posterior(mean, sd, Beta(mean, sd), lambda n, rng: self._draws(rows, n, rng))

    def _moments(self, x: Seen) -> tuple[FloatArray, FloatArray]:
        parts = [self._part(x, fit) for fit in self.fits]
        means, variances = np.stack([m for m, _ in parts]), np.stack([v for _, v in parts])
        mean = self.weights @ means
        spread = self.weights @ (variances + (means - mean) ** 2)
        return mean, np.sqrt(np.minimum(spread, 0.998 * mean * (1 - mean)))

    def _part(self, x: Seen, fit: Laplace) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of P(right) at one amplitude [n]."""
        cross = covariance(self.kernel, fit.amplitude, x, self.known)
        m = prior_mean(x) + cross @ fit.slope
        explained = np.linalg.solve(fit.lower, fit.root[:, None] * cross.T)
        own = own_variance(self.kernel, fit.amplitude, x)
        left = np.maximum(own - np.einsum("ij,ij->j", explained, explained), 0)
        mean = expit(m / np.sqrt(1 + np.pi / 8 * left))
        return mean, through_logistic(mean, left)

    def _draws(self, rows: Outputs, n: int, rng: np.random.Generator) -> FloatArray:
        """Joint draws of the part with most weight, through the answers; what they leave is drawn about them."""
        fit = self.fits[int(self.weights.argmax())]
        gram = np.linalg.cholesky(
            covariance(self.kernel, fit.amplitude, self.known, self.known) + 1e-8 * np.eye(len(self.known))
        )
        common = rng.standard_normal((n, len(self.known) + 3))
        alone = np.random.default_rng(rng.integers(2**63))
        out = np.empty((n, len(rows)))
        for block in chunks(len(rows), 4096):
            x = self.embedding(rows.take(block))
            out[:, block] = _joint(self, fit, gram, x, common, alone)
        return out


def _joint(
    scorer: Scorer, fit: Laplace, gram: FloatArray, x: Seen, common: FloatArray, alone: np.random.Generator
) -> FloatArray:
    """Standard normals [n draws, n rows]: features of the answers' points, (1, s, t) where those say nothing, noise."""
    cross = covariance(scorer.kernel, fit.amplitude, x, scorer.known)
    f = np.linalg.solve(gram, cross.T).T
    inner = np.eye(gram.shape[1]) + gram.T * fit.root**2 @ gram
    posterior = np.linalg.solve(np.linalg.cholesky(inner), f.T).T
    own = own_variance(scorer.kernel, fit.amplitude, x)
    unexplained = np.sqrt(np.maximum(own - np.einsum("ij,ij->i", f, f), 0))
    trend = x.trend * np.sqrt(TREND) / np.sqrt(own)[:, None]
    shared = np.column_stack([posterior, unexplained[:, None] * trend])
    rest = np.sqrt(np.maximum(unexplained**2 * (1 - np.einsum("ij,ij->i", trend, trend)), 0))
    normal = common @ shared.T + rest * alone.standard_normal((len(common), len(x)))
    total = np.sqrt(np.einsum("ij,ij->i", shared, shared) + rest**2)
    standard: FloatArray = normal / np.maximum(total, 1e-150)
    return standard


def prior_mean(x: Seen) -> FloatArray:
    """½s [n]."""
    half: FloatArray = SLOPE * x.trend[:, 1]
    return half


def fitted(
    preparation: Preparation, known: Seen, answers: Answers, amplitudes: tuple[float, ...] = AMPLITUDES
) -> Scorer:
    """The process given which predictions were right, averaged over amplitudes by evidence."""
    right = answers.correct.astype(np.float64)
    covariances = ((a, covariance(preparation.kernel, a, known, known)) for a in amplitudes)
    fits = tuple(laplace(a, c, prior_mean(known), right, answers.weight) for a, c in covariances)
    evidence = np.array([fit.evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    return Scorer(preparation.embedding, preparation.kernel, known, fits, weights / weights.sum())
