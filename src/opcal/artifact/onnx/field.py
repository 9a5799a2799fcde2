"""Rows as the default method's relatives see them, in ONNX: `core.embedding` line by line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opcal.artifact.onnx.graph import FAR, Graph, rbf
from opcal.core.embedding import EXTREME, GLOBAL, LENGTH, LOCAL, SUREST, Embedding, FieldKernel, Located
from opcal.core.prototypes import Prototypes, unit


@dataclass(frozen=True)
class Inputs:
    """Names of what the model said, in double precision."""

    features: str  # [N, d]
    logits: str | None  # [N, K]
    confidence: str  # [N, 1]
    predicted: str  # [N, 1] int64


@dataclass(frozen=True)
class Rows:
    """`Seen`, as names."""

    centred: str
    whitened: str
    logits: str
    near_b: str
    near_z: str
    trend: str
    mask: str
    """[N, K] booleans, true at the predicted class."""
    hot: str
    """The same as numbers."""
    norms: tuple[str, str]
    """Squared norms in Z and B [N, 1]."""
    own: str
    """k(x, x) [N, 1]."""
    confidence: str


def at_predicted(g: Graph, hot: str, x: str) -> str:
    return g.total(g.mul(hot, x))


def logits_of(g: Graph, given: Inputs, classes: int) -> tuple[str, str, str]:
    """Centred logits [N, K] and the predicted class as booleans and as numbers: `class_logits`."""
    at = given.predicted if given.logits is not None else g.op("Min", given.predicted, np.array(classes - 1))
    mask = g.onehot(at, classes)
    hot = g.double(mask)
    h = given.logits
    if h is None:
        c = g.clip(given.confidence, EXTREME, 1 - EXTREME)
        odds = g.add(g.sub(g.log(c), g.log(g.sub(1.0, c))), float(np.log(classes - 1)))
        h = g.mul(hot, odds)
    return g.sub(h, g.div(g.total(h), float(classes))), mask, hot


def seen(g: Graph, embedding: Embedding, kernel: FieldKernel, given: Inputs) -> Rows:
    p = embedding.projection
    centred = g.sub(g.unit(given.features), p.mean[None])
    whitened = g.dot(centred, p.basis)
    logits, mask, hot = logits_of(g, given, embedding.classes)
    near_b, near_z = _scores(g, embedding.prototypes_b, whitened), _scores(g, embedding.prototypes_z, centred)
    trend = _trend(g, logits, near_b, near_z, mask, hot)
    around = g.add(centred, kernel.mean[None])
    own = g.add(g.mul(g.squares(around), GLOBAL), LOCAL + 2 * GLOBAL)
    norms = g.squares(centred), g.squares(whitened)
    return Rows(centred, whitened, logits, near_b, near_z, trend, mask, hot, norms, own, given.confidence)


def _scores(g: Graph, prototypes: Prototypes, rows: str) -> str:
    directions = unit(prototypes.places).T
    directions = (directions - directions.mean(1, keepdims=True)) / prototypes.scale
    return g.dot(g.unit(rows), directions)


def _trend(g: Graph, logits: str, near_b: str, near_z: str, mask: str, hot: str) -> str:
    others = g.where(mask, FAR, logits)
    top = g.top(others)
    rest = g.add(top, g.log(g.total(g.exp(g.sub(others, top)))))
    odds = g.clip(g.sub(at_predicted(g, hot, logits), rest), -SUREST, SUREST)
    margins = g.mul(g.add(_margin(g, near_b, mask, hot), _margin(g, near_z, mask, hot)), 0.5)
    ones = g.add(g.mul(odds, 0.0), 1.0)
    return g.columns(ones, odds, margins)


def _margin(g: Graph, scores: str, mask: str, hot: str) -> str:
    return g.sub(at_predicted(g, hot, scores), g.top(g.where(mask, FAR, scores)))


def kernel_to(g: Graph, kernel: FieldKernel, x: Rows, points: Located) -> str:
    """`FieldKernel` between the rows and some points [N, n]."""
    z, b = np.asarray(points.centred, np.float64), np.asarray(points.whitened, np.float64)
    mean = np.asarray(kernel.mean, np.float64)
    inner = g.dot(x.centred, z.T)
    wide = rbf(g, inner, x.norms[0], z, LENGTH * kernel.median_z)
    linear = g.add(inner, g.dot(x.centred, mean[:, None]), (z @ mean + mean @ mean + 1)[None], wide)
    local = rbf(g, g.dot(x.whitened, b.T), x.norms[1], b, LENGTH * kernel.median_b)
    return g.add(g.mul(linear, GLOBAL), g.mul(local, LOCAL))
