"""The audit slice: a share of the questions goes to items drawn uniformly at random from the whole pool."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np

from opcal.core.method import BoolArray, IntArray


class AuditWalk:
    """One permutation of the whole pool, fixed at the beginning and walked: any prefix of it is a uniform sample.

    Drawing from what is still unlabelled would be biased. An item that is known for another reason already is reused
    without a question and counts all the same.
    """

    def __init__(self, permutation: IntArray, share: float) -> None:
        self.permutation, self.share = permutation, share
        self.walked = 0

    def due(self, questions: int) -> int:
        """How far the walk has come when so many questions were asked in all."""
        return int(self.share * questions + 1e-9)

    def draw(self, k: int, asked: int, known: Callable[[int], bool]) -> tuple[list[int], int]:
        """The audit items among the next k questions and how far the walk comes with them; nothing is changed yet."""
        questions: list[int] = []
        at = self.walked
        end = len(self.permutation) if self.share == 1 else min(self.due(asked + k), len(self.permutation))
        while at < end and len(questions) < k:
            position = int(self.permutation[at])
            if not known(position):
                questions.append(position)
            at += 1
        return questions, at

    def go_on(self, to: int, drawn: BoolArray) -> None:
        """Mark in `drawn` [N] all that the walk passes."""
        drawn[self.permutation[self.walked : to]] = True
        self.walked = to

    def rank(self, drawn: BoolArray) -> IntArray:
        """Place of each item in the walk, [N]; all 0 where `drawn` holds items that the walk has not passed."""
        ranks = np.zeros(len(drawn), dtype=np.intp)
        if int(drawn[self.permutation[: self.walked]].sum()) == int(drawn.sum()):
            ranks[self.permutation] = np.arange(len(drawn))
        return ranks

    def weave(self, chosen: list[int], audit: list[int], asked: int) -> list[int]:
        """Both in one batch, audit items where their share falls due, so that every prefix holds its part of them."""
        woven, rest, waiting = [], iter(chosen), iter(audit)
        for question in range(asked, asked + len(chosen) + len(audit)):
            first, second = (waiting, rest) if self.due(question + 1) > self.due(question) else (rest, waiting)
            woven += list(islice(first, 1)) or list(islice(second, 1))
        return woven
