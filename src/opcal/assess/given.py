"""Labels that the user drew at random, without a calibrator: the model's own confidence is the prediction."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from opcal.answers import AnswerBook
from opcal.assess.crossfit import CrossFitted
from opcal.core.method import FloatArray
from opcal.errors import InvalidArray, InvalidInput, LengthMismatch
from opcal.pool import Pool


def from_pool(
    pool: Pool,
    positions: ArrayLike | None,
    labels: ArrayLike | None,
    correct: ArrayLike | None,
    inclusion: ArrayLike | None,
) -> tuple[CrossFitted, FloatArray | None]:
    """What is known of the pool, and the inclusion probabilities in the same order."""
    if positions is None:
        raise InvalidInput("pass positions and labels= (or correct=) with a Pool, or a calibrator instead of it")
    book = AnswerBook(pool)
    at = book.add(positions, labels, correct, None)
    if len(np.unique(at)) < len(at):
        raise InvalidInput("positions holds an item twice: pass each drawn item once")
    answers = book.answers
    known = CrossFitted(answers.positions, answers.correct, answers.labels, pool.confidence, pool.confidence)
    return known, None if inclusion is None else chances(inclusion, len(at))


def chances(inclusion: ArrayLike, n: int) -> FloatArray:
    """Probabilities in (0, 1], one for each drawn item."""
    found = np.asarray(inclusion, dtype=np.float64)
    if found.shape != (n,):
        raise LengthMismatch(f"inclusion has shape {found.shape} for {n} positions: pass one probability for each")
    bad = ~((found > 0) & (found <= 1))
    if bad.any():
        row = int(bad.argmax())
        raise InvalidArray(f"inclusion[{row}] is {found[row]}: expected the probability, in (0, 1], that it was drawn")
    return found
