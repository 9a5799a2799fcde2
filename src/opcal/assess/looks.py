"""The confidence sequence's predictions: each made only from what was answered before the item was drawn."""

from __future__ import annotations

import itertools

import numpy as np

from opcal._threads import one_thread
from opcal.assess.crossfit import CrossFitted, audit_rows, confidence_from
from opcal.calibrator import OperationalCalibrator
from opcal.core.method import FloatArray, IntArray
from opcal.core.sequence import Draws, Sequence, confidence_sequence
from opcal.pool import Pool


def looks(cal: OperationalCalibrator | None, c: CrossFitted, pool: Pool, level: float) -> Sequence:
    """Refitted on the first 8, 16, 32, … labels; before, and without a calibrator, the model's own confidence."""
    n = len(c.audit)
    draws = Draws(c.correct, np.empty(n), np.empty(n), np.empty(n), np.empty(n), len(pool))
    left = np.ones(len(pool), bool)
    with one_thread():
        for first, last, g in _stretches(cal, c, pool):
            for t in range(first, last):
                rest = g[left]
                draws.g[t], draws.mean[t] = g[c.audit[t]], rest.mean()
                draws.least[t], draws.most[t] = rest.min(), rest.max()
                left[c.audit[t]] = False
    return confidence_sequence(draws, level)


def _stretches(cal: OperationalCalibrator | None, c: CrossFitted, pool: Pool) -> list[tuple[int, int, FloatArray]]:
    n = len(c.audit)
    if cal is None:
        return [(0, n, pool.confidence)]
    bounds = [0, *(8 * 2**j for j in range(30) if 8 * 2**j < n), n]
    made = []
    for first, last in itertools.pairwise(bounds):
        known = _known_before(audit_rows(cal), first)
        g = pool.confidence if len(known) < 8 else confidence_from(cal, known, pool.outputs)
        made.append((first, last, g))
    return made


def _known_before(rows: IntArray, t: int) -> IntArray:
    """Answers told before any audit item from the t-th on, and the audit items drawn before it.

    Which items were chosen later may have hung on later answers: those take no part.
    """
    earlier = np.arange(rows[t:].min() if t < len(rows) else 0)
    return np.union1d(np.setdiff1d(earlier, rows[t:]), rows[:t]).astype(np.intp)
