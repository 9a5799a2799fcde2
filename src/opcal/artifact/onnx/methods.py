"""Each method's mean and standard deviation [N, 1] in ONNX; the mathematics is that of the file of its name in core."""

from __future__ import annotations

import numpy as np

from opcal.artifact.onnx.field import Inputs, Rows, at_predicted, kernel_to, logits_of, seen
from opcal.artifact.onnx.graph import FAR, Graph
from opcal.artifact.scorers import AutoScorer, CorrectnessScorer, ResidualScorer, TemperatureScorer
from opcal.core import correctness, residual, stack
from opcal.core.correctness import SAME_PREDICTION, SLOPE, TREND
from opcal.core.doubt import BEND as ODDS_BEND
from opcal.core.doubt import EDGE as ODDS_EDGE
from opcal.core.doubt import Doubt
from opcal.core.softmax import SPREAD, Fit
from opcal.core.spread import EDGE, OFFSET, Spread
from opcal.core.spread import SLOPE as ODDS_SLOPE

Names = tuple[str, str]


def auto(g: Graph, scorer: AutoScorer, given: Inputs) -> Names:
    s = scorer.inner
    x = seen(g, s.embedding, s.kernel, given)
    kernel = kernel_to(g, s.kernel, x, s.points) if len(s.points.centred) else None
    shares, parts, p = stack._shares(s.weights[: len(s.fits)]), [], ""
    for share, fit in zip(shares.tolist(), s.fits, strict=True):
        each = g.softmax(_latent(g, fit, x, kernel))
        parts.append(at_predicted(g, x.hot, each))
        p = g.mul(each, share) if not p else g.add(p, g.mul(each, share))
    parts.append(x.confidence)
    if s.right is not None:
        parts.append(_at_mode(g, s.right, x))
    each = g.columns(*parts)
    average = g.clip(g.dot(each, s.weights[:, None]), 0.0, 1.0)
    mean = average if s.doubt is None else _doubted(g, s.doubt, average)
    cooling = sum(share * np.exp(-fit.temperature) for share, fit in zip(shares, s.fits, strict=True))
    variance = _log_odds_variance(g, s.spread, x, p, g.mul(x.logits, float(cooling)))
    apart = g.sub(each, average)
    between = g.dot(g.mul(apart, apart), s.weights[:, None])
    spread = g.sqrt(g.add(g.through_logistic(mean, g.most(variance, 1e-30)), between))
    return mean, g.least(spread, g.widest_sd(mean))


def _doubted(g: Graph, doubt: Doubt, p: str) -> str:
    inside = g.clip(p, ODDS_EDGE, 1 - ODDS_EDGE)
    m = g.sub(g.log(inside), g.log(g.sub(1.0, inside)))
    features = g.columns(g.add(g.mul(m, 0.0), 1.0), m, g.most(g.sub(m, ODDS_BEND), 0.0))
    variance = g.squares(g.dot(features, doubt.root))
    return g.sigmoid(g.div(m, g.sqrt(g.add(g.mul(variance, np.pi / 8), 1.0))))


def _latent(g: Graph, fit: Fit, x: Rows, kernel: str | None) -> str:
    base = _base(g, fit, x)
    return base if kernel is None else g.add(base, g.dot(kernel, fit.alpha))


def _base(g: Graph, fit: Fit, x: Rows) -> str:
    own = g.add(g.dot(x.trend, fit.trend[:, None]), g.dot(x.hot, fit.offsets[:, None]))
    return g.add(
        g.mul(x.logits, float(np.exp(-fit.temperature))),
        g.mul(x.near_b, float(fit.pulls[0])),
        g.mul(x.near_z, float(fit.pulls[1])),
        g.mul(x.hot, own),
    )


def _log_odds_variance(g: Graph, spread: Spread, x: Rows, p: str, cooled: str) -> str:
    right = at_predicted(g, x.hot, p)
    others = g.where(x.mask, 0.0, p)
    wrong = g.sub(1.0, right)
    odds = g.sub(g.log(g.clip(right, EDGE, 1 - EDGE)), g.log(g.clip(wrong, EDGE, 1 - EDGE)))
    others = g.div(others, g.most(g.total(others), float(np.finfo(np.float32).tiny)))
    by_kernel = g.dot(kernel_to(g, spread.kernel, x, spread.landmarks), spread.whiten)
    left = g.most(g.sub(x.own, g.squares(by_kernel)), 0.0)
    rho2 = g.mul(g.add(g.squares(others), 1.0), spread.amplitude2)
    three = (cooled, x.near_b, x.near_z)
    by_prior = [g.mul(g.sub(at_predicted(g, x.hot, f), g.total(g.mul(others, f))), SPREAD) for f in three]
    parts = [g.mul(by_kernel, g.sqrt(rho2)), *by_prior]
    parts += [g.add(g.mul(odds, 0.0), OFFSET), g.mul(odds, ODDS_SLOPE)]
    return g.add(g.squares(g.dot(g.columns(*parts), spread.root)), g.mul(rho2, left))


def _s(g: Graph, x: Rows) -> str:
    """The second column of the trend [N, 1]: the model's log-odds."""
    return g.dot(x.trend, np.array([[0.0], [1.0], [0.0]]))


def _cross(g: Graph, s: correctness.Scorer, x: Rows, kernel: str, amplitude: float) -> str:
    """`correctness.covariance` between rows and known items [N, n]."""
    same = (np.arange(s.embedding.classes)[:, None] == s.known.predicted).astype(np.float64)
    return g.add(
        g.mul(kernel, amplitude**2),
        g.dot(x.trend, (s.known.trend * TREND).T),
        g.dot(x.hot, SAME_PREDICTION * same),
    )


def _at_mode(g: Graph, s: correctness.Scorer, x: Rows) -> str:
    fit = s.fits[int(s.weights.argmax())]
    cross = _cross(g, s, x, kernel_to(g, s.kernel, x, s.known), fit.amplitude)
    return g.sigmoid(g.add(g.mul(_s(g, x), SLOPE), g.dot(cross, fit.slope[:, None])))


def right_or_wrong(g: Graph, scorer: CorrectnessScorer, given: Inputs) -> Names:
    s = scorer.inner
    x = seen(g, s.embedding, s.kernel, given)
    kernel = kernel_to(g, s.kernel, x, s.known) if len(s.known) else None
    means, variances = zip(*(_part(g, s, fit, x, kernel) for fit in s.fits), strict=True)
    weights = s.weights[:, None]
    each = g.columns(*means)
    mean = g.dot(each, weights)
    apart = g.sub(each, mean)
    spread = g.dot(g.add(g.columns(*variances), g.mul(apart, apart)), weights)
    widest = g.mul(mean, g.sub(1.0, mean), 0.998)
    return mean, g.sqrt(g.least(spread, widest))


def _part(g: Graph, s: correctness.Scorer, fit: correctness.Laplace, x: Rows, kernel: str | None) -> Names:
    m = g.mul(_s(g, x), SLOPE)
    own = g.add(g.mul(x.own, fit.amplitude**2), g.dot(g.mul(x.trend, x.trend), TREND[:, None]), SAME_PREDICTION)
    if kernel is not None:
        cross = _cross(g, s, x, kernel, fit.amplitude)
        m = g.add(m, g.dot(cross, fit.slope[:, None]))
        explained = g.dot(cross, (np.linalg.inv(fit.lower) * fit.root).T)
        own = g.most(g.sub(own, g.squares(explained)), 0.0)
    mean = g.sigmoid(g.div(m, g.sqrt(g.add(g.mul(own, np.pi / 8), 1.0))))
    return mean, g.through_logistic(mean, own)


def temperature(g: Graph, scorer: TemperatureScorer, given: Inputs) -> Names:
    logits, mask, hot = logits_of(g, given, scorer.classes)
    cooled = g.mul(logits, float(np.exp(-scorer.tau)))
    p = at_predicted(g, hot, g.softmax(cooled))
    others = g.softmax(g.where(mask, FAR, cooled))
    slope = g.sub(g.total(g.mul(others, cooled)), at_predicted(g, hot, cooled))
    scaled = g.mul(slope, scorer.sd)
    return p, g.least(g.sqrt(g.through_logistic(p, g.mul(scaled, scaled))), g.widest_sd(p))


def residuals(g: Graph, scorer: ResidualScorer, given: Inputs) -> Names:
    s = scorer.solved
    x = seen(g, scorer.embedding, scorer.kernel, given)
    mean, left = at_predicted(g, x.hot, g.softmax(_base(g, s.base, x))), g.mul(x.own, s.scale)
    if len(s.alpha):
        cross = kernel_to(g, scorer.kernel, x, s.points)
        mean = g.add(mean, at_predicted(g, x.hot, g.dot(cross, s.alpha)))
        left = g.sub(left, g.total(g.mul(g.dot(cross, s.solve), cross)))
    mean = g.clip(mean, residual.LIMIT, 1 - residual.LIMIT)
    return mean, g.least(g.sqrt(g.most(left, 0.0)), g.widest_sd(mean))
