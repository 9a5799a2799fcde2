"""What acting on a prediction is worth: a right one gains 1, a false one loses u, not acting gives 0."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from opcal.core.checks import answers, confidences, within
from opcal.core.method import FloatArray


def threshold_from_loss(u: float) -> float:
    """Break-even confidence lambda = u / (1 + u) of the loss u >= 0."""
    loss = within(u, "u", 0, sys.float_info.max)
    return loss / (1 + loss)


def loss_from_threshold(threshold: float) -> float:
    """Loss u = lambda / (1 - lambda) for which `threshold` in [0, 1) is the break-even confidence."""
    level = within(threshold, "threshold", 0, 1, below=True)
    return level / (1 - level)


@dataclass(frozen=True)
class Costs:
    """The scalar case: the loss u of a false prediction taken, in units of the gain of a right one."""

    u: float

    def __post_init__(self) -> None:
        threshold_from_loss(self.u)

    @property
    def threshold(self) -> float:
        """The confidence from which acting pays."""
        return threshold_from_loss(self.u)

    def gain(self, correct: ArrayLike) -> FloatArray:
        """I - u (1 - I): what acting on each prediction brought, [N]."""
        return np.where(answers(correct), 1.0, -float(self.u))

    def expected_gain(self, conf: ArrayLike) -> FloatArray:
        """c - u (1 - c): what acting on each prediction brings on average if its confidence is honest, [N]."""
        c = confidences(conf)
        return c - self.u * (1 - c)
