"""The paper's method in ONNX: nearest medoid, that cluster's Gaussian process, moments of a truncated normal."""

from __future__ import annotations

import numpy as np

from opcal.artifact.onnx.field import Inputs
from opcal.artifact.onnx.graph import Graph
from opcal.artifact.scorers import PaperScorer
from opcal.core.gp import LEAST
from opcal.core.method import FloatArray
from opcal.core.truncnorm import location_for_mean, moments

_roots, _weights = np.polynomial.legendre.leggauss(64)
NODES, WEIGHTS = (_roots + 1) / 2, _weights / 2
"""Of [0, 1]: 64 are good for windows of 18 standard deviations."""
TABLE = 8192
"""Intervals of the table of standard deviations by confidence, for clusters without labels; error below 1e-7."""


def paper(g: Graph, scorer: PaperScorer, given: Inputs) -> tuple[str, str]:
    c = scorer.clusters
    z = g.sub(given.features, c.centre[None])
    own = np.einsum("ij,ij->i", c.points, c.points)[None] / 2
    at = g.op("ArgMin", g.sub(own, g.dot(z, c.points.T)), axis=1, keepdims=1)
    cluster = g.double(g.onehot(at, len(c.points)))
    amplitude = scorer.kernels[0].amplitude
    correction, variance = _process(g, scorer, z, cluster, amplitude)
    location, scale = g.add(given.confidence, correction), g.sqrt(variance)
    mean, sd = truncated(g, location, scale)
    unknown = np.array([expert is None for expert in scorer.experts])
    if unknown.any():
        here = g.op("Greater", g.dot(cluster, unknown[:, None].astype(np.float64)), 0.5)
        mean = g.where(here, given.confidence, mean)
        sd = g.where(here, _prior_sd(g, given.confidence, float(np.sqrt(amplitude))), sd)
    return mean, sd


def _process(g: Graph, scorer: PaperScorer, z: str, cluster: str, amplitude: float) -> tuple[str, str]:
    """μ and σ² of I − c [N, 1]: all clusters' points at once, those of other clusters times zero."""
    parts = [(k, e) for k, e in enumerate(scorer.experts) if e is not None]
    if not parts:
        zero = g.mul(g.total(cluster), 0.0)
        return zero, g.add(zero, amplitude)
    c = scorer.clusters
    points = np.vstack([e.points.astype(np.float64) + c.points[k] for k, e in parts])
    belongs = np.concatenate([np.full(len(e.points), k) for k, e in parts])
    member = (np.arange(len(c.points))[:, None] == belongs).astype(np.float64)
    inverse = np.concatenate([np.full(len(e.points), -0.5 / e.kernel.length**2) for _, e in parts])[None]
    norms = np.einsum("ij,ij->i", points, points)[None]
    d2 = g.most(g.add(g.mul(g.dot(z, points.T), -2.0), g.squares(z), norms), 0.0)
    k = g.mul(g.exp(g.most(g.mul(d2, inverse), LEAST)), amplitude, g.dot(cluster, member))
    half = g.dot(k, _block_diagonal([e.root.astype(np.float64) for _, e in parts]))
    weights = np.concatenate([e.weights.astype(np.float64) for _, e in parts])[:, None]
    return g.dot(k, weights), g.most(g.sub(amplitude, g.squares(half)), 0.0)


def _block_diagonal(blocks: list[FloatArray]) -> FloatArray:
    from scipy.linalg import block_diag

    whole: FloatArray = block_diag(*blocks)
    return whole


def truncated(g: Graph, m: str, s: str) -> tuple[str, str]:
    """Moments of N(m, s²) cut to [0, 1], by quadrature over the part of [0, 1] that holds all but e^-40 of the mass.

    Reflected so that the nearer bound is on the left, x = min(m, 1 − m).
    """
    point = g.op("Less", s, 1e-12)
    x, s = g.least(m, g.sub(1.0, m)), g.most(s, 1e-12)
    root = g.sqrt(g.add(g.mul(x, x), g.mul(s, s, 80.0)))
    right = g.op("Greater", x, 0.0)
    reach = g.where(right, g.add(x, g.mul(s, 9.0)), g.div(g.mul(s, s, 80.0), g.where(right, 1.0, g.sub(root, x))))
    low, high = g.most(g.sub(x, g.mul(s, 9.0)), 0.0), g.least(reach, 1.0)
    y = g.add(low, g.mul(g.sub(high, low), NODES[None]))
    u, peak = g.div(g.sub(y, x), s), g.div(g.sub(g.most(x, 0.0), x), s)
    density = g.exp(g.most(g.mul(g.sub(g.mul(u, u), g.mul(peak, peak)), -0.5), -700.0))
    mass = g.mul(density, WEIGHTS[None])
    mass = g.div(mass, g.total(mass))
    mean = g.total(g.mul(mass, y))
    apart = g.sub(y, mean)
    sd = g.sqrt(g.total(g.mul(mass, apart, apart)))
    mean = g.where(g.op("Greater", m, 0.5), g.sub(1.0, mean), mean)
    return g.where(point, g.clip(m, 0.0, 1.0), mean), g.where(point, 0.0, sd)


def _prior_sd(g: Graph, confidence: str, scale: float) -> str:
    """Of the truncated normal of this scale whose mean is the model's own confidence, by linear interpolation."""
    grid = np.linspace(0, 1, TABLE + 1)
    sds = moments(location_for_mean(grid, np.full(len(grid), scale)), np.full(len(grid), scale))[1]
    place = g.mul(confidence, float(TABLE))
    below = g.least(g.op("Floor", place), float(TABLE - 1))
    row = g.op("Cast", below, to=7)
    low, high = g.op("Gather", sds, row), g.op("Gather", np.append(sds[1:], sds[-1]), row)
    return g.add(low, g.mul(g.sub(place, below), g.sub(high, low)))
