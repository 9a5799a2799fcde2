"""Has the field changed? Two-sample tests whose false alarms stay below one level however often one looks.

Look k may alarm at α/(k(k+1)), which sums to α over all looks; each of its tests gets an equal share. Permutations are
as many as that level needs, and stop early where the first 500 give p above .05.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opcal.core.kernels import squared_distances
from opcal.core.medoids import Clustering
from opcal.core.method import FloatArray, IntArray, Outputs
from opcal.core.prototypes import project

ROWS = 800
"""Most rows of either side that the representation test compares."""
FIRST, CLEAR, MOST = 500, 0.05, 50_000
LENGTHS = (0.5, 1.0, 2.0)
"""Of the kernels, over the median distance."""
Drawn = Callable[[int], FloatArray]


@dataclass(frozen=True)
class Test:
    """One question asked of both fields."""

    name: str
    p: float
    says: str


def level_of(look: int, alpha: float) -> float:
    """What the look of this number, from 1, may spend."""
    return alpha / (look * (look + 1))


def tests_of(old: Outputs, new: Outputs, clustering: Clustering, level: float, rng: np.random.Generator) -> list[Test]:
    """Representations twice, shares of clusters, confidences, predicted classes; all only of what the model said."""
    each = level / 5
    kept = np.ones(len(old), bool)
    kept[clustering.medoids] = False  # a medoid is nearest to itself
    shares = clustering.assignment[kept], clustering.assign(new.features)
    return [
        *_representations(old, new, each, rng),
        _counts("clusters", *shares, "cluster", each, rng),
        _confidence(old.confidence, new.confidence),
        _counts("predicted classes", old.predicted, new.predicted, "class", each, rng),
    ]


def _representations(old: Outputs, new: Outputs, level: float, rng: np.random.Generator) -> list[Test]:
    """Maximum mean discrepancy of z/‖z‖ in its 12 whitened principal directions, and in all, each at scale 1.

    Both spaces are learnt from both fields together, so that exchanging their items changes nothing. Either sees what
    the other does not (X-rays of t8: p .0005 in the first, .03 to .2 in the second).
    """
    sides = [_some(rows.features, rng) for rows in (old, new)]
    both = np.vstack(sides).astype(np.float64)
    projection = project(both)
    centred = projection.centred(both, np.dtype(np.float64))
    standard = centred / np.maximum(centred.std(0), 1e-12 + 0.1 * centred.std())
    n, m = len(sides[0]), len(sides[1])
    weights = np.concatenate([np.full(n, -1 / n), np.full(m, 1 / m)]).astype(np.float32)
    spaces = ("main directions", projection.whitened(centred)), ("all directions", standard)
    return [_discrepancy(name, _kernel(rows), weights, level, rng) for name, rows in spaces]


def _discrepancy(name: str, kernel: FloatArray, weights: FloatArray, level: float, rng: np.random.Generator) -> Test:
    def drawn(count: int) -> FloatArray:
        w = rng.permuted(np.broadcast_to(weights, (count, len(weights))), axis=1)
        discrepancies: FloatArray = np.einsum("ij,ij->i", w @ kernel, w)
        return discrepancies

    found = float(weights @ kernel @ weights)
    return Test(name, permuted(found, drawn, level), f"mean discrepancy {np.sqrt(max(found, 0)):.3f}")


def _kernel(rows: FloatArray) -> FloatArray:
    d2 = squared_distances(rows.astype(np.float32), rows.astype(np.float32))
    median = float(np.median(d2[np.triu_indices(len(d2), 1)])) or 1.0
    parts: FloatArray = sum(np.exp(d2 * np.float32(-0.5 / (length**2 * median))) for length in LENGTHS)
    return parts


def _some(features: FloatArray, rng: np.random.Generator) -> FloatArray:
    if len(features) <= ROWS:
        return np.asarray(features)
    return np.asarray(features[np.sort(rng.choice(len(features), ROWS, replace=False))])


def _counts(name: str, old: IntArray, new: IntArray, one: str, level: float, rng: np.random.Generator) -> Test:
    """χ² of the shares, by permutation."""
    kinds = int(max(old.max(initial=0), new.max(initial=0))) + 1
    before, now = np.bincount(old, minlength=kinds), np.bincount(new, minlength=kinds)
    seen = np.flatnonzero(before + now)
    total, m = (before + now)[seen], len(new)
    expected = total * (m / total.sum())

    def statistic(counts: NDArray[Any]) -> FloatArray:
        chi2: FloatArray = ((counts - expected) ** 2 / expected).sum(-1)
        return chi2

    def drawn(count: int) -> FloatArray:
        return statistic(rng.multivariate_hypergeometric(total, m, size=count, method="marginals"))

    p = permuted(float(statistic(now[seen])), drawn, level) if len(seen) > 1 else 1.0
    change = now / max(m, 1) - before / max(len(old), 1)
    at = int(np.abs(change).argmax())
    share = f"{before[at] / max(len(old), 1):.2f} to {now[at] / max(m, 1):.2f}"
    return Test(name, p, f"the share of {one} {at} went from {share}")


def _confidence(old: FloatArray, new: FloatArray) -> Test:
    """Kolmogorov and Smirnov on the model's own confidence; its asymptotic p is too large where values tie."""
    from scipy.stats import ks_2samp

    found = ks_2samp(old, new, method="asymp")
    return Test("confidence", float(found.pvalue), f"its mean went from {old.mean():.3f} to {new.mean():.3f}")


def permuted(found: float, drawn: Drawn, level: float) -> float:
    """p of `found` among permutations, the found one counted; as many as show a p well below `level`."""
    values = drawn(FIRST)
    if (p := _p(found, values)) > CLEAR:
        return p
    wanted = int(min(max(4 / level, 2000), MOST))
    while len(values) < wanted:
        values = np.concatenate([values, drawn(min(2000, wanted - len(values)))])
    return _p(found, values)


def _p(found: float, values: FloatArray) -> float:
    return float((1 + np.count_nonzero(values >= found * (1 - 1e-6))) / (1 + len(values)))
