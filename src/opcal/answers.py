"""What a calibrator was asked and told: every answer checked before anything changes, in the order told."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import ArrayLike

from opcal.core.method import OUTSIDE, WRONG, Answers, FloatArray, IntArray
from opcal.errors import ConflictingAnswer, InvalidInput, LengthMismatch
from opcal.pool import Pool, checks, names

CARRIED = "opcal_carried_weight"
"""Column of a pool: the weight of an item of an earlier round that was brought along, None for items of the field."""


class AnswerBook:
    """The answers told so far and which of their items were drawn uniformly at random."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._row_of: dict[int, int] = {}
        self._positions = np.empty(64, dtype=np.intp)
        self._labels = np.empty(64, dtype=np.intp)
        self._weights = np.empty(64)
        self._carried = carried_weights(pool)
        self.drawn = np.zeros(len(pool), dtype=bool)
        """Pool items known to be drawn uniformly at random from the whole pool, [N]."""
        self.answers = Answers.none()

    def moved(self, pool: Pool) -> AnswerBook:
        """The same answers on a pool that has more items at its end."""
        other = copy(self)
        other._pool, other._row_of = pool, dict(self._row_of)
        other._carried = carried_weights(pool)
        other.drawn = np.concatenate([self.drawn, np.zeros(len(pool) - len(self.drawn), dtype=bool)])
        return other

    def __contains__(self, position: int) -> bool:
        return position in self._row_of

    def __len__(self) -> int:
        return len(self._row_of)

    def add(
        self,
        positions: ArrayLike,
        labels: ArrayLike | None,
        correct: ArrayLike | None,
        audit: ArrayLike | None,
        weight: ArrayLike | None = None,
    ) -> IntArray:
        """Take answers, all or none of them; gives their positions."""
        at = names.positions("positions", positions, len(self._pool))
        told = self._as_labels(at, labels, correct)
        drawn = None if audit is None else names.mask("audit", audit, len(at))
        weights = _weights(weight, len(at))
        if self._carried is not None:
            weights *= self._carried[at]
        fresh = self._fresh(at, told)
        self._refuse_other_weights(at, weights)
        weight_of = dict(zip(at.tolist(), weights.tolist(), strict=True))
        for position, label in fresh.items():
            self._put(position, label, weight_of[position])
        if drawn is not None:
            self.drawn[at] = drawn
        self.answers = self._so_far()
        return at

    def _so_far(self) -> Answers:
        n = len(self._row_of)
        at, labels, weights = self._positions[:n], self._labels[:n], self._weights[:n]
        right = labels == self._pool.predicted[at]
        for handed_out in (at, labels, right, weights):
            handed_out.setflags(write=False)
        return Answers(at, labels, right, weights)

    def _as_labels(self, at: IntArray, labels: ArrayLike | None, correct: ArrayLike | None) -> IntArray:
        if (labels is None) == (correct is None):
            raise InvalidInput("pass either labels= (the true classes) or correct= (was the prediction right?)")
        if correct is not None:
            right = names.mask("correct", correct, len(at))
            return np.where(right, self._pool.predicted[at], WRONG)
        if _booleans(labels):
            raise InvalidInput(
                "labels holds True and False: if they say whether the prediction was right pass correct=, "
                "if they are the classes 1 and 0 pass labels.astype(int)"
            )
        assert labels is not None
        found = names.class_indices("labels", labels, self._pool.classes, self._pool.n_classes)
        if found.shape != at.shape:
            raise LengthMismatch(f"labels has {len(found)} entries for {len(at)} positions: pass one for each position")
        return found

    def _fresh(self, at: IntArray, told: IntArray) -> dict[int, int]:
        """New or more telling answers; a repeated one is nothing new, a contradiction is refused."""
        fresh: dict[int, int] = {}
        for position, label in zip(at.tolist(), told.tolist(), strict=True):
            row = self._row_of.get(position)
            known = fresh.get(position, None if row is None else int(self._labels[row]))
            if known is None:
                fresh[position] = label
            elif label != known:
                self._refuse_contradiction(position, known, label)
                if known == WRONG:
                    fresh[position] = label
        return fresh

    def _refuse_contradiction(self, position: int, known: int, label: int) -> None:
        """A class adds to "wrong" if it is another than the predicted one, and "wrong" adds nothing to such a class."""
        predicted = int(self._pool.predicted[position])
        if WRONG in (known, label) and predicted not in (known, label):
            return
        raise ConflictingAnswer(
            f"position {position} (id {self._pool.id_of(position)!r}) was told {self._say(known, predicted)} before "
            f"and is told {self._say(label, predicted)} now: nothing was changed; leave out the one that is mistaken"
        )

    def _say(self, label: int, predicted: int) -> str:
        if label == WRONG:
            return '"wrong"'
        if label == OUTSIDE:
            return '"outside the classes"'
        name = repr(self._pool.classes[label]) if self._pool.classes else f"class {label}"
        return f"{name} (the prediction)" if label == predicted else name

    def _refuse_other_weights(self, at: IntArray, weights: FloatArray) -> None:
        given: dict[int, float] = {}
        for position, weight in zip(at.tolist(), weights.tolist(), strict=True):
            row = self._row_of.get(position)
            known = given.setdefault(position, weight if row is None else float(self._weights[row]))
            if weight != known:
                raise ConflictingAnswer(
                    f"position {position} (id {self._pool.id_of(position)!r}) was told with weight {known:g} before "
                    f"and is told with {weight:g} now: nothing was changed; to weigh answers anew, fit them all at once"
                )

    def _put(self, position: int, label: int, weight: float) -> None:
        row = self._row_of.setdefault(position, len(self._row_of))
        if row == len(self._positions):
            self._positions, self._labels = (np.resize(a, 2 * row) for a in (self._positions, self._labels))
            self._weights = np.resize(self._weights, 2 * row)
        elif row < len(self.answers):
            # Answers handed out before are views of these arrays and stay as they were.
            self._labels = self._labels.copy()
        self._positions[row], self._labels[row], self._weights[row] = position, label, weight


def carried_weights(pool: Pool) -> FloatArray | None:
    """What the pool itself says an answer to each item counts, [N]; None where no item is of an earlier round."""
    if CARRIED not in pool.columns:
        return None
    own = np.array([1.0 if w is None else w for w in pool.columns[CARRIED]], dtype=np.float64)
    if not ((own > 0) & (own <= 1)).all():
        raise InvalidInput(f"the pool's column {CARRIED} holds values outside (0, 1]: leave it to `opcal watch`")
    return own


def carried(pool: Pool) -> IntArray:
    """Positions of items that came from an earlier round: no part of the field, so never drawn for the audit."""
    if CARRIED not in pool.columns:
        return np.empty(0, np.intp)
    return np.flatnonzero([w is not None for w in pool.columns[CARRIED]])


def _weights(weight: ArrayLike | None, n: int) -> FloatArray:
    """One weight for each of n answers, [n] in (0, 1]."""
    if weight is None:
        return np.ones(n)
    given = checks.numeric("weight", checks.as_array("weight", weight)).astype(np.float64)
    if given.ndim > 1 or (given.ndim == 1 and len(given) != n):
        raise LengthMismatch(f"weight has shape {given.shape} for {n} positions: pass one number, or one for each")
    if not ((given > 0) & (given <= 1)).all():
        raise InvalidInput("weight holds values outside (0, 1]: 1 is a full answer; leave out an answer worth nothing")
    return np.broadcast_to(given, (n,)).copy()


def _booleans(labels: ArrayLike | None) -> bool:
    array = checks.as_array("labels", labels)
    return bool(array.size) and (array.dtype == bool or isinstance(array.ravel()[0], bool))
