"""What the default method sees of an item, and the unsupervised preparation that methods and designs share."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import logit

from opcal.core.head import centred_weight, head_of
from opcal.core.home import at_home
from opcal.core.kernels import median_distance
from opcal.core.method import Field, FloatArray, IntArray, Outputs
from opcal.core.prototypes import Projection, Prototypes, learn, project

SAMPLE = 10_000
"""Pool rows, drawn uniformly, from which a large pool is prepared."""
SMALL = 2**18
"""Features of at most this many numbers are scored in double precision."""
LENGTH = 0.5
LOCAL, GLOBAL = 4.0, 0.5
EXTREME = 1e-12
SUREST = 6.0
"""Log-odds of the model beyond this count as this."""


class Located(Protocol):
    """Where items lie: all of them that the kernel looks at."""

    @property
    def centred(self) -> FloatArray: ...
    @property
    def whitened(self) -> FloatArray: ...


@dataclass(frozen=True)
class Places:
    """Items that rows are compared with, kept by a fitted method."""

    centred: FloatArray  # [n, d]
    whitened: FloatArray  # [n, r]


@dataclass(frozen=True)
class Seen:
    """n items as the model of this field sees them; K classes, the last one nobody's where the pool has no logits."""

    centred: FloatArray  # [n, d], z̃ − mean
    whitened: FloatArray  # [n, r]
    logits: FloatArray  # [n, K], with the mean over classes taken out
    near_b: FloatArray  # [n, K], prototype scores S_B
    near_z: FloatArray  # [n, K]
    predicted: IntArray  # [n]
    trend: FloatArray  # [n, 3], for ŷ: 1, the model's log-odds clipped to ±6, the prototypes' margin

    def __len__(self) -> int:
        return len(self.predicted)

    def places(self, dtype: Any = np.float64) -> Places:
        return Places(self.centred.astype(dtype), self.whitened.astype(dtype))

    def take(self, rows: Any) -> Seen:
        return Seen(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class Embedding:
    """Rows of the model to `Seen`: a pure function of a few small arrays."""

    projection: Projection
    prototypes_b: Prototypes
    prototypes_z: Prototypes
    classes: int
    dtype: np.dtype[Any]

    def __call__(self, rows: Outputs) -> Seen:
        centred = self.projection.centred(np.asarray(rows.features), self.dtype)
        whitened = self.projection.whitened(centred)
        logits, predicted = class_logits(rows, self.classes)
        near_b, near_z = self.prototypes_b.scores(whitened), self.prototypes_z.scores(centred)
        trend = trend_of(logits, near_b, near_z, predicted).astype(self.dtype, copy=False)
        return Seen(centred, whitened, logits.astype(self.dtype, copy=False), near_b, near_z, predicted, trend)


@dataclass(frozen=True)
class FieldKernel:
    """K = 4·RBF_B(½) + ½[RBF_Z(½) + z̃·z̃' + 1], distances over their medians on the pool."""

    mean: FloatArray  # [d]
    median_b: float
    median_z: float

    def __call__(self, x: Located, y: Located) -> FloatArray:
        """[n, m] in the precision of x."""
        dtype = x.centred.dtype
        b, z = y.whitened.astype(dtype, copy=False), y.centred.astype(dtype, copy=False)
        mean = self.mean.astype(dtype, copy=False)
        # Heights are folded into small arrays: passes over [n, m] take as long as the products.
        k: FloatArray = x.centred @ (z * dtype.type(GLOBAL)).T
        wide = _rbf(k.copy(), GLOBAL, (x.centred, z), self.median_z, GLOBAL)
        k += (x.centred @ (mean * dtype.type(GLOBAL)))[:, None]
        k += dtype.type(GLOBAL) * (z @ mean + (mean @ mean + 1))
        k += wide
        k += _rbf(x.whitened @ b.T, 1.0, (x.whitened, b), self.median_b, LOCAL)
        return k

    def diagonal(self, x: Located) -> FloatArray:
        """k(x_i, x_i) [n]."""
        rows = x.centred + self.mean.astype(x.centred.dtype, copy=False)
        own: FloatArray = LOCAL + GLOBAL * (2 + np.einsum("ij,ij->i", rows, rows))
        return own


@dataclass(frozen=True)
class Preparation:
    """What the unlabelled pool alone tells; shared by the method and the design of one field."""

    field: Field
    embedding: Embedding
    kernel: FieldKernel
    sample: IntArray  # pool positions the prototypes were learnt from, sorted
    own: tuple[FloatArray, FloatArray]  # the sample's shares in the prototypes, [len(sample), K] each
    home: float
    """Prior probability that the model is calibrated here already (home.py)."""

    def see(self, positions: IntArray) -> Seen:
        """Pool items in double precision; those that shaped the prototypes leave themselves out."""
        seen = self._see(positions)
        at = np.minimum(np.searchsorted(self.sample, positions), len(self.sample) - 1)
        inside = np.flatnonzero(self.sample[at] == positions)
        shares = (part[at[inside]].astype(np.float64) for part in self.own)
        pairs = ((self.embedding.prototypes_b, seen.whitened), (self.embedding.prototypes_z, seen.centred))
        for near, (prototypes, rows), own in zip((seen.near_b, seen.near_z), pairs, shares, strict=True):
            near[inside] = prototypes.scores_without_self(rows[inside], own)
        return replace(seen, trend=trend_of(seen.logits, seen.near_b, seen.near_z, seen.predicted))

    def _see(self, positions: IntArray) -> Seen:
        e = self.embedding
        exact = Embedding(e.projection, e.prototypes_b, e.prototypes_z, e.classes, np.dtype(np.float64))
        return exact(self.field.pool.take(positions))


def class_logits(rows: Outputs, classes: int) -> tuple[FloatArray, IntArray]:
    """Centred logits [n, K] and predicted classes; without logits, those that give back the confidence.

    There, class K−1 stands for every class that the pool never predicted.
    """
    if rows.logits is not None and rows.logits.shape[1] == classes:
        h = np.asarray(rows.logits, dtype=np.float64)
        return h - h.mean(1, keepdims=True), np.asarray(rows.predicted, dtype=np.intp)
    predicted = np.minimum(rows.predicted, classes - 1).astype(np.intp)
    certain = np.clip(rows.confidence, EXTREME, 1 - EXTREME)
    h = np.zeros((len(predicted), classes))
    h[np.arange(len(predicted)), predicted] = logit(certain) + np.log(classes - 1)
    return h - h.mean(1, keepdims=True), predicted


def trend_of(logits: FloatArray, near_b: FloatArray, near_z: FloatArray, predicted: IntArray) -> FloatArray:
    """`Seen.trend` [n, 3]: what is known of a prediction whatever its class."""
    at, others = (np.arange(len(predicted)), predicted), logits.astype(np.float64)
    others[at] = -np.inf
    top = others.max(1)
    np.exp(np.subtract(others, top[:, None], out=others), out=others)
    odds = np.clip(logits[at] - top - np.log(others.sum(1)), -SUREST, SUREST)
    margins = 0.5 * (_margin(near_b, at) + _margin(near_z, at))
    return np.column_stack([np.ones(len(predicted)), odds, margins])


def _margin(scores: FloatArray, at: tuple[IntArray, IntArray]) -> FloatArray:
    """S_ŷ minus the largest other S [n]."""
    others = scores.copy()
    others[at] = -np.inf
    gap: FloatArray = (scores[at] - others.max(1)).astype(np.float64)
    return gap


def n_classes(pool: Outputs) -> int:
    if pool.logits is not None and pool.logits.shape[1] > 1:
        return int(pool.logits.shape[1])
    return int(pool.predicted.max(initial=0)) + 2


def prepared(field: Field) -> Preparation:
    """The preparation of a field, made once and kept with it."""
    kept: dict[str, Any] = field.__dict__
    if "_preparation" not in kept:
        kept["_preparation"] = prepare(field)
    made: Preparation = kept["_preparation"]
    return made


def prepare(field: Field) -> Preparation:
    sample = uniform_rows(field, "preparation", SAMPLE)
    rows = field.pool.take(sample if len(sample) < len(field.pool) else slice(None))
    classes = n_classes(field.pool)
    projection = project(rows.features)
    centred = projection.centred(np.asarray(rows.features), np.dtype(np.float64))
    spaces = projection.whitened(centred), centred
    logits, predicted = class_logits(rows, classes)
    (in_b, own_b), (in_z, own_z) = learn(spaces, logits, _heads(field, projection, classes))
    kernel = FieldKernel(projection.mean, *(_median(field, space) for space in spaces))
    agreement = max(
        float((p.scores_without_self(f, own).argmax(1) == predicted).mean())
        for p, f, own in ((in_b, spaces[0], own_b), (in_z, spaces[1], own_z))
    )
    shares = own_b.astype(np.float32), own_z.astype(np.float32)
    embedding = Embedding(projection, in_b, in_z, classes, _precision(field.pool))
    home = at_home(agreement, float(rows.confidence.mean()), len(predicted) / classes)
    return Preparation(field, embedding, kernel, sample, shares, home)


def uniform_rows(field: Field, purpose: str, limit: int) -> IntArray:
    """At most `limit` pool positions, uniformly at random, sorted."""
    n = len(field.pool)
    if n <= limit:
        return np.arange(n)
    return np.sort(field.generator(purpose).choice(n, limit, replace=False))


def _heads(field: Field, projection: Projection, classes: int) -> tuple[FloatArray, FloatArray] | None:
    head = head_of(field.pool, field.generator("head"))
    if head is None or len(head.weight) != classes:
        return None
    weight = centred_weight(head).astype(np.float64)
    return projection.head(weight), weight


def _median(field: Field, rows: FloatArray) -> float:
    if rows.shape[1] == 0:
        return 1.0
    return median_distance(rows, field.generator("median")) or 1.0


def _precision(pool: Outputs) -> np.dtype[Any]:
    wide = pool.features.dtype.itemsize > 4 or pool.features.size <= SMALL
    return np.dtype(np.float64 if wide else np.float32)


def _rbf(inner: FloatArray, scale: float, ends: tuple[FloatArray, FloatArray], median: float, top: float) -> FloatArray:
    """top · exp(−‖x−y‖²/2ℓ²), ℓ = median/2, in the place of `scale` times the inner products [n, m]."""
    dtype = inner.dtype.type
    rate, highest = -0.5 / (LENGTH * median) ** 2, dtype(np.log(top))
    x2, y2 = (dtype(rate) * np.einsum("ij,ij->i", rows, rows) for rows in ends)
    exponent = inner
    exponent *= dtype(-2 * rate / scale)
    exponent += x2[:, None]
    exponent += y2 + highest
    np.minimum(exponent, highest, out=exponent)
    np.exp(exponent, out=exponent)
    return exponent
