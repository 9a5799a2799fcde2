"""Several people label the same items: how far they agree, and how often each of them errs.

Categories are 0 … K−1. Opinions come as three arrays [n]: which item, which annotator, which category.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opcal.core.method import FloatArray, IntArray

DIAGONAL, STRENGTH = 0.9, 1.0
"""Before any evidence an annotator is right in nine of ten cases of a class, worth one answer."""
ROUNDS, ENOUGH = 200, 1e-6


def cohen_kappa(first: IntArray, second: IntArray) -> float:
    """κ = (p_o − p_e) / (1 − p_e) of two annotators on the same items [n]; NaN where chance alone agrees always."""
    first, second = np.asarray(first), np.asarray(second)
    if len(first) == 0:
        return float("nan")
    categories = np.union1d(first, second)
    observed = float((first == second).mean())
    chance = float(sum((first == c).mean() * (second == c).mean() for c in categories))
    return (observed - chance) / (1 - chance) if chance < 1 else float("nan")


def krippendorff_alpha(item: IntArray, category: IntArray) -> float:
    """α = 1 − D_o / D_e for nominal categories; items with one opinion say nothing. NaN where nothing can be said."""
    _, at, times = np.unique(item, return_inverse=True, return_counts=True)
    kept = times[at] > 1
    _, of = np.unique(category, return_inverse=True)
    k = int(of.max(initial=0)) + 1
    counts = np.zeros((len(times), k))
    np.add.at(counts, (at[kept], of[kept]), 1.0)
    n = counts.sum(1)
    counts, n = counts[n > 1], n[n > 1]
    if len(n) == 0:
        return float("nan")
    total, overall = n.sum(), counts.sum(0)
    observed = float(((n**2 - (counts**2).sum(1)) / (n - 1)).sum() / total)
    expected = float((total**2 - (overall**2).sum()) / (total * (total - 1)))
    return 1 - observed / expected if expected > 0 else float("nan")


@dataclass(frozen=True)
class DawidSkene:
    """The model of Dawid and Skene (1979), fitted."""

    posterior: FloatArray  # [items, K], P(true category)
    confusion: FloatArray  # [annotators, K, K], P(said | true)
    prevalence: FloatArray  # [K]
    rounds: int

    @property
    def error(self) -> FloatArray:
        """How often each annotator is wrong on a typical item, [annotators]."""
        right: FloatArray = np.einsum("akk,k->a", self.confusion, self.prevalence)
        return 1 - right


def dawid_skene(item: IntArray, annotator: IntArray, category: IntArray, classes: int) -> DawidSkene:
    """Expectation maximisation from the votes; items and annotators are numbered from 0 without gaps."""
    items, people = int(item.max()) + 1, int(annotator.max()) + 1
    votes = np.zeros((items, classes))
    np.add.at(votes, (item, category), 1.0)
    posterior = votes / votes.sum(1, keepdims=True)
    prior = np.full((classes, classes), STRENGTH * (1 - DIAGONAL) / max(classes - 1, 1))
    np.fill_diagonal(prior, STRENGTH * DIAGONAL)
    rounds, moved = 0, 1.0
    while rounds < ROUNDS and moved > ENOUGH:
        rounds += 1
        confusion = np.tile(prior, (people, 1, 1))
        np.add.at(confusion.transpose(0, 2, 1), (annotator, category), posterior[item])
        confusion /= confusion.sum(2, keepdims=True)
        prevalence = (posterior.sum(0) + 1) / (items + classes)
        score = np.tile(np.log(prevalence), (items, 1))
        np.add.at(score, item, np.log(confusion[annotator, :, category]))
        score = np.exp(score - score.max(1, keepdims=True))
        renewed = score / score.sum(1, keepdims=True)
        moved, posterior = float(np.abs(renewed - posterior).max()), renewed
    return DawidSkene(posterior, confusion, prevalence, rounds)


def above_chance(probability: FloatArray, classes: int) -> FloatArray:
    """Weight of a label that is true with this probability: 1 when certain, 0 when no better than a guess."""
    return np.clip((classes * probability - 1) / max(classes - 1, 1), 0.0, 1.0)
