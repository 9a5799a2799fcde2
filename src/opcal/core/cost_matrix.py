"""What each action is worth, by predicted and true class; the scalar u is the simple case (method.md §5)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from opcal.core.checks import confidences
from opcal.core.costs import threshold_from_loss
from opcal.core.method import FloatArray, IntArray
from opcal.errors import InvalidArray, InvalidInput, LengthMismatch

NEVER = 2.0
"""Threshold of a class on which acting never pays."""


@dataclass(frozen=True, eq=False)
class Action:
    """Something other than acting on the prediction: send to a person, use another model, reject."""

    name: str
    gain: FloatArray  # [K, K + 1] by predicted and true class, the last column for none of the classes
    capacity: int | None = None
    """At most so many items."""


@dataclass(frozen=True, eq=False)
class CostMatrix:
    """Gains of acting on a prediction and of the other actions."""

    act: FloatArray  # [K, K + 1] by predicted and true class, the last column for none of the classes
    others: tuple[Action, ...]
    capacity: int | None = None
    """At most so many predictions are acted on."""
    classes: tuple[str, ...] | None = None
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        k = len(self.act)
        for name, gain in (("act", self.act), *((a.name, a.gain) for a in self.others)):
            if gain.shape != (k, k + 1) or not np.isfinite(gain).all():
                raise InvalidArray(f"gain of {name!r} has shape {gain.shape}: expected finite numbers, {(k, k + 1)}")
        if not self.others:
            raise InvalidInput('others is empty: without another action all is acted on; pass at least a "reject" of 0')
        object.__setattr__(self, "names", ("act", *(a.name for a in self.others)))

    @classmethod
    def scalar(cls, u: float, classes: int) -> CostMatrix:
        """A right prediction taken gains 1, a false one loses u, anything else is 0."""
        threshold_from_loss(u)
        act = np.full((classes, classes + 1), -float(u))
        act[np.arange(classes), np.arange(classes)] = 1.0
        return cls(act, (Action("reject", np.zeros_like(act)),))

    @property
    def capacities(self) -> tuple[int | None, ...]:
        return (self.capacity, *(a.capacity for a in self.others))

    @property
    def gains(self) -> FloatArray:
        """[actions, K, K + 1]."""
        return np.stack([self.act, *(a.gain for a in self.others)])

    def values(self, conf: ArrayLike, predicted: IntArray, wrong: FloatArray | None = None) -> FloatArray:
        """Expected gain of every action for every item, [N, actions].

        `wrong` [N, K] says how likely each true class is where the prediction is false; without it, all the others are
        equally likely.
        """
        c = confidences(conf)
        right, false = self.right_and_false(predicted, wrong)
        values: FloatArray = c[:, None] * right + (1 - c[:, None]) * false
        return values

    def right_and_false(self, predicted: IntArray, wrong: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Expected gain of every action if the prediction is right, and if it is false, [N, actions] each."""
        k, gains = len(self.act), self.gains
        if predicted.size and int(predicted.max()) >= k:
            raise LengthMismatch(f"the costs are of {k} classes but a prediction is class {int(predicted.max())}")
        by_class = gains[:, np.arange(k), np.arange(k)]
        if wrong is None:
            off = gains[:, :, :k].sum(2) - by_class
            false = (off / (k - 1)).T[predicted]
        else:
            false = np.einsum("nk,ank->na", wrong, gains[:, predicted, :k])
        return by_class.T[predicted], false

    def thresholds(self) -> FloatArray:
        """The confidence from which acting is best, for each predicted class [K]; `NEVER` where it never is."""
        right, false = self.right_and_false(np.arange(len(self.act)), None)
        slope = (right - false)[:, :1] - (right - false)[:, 1:]
        start = (false[:, :1] - false[:, 1:]).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            rising = np.clip(-start / slope, 0.0, NEVER)
        best = np.where(slope > 0, rising, np.where(start + slope >= 0, 0.0, NEVER)).max(1)
        thresholds: FloatArray = np.where(best > 1, NEVER, best)
        return thresholds

    @property
    def threshold(self) -> float:
        """One confidence for all classes, where one is asked for: the middle of those on which acting can pay."""
        found = self.thresholds()
        return float(np.median(found[found <= 1])) if (found <= 1).any() else 1.0

    def realised(self, action: IntArray, predicted: IntArray, labels: IntArray) -> FloatArray:
        """What the actions brought, [n]; a negative label belongs to none of the classes."""
        true = np.where((labels < 0) | (labels >= len(self.act)), len(self.act), labels)
        brought: FloatArray = self.gains[action, predicted, true]
        return brought

    def perfect(self, predicted: IntArray, labels: IntArray) -> FloatArray:
        """What the best action would have brought had one known whether the prediction is right, [n]."""
        right = self.gains[:, predicted, predicted]
        true = np.where((labels < 0) | (labels >= len(self.act)), len(self.act), labels)
        false = self.right_and_false(predicted, None)[1].T
        known = np.where(predicted == labels, right, false).argmax(0)
        best: FloatArray = self.gains[known, predicted, true]
        return best


def others_by_softmax(logits: FloatArray, predicted: IntArray) -> FloatArray:
    """How likely each class is if the prediction is false, after the model's logits, [N, K]; 0 for the predicted."""
    rest = np.asarray(logits, np.float64).copy()
    rest[np.arange(len(rest)), predicted] = -np.inf
    rest -= rest.max(1, keepdims=True)
    shares = np.exp(rest)
    shares /= shares.sum(1, keepdims=True)
    return shares


def with_accuracy(right: FloatArray, wrong: FloatArray, *, accuracy: float = 1.0, cost: float = 0.0) -> FloatArray:
    """Gain of handing an item to somebody who is right so often, whatever the model predicted, [K, K + 1].

    `right` [K] is gained for a true class named rightly; `wrong` [K, K + 1] (negative) by named and true class.
    """
    k = len(right)
    off = wrong.copy()
    off[np.arange(k), np.arange(k)] = 0.0
    mistaken = off.sum(0) / np.append(np.full(k, max(k - 1, 1)), k)
    told = np.append(accuracy * right + (1 - accuracy) * mistaken[:k], accuracy * 0.0 + (1 - accuracy) * mistaken[k])
    gain: FloatArray = np.broadcast_to(told - cost, (k, k + 1)).copy()
    return gain
