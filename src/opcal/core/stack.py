"""The default method, "auto": kernel softmax at three amplitudes and the model's own confidence, averaged by evidence.

Prior weight of the model's own confidence is `home`, read off the unlabelled pool (home.py); the temperature and
the pull of the prototypes start at 1 − home and (1 − home)/2. Weights are prior × likelihood of the answers in 5-fold
cross-validation. Where wrong answers come without their classes, a process that knows only right and wrong
(correctness.py) takes part, the more the more classes there are. Weights are estimated on the first 1, 2, 3, 4, 6, 8,
12, 17, … answers, wherever the calls are cut, and later answers start their search from the modes found there. What
may be wrong with all confidences at once is averaged out at the end (doubt.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from opcal.core import correctness
from opcal.core.checkpoints import last_checkpoint
from opcal.core.doubt import Doubt, doubted
from opcal.core.embedding import Embedding, FieldKernel, Places, Preparation, Seen, prepared, uniform_rows
from opcal.core.kernels import chunks
from opcal.core.method import WRONG, Answers, Field, FloatArray, IntArray, Outputs
from opcal.core.posterior import Beta, Posterior
from opcal.core.softmax import Fit, Labelled, Prior, factor, labelled, mode, of_predicted
from opcal.core.spread import LANDMARKS, Spread, features_of, landmark_basis, posterior_root, through_logistic

AMPLITUDES = (0.5, 1.0, 2.0)
FOLDS = 5
FLOOR = 1e-4
"""No held-out answer counts as less likely than this."""
AFFORDABLE = 2e8
"""Cross-validation stops growing at n labels with n²K of this size."""
CELLS = 2**22
"""Numbers in one block while scoring."""


@dataclass(frozen=True)
class Auto:
    """The default method: no setting to turn."""

    amplitudes: tuple[float, ...] = AMPLITUDES
    with_own_confidence: bool = True
    with_doubt: bool = True

    def begin(self, field: Field) -> AutoLearner:
        return AutoLearner(self, prepared(field))


@dataclass(frozen=True)
class Parts:
    """What one block of rows gets from every part of the average."""

    each: FloatArray  # [n, parts]: a fit at each amplitude, the model's own confidence, right or wrong if it takes part
    directions: FloatArray  # [n, m + 5], of the log-odds
    own: FloatArray  # [n], variance of the log-odds that is each item's own


@dataclass(frozen=True)
class Scorer:
    """A fitted method: small arrays, and scoring is a pure function of them and the rows."""

    embedding: Embedding
    kernel: FieldKernel
    points: Places
    fits: tuple[Fit, ...]
    weights: FloatArray  # [parts]
    spread: Spread
    right: correctness.Scorer | None
    doubt: Doubt | None = None
    """None in artefacts from before there was one."""

    def mean(self, each: FloatArray) -> FloatArray:
        """The calibrated confidence from what every part says [n, parts]."""
        average = self.average(each)
        return average if self.doubt is None else self.doubt(average)

    def average(self, each: FloatArray) -> FloatArray:
        """The same without doubt about the whole."""
        return np.clip(each @ self.weights, 0.0, 1.0)

    def parts(self, rows: Outputs) -> Parts:
        x = self.embedding(rows)
        kernel = self.kernel(x, self.points)
        each, p, cooled = mixture(self.fits, self.weights, x, kernel)
        directions, own = self.spread.directions(x, p, cooled)
        others = [rows.confidence]
        if self.right is not None:
            others.append(self.right.at_mode(x))
        return Parts(np.column_stack([each, *others]), directions, own)

    def blocks(self, rows: Outputs) -> Iterator[tuple[slice, Parts]]:
        widest = max(self.embedding.classes * len(self.fits), len(self.points.centred))
        for rows_of in chunks(len(rows), min(1024, max(64, CELLS // max(widest, 1)))):
            yield rows_of, self.parts(rows.take(rows_of))


def mixture(
    fits: tuple[Fit, ...], weights: FloatArray, x: Seen, kernel: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P(right) by each fit [n, fits], the average class probabilities and the average e^(−τ)h, both [n, K]."""
    shares, each, total = _shares(weights[: len(fits)]), [], np.zeros_like(x.logits)
    for share, fit in zip(shares, fits, strict=True):
        p, right = of_predicted(fit.latent(x, kernel), x.predicted)
        total += x.logits.dtype.type(share) * p
        each.append(right.astype(np.float64))
    cooling = sum(share * np.exp(-fit.temperature) for share, fit in zip(shares, fits, strict=True))
    return np.stack(each, 1), total, x.logits * x.logits.dtype.type(cooling)


def _shares(parts: FloatArray) -> FloatArray:
    """Weights of the kernel parts among themselves; equal where other parts have taken all."""
    shares: FloatArray = parts / parts.sum() if parts.sum() > 1e-12 else np.full(len(parts), 1 / len(parts))
    return shares


def lost_classes(answers: Answers, classes: int) -> float:
    """How much of the wrong answers' knowledge is lost without their classes: 0 for two classes, near 1 for many."""
    wrong = ~answers.correct
    if not wrong.any():
        return 0.0
    return float((answers.labels[wrong] == WRONG).mean()) * (1 - 1 / max(classes - 1, 1))


def canonical(n: int) -> int:
    """The largest of 1, 2 and round(3·2^(j/2)) that is at most n; 0 for 0."""
    return max(min(n, 2), last_checkpoint(n, 3))


class AutoLearner:
    """Lazy: `tell` records, the next `predict` fits."""

    def __init__(self, settings: Auto, preparation: Preparation) -> None:
        self.settings, self.preparation = settings, preparation
        home = preparation.home
        self.prior = Prior(temperature=1 - home, pull=(1 - home) / 2)
        own = home if settings.with_own_confidence else 0.0
        count = len(settings.amplitudes)
        self.prior_weights = np.append(np.full(count, (1 - own) / count), own)
        self.answers = Answers.none()
        self._start_anew()

    def _start_anew(self) -> None:
        self._checkpoint: tuple[int, tuple[Fit, ...]] = (0, ())
        self._weighed: tuple[int, FloatArray] = (0, self.prior_weights)
        self._scorer: Scorer | None = None

    def tell(self, answers: Answers) -> None:
        """An answer that became more telling ("wrong", then its class) undoes what was built on it."""
        known = min(len(self.answers), len(answers))
        if not np.array_equal(self.answers.labels[:known], answers.labels[:known]):
            self._start_anew()
        self.answers, self._scorer = answers, None

    def predict(self, rows: Outputs) -> Posterior:
        return posterior(self.scorer, rows)

    @property
    def scorer(self) -> Scorer:
        """The method fitted to all answers so far."""
        if self._scorer is None:
            self._scorer = self._fit()
        return self._scorer

    @cached_property
    def _landmarks(self) -> tuple[Places, FloatArray]:
        field = self.preparation.field
        places = self.preparation.see(uniform_rows(field, "landmarks", LANDMARKS)).places()
        return places, landmark_basis(self.preparation.kernel, places)

    def _fit(self) -> Scorer:
        data = labelled(self.preparation, self.answers)
        kernel = self.preparation.kernel(data.seen, data.seen)
        lower = factor(kernel)
        weights = self._weights(data, kernel)
        fits = self._modes(data, lower)
        e = self.preparation.embedding
        points = data.seen.places(e.dtype)
        (spread, doubt), right = self._spread(data, kernel, fits, weights), None
        if not self.settings.with_doubt:
            doubt = None
        if len(weights) > len(self.prior_weights):
            right = correctness.fitted(self.preparation, data.seen, self.answers)
        return Scorer(e, self.preparation.kernel, points, fits, weights, spread, right, doubt)

    def _modes(self, data: Labelled, lower: FloatArray) -> tuple[Fit, ...]:
        """Modes on all answers, searched from those on the canonical beginning."""
        n, m = len(data), canonical(len(data))
        if self._checkpoint[0] != m:
            corner = lower[:m, :m]
            first = data.take(np.arange(m))
            self._checkpoint = m, tuple(mode(first, corner, a, self.prior) for a in self.settings.amplitudes)
        fits = self._checkpoint[1]
        if n == m and fits:
            return fits
        starts: list[FloatArray | None] = [fit.search for fit in fits]
        starts = starts or [None] * len(self.settings.amplitudes)
        return tuple(mode(data, lower, a, self.prior, s) for a, s in zip(self.settings.amplitudes, starts, strict=True))

    def _weights(self, data: Labelled, kernel: FloatArray) -> FloatArray:
        classes = data.seen.logits.shape[1]
        m = canonical(min(len(data), int(np.sqrt(AFFORDABLE / classes))))
        if self._weighed[0] != m:
            self._weighed = m, self._evidence(data.take(np.arange(m)), kernel[:m, :m])
        return self._weighed[1]

    def _evidence(self, data: Labelled, kernel: FloatArray) -> FloatArray:
        """Prior weights times the cross-validated likelihood of right and wrong [parts]."""
        if len(data) < 2:
            return self.prior_weights
        lost = lost_classes(self.answers.first(len(data)), data.seen.logits.shape[1])
        prior = np.append((1 - lost) * self.prior_weights, lost) if lost > 0 else self.prior_weights
        held_out, fits = np.empty((len(data), len(prior))), len(self.settings.amplitudes)
        held_out[:, fits] = self.preparation.field.pool.confidence[self.answers.positions[: len(data)]]
        folds = min(FOLDS, len(data))
        for fold in range(folds):
            out = np.arange(len(data)) % folds == fold
            kept, left = np.flatnonzero(~out), np.flatnonzero(out)
            held_out[out, :fits] = self._held_out(data, kernel, kept, left)
            if lost > 0:
                held_out[out, -1] = self._right_held_out(data, kept, left)
        happened = np.where(data.right[:, None], held_out, 1 - held_out)
        scores = data.weight @ np.log(np.clip(happened, FLOOR, 1))
        raw = prior * np.exp(scores - scores[prior > 0].max())
        weights: FloatArray = raw / raw.sum()
        return weights

    def _held_out(self, data: Labelled, kernel: FloatArray, kept: IntArray, out: IntArray) -> FloatArray:
        """P(right) of the held-out items by each amplitude [out, amplitudes]."""
        train, test, lower = data.take(kept), data.seen.take(out), factor(kernel[np.ix_(kept, kept)])
        fits = (mode(train, lower, a, self.prior) for a in self.settings.amplitudes)
        cross = kernel[np.ix_(out, kept)]
        each = [of_predicted(fit.latent(test, cross), test.predicted)[1] for fit in fits]
        held_out: FloatArray = np.stack(each, 1)
        return held_out

    def _right_held_out(self, data: Labelled, kept: IntArray, out: IntArray) -> FloatArray:
        """P(right) of the held-out items by a process that knows only right and wrong [out]."""
        fitted = correctness.fitted(self.preparation, data.seen.take(kept), self.answers.take(kept))
        return fitted.at_mode(data.seen.take(out))

    def _spread(
        self, data: Labelled, kernel: FloatArray, fits: tuple[Fit, ...], weights: FloatArray
    ) -> tuple[Spread, Doubt | None]:
        landmarks, whiten = self._landmarks
        shares = _shares(weights[: len(fits)])
        amplitude2 = float(shares @ np.square(self.settings.amplitudes))
        each, p, cooled = mixture(fits, weights, data.seen, kernel)
        basis = self.preparation.kernel, landmarks, whiten, amplitude2
        features, own = features_of(*basis, data.seen, p, cooled)
        p_right = each @ shares
        root = posterior_root(features, own, p_right, data.weight)
        dtype = self.preparation.embedding.dtype
        small = Places(landmarks.centred.astype(dtype), landmarks.whitened.astype(dtype))
        return Spread(self.preparation.kernel, small, whiten, root, amplitude2), doubted(p_right, data.weight)


def posterior(scorer: Scorer, rows: Outputs) -> Posterior:
    mean, sd, likely = np.empty((3, len(rows)))
    for block, parts in scorer.blocks(rows):
        mean[block], directions, own = _moments(scorer, parts)
        likely[block] = scorer.average(parts.each)
        sd[block] = np.sqrt(np.einsum("ij,ij->i", directions, directions) + own)
    sd = np.minimum(sd, np.sqrt(mean * (1 - mean)) * 0.999)
    return Posterior(mean, sd, Beta(mean, sd), partial(_draws, scorer, rows), likely)


def _moments(scorer: Scorer, parts: Parts) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean [n], directions of the confidence's joint deviations [n, m + 5 + parts], and own variance [n]."""
    mean = scorer.mean(parts.each)
    between = np.sqrt(scorer.weights) * (parts.each - scorer.average(parts.each)[:, None])
    along = np.einsum("ij,ij->i", parts.directions, parts.directions)
    variance = np.maximum(along + parts.own, 1e-30).astype(np.float64)
    within = through_logistic(mean, variance)
    slope = np.sqrt(within / variance)
    return mean, np.column_stack([slope[:, None] * parts.directions, between]), slope**2 * parts.own


def _draws(scorer: Scorer, rows: Outputs, n: int, rng: np.random.Generator) -> FloatArray:
    """Correlated standard normals [n, N]."""
    width = len(scorer.spread.root) + len(scorer.weights)
    common = rng.standard_normal((n, width))
    own_seed = rng.integers(2**63)
    out = np.empty((n, len(rows)))
    alone = np.random.default_rng(own_seed)
    for block, parts in scorer.blocks(rows):
        _, directions, own = _moments(scorer, parts)
        total = np.sqrt(np.maximum(np.einsum("ij,ij->i", directions, directions) + own, 1e-300))
        normal = common @ directions.T + np.sqrt(own) * alone.standard_normal((n, len(own)))
        out[:, block] = normal / total
    return out
