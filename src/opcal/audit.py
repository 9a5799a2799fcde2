"""The audit slice: a share of the questions goes to items drawn uniformly at random from the whole pool."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np

from opcal.core.method import BoolArray, FloatArray, IntArray


class AuditWalk:
    """One permutation of the whole pool, fixed at the beginning and walked: any prefix of it is a uniform sample.

    Drawing from what is still unlabelled would be biased. An item that is known for another reason already is reused
    without a question and counts all the same.
    """

    def __init__(self, permutation: IntArray, share: float, parts: tuple[int, ...] = ()) -> None:
        self.permutation, self.share = permutation, share
        self.parts = parts or (len(permutation),)
        """Sizes of the pool's parts in the order they came: items 0 to n₀ − 1, then n₀ to n₀ + n₁ − 1, ..."""
        self.walked = 0
        self._own: set[int] = set()
        """Items that are known to be drawn only because the walk passed them."""

    def afresh(self) -> AuditWalk:
        return AuditWalk(self.permutation, self.share, self.parts)

    def extended(self, order: IntArray) -> AuditWalk:
        """The walk over a pool that grew by the items in `order`, their own permutation.

        What was walked stays the beginning and no item changes places with one of its own part; of the parts, the one
        walked least goes next, so that new items catch up and from then on all are drawn alike.
        """
        parts = (*self.parts, len(order))
        ahead = [*self._by_part(self.permutation[self.walked :]), order]
        sizes = np.array(parts)
        # The place of each part's r-th item when walked by the least fraction: (r + 1) / n, ties to the older part.
        done = np.append(self._walked_by_part(), 0)
        ranks = [(done[i] + 1 + np.arange(len(part))) / sizes[i] for i, part in enumerate(ahead)]
        part_of = np.repeat(np.arange(len(parts)), [len(part) for part in ahead])
        merged = np.concatenate(ahead)[np.lexsort((part_of, np.concatenate(ranks)))]
        walk = AuditWalk(np.concatenate([self.permutation[: self.walked], merged]).astype(np.intp), self.share, parts)
        walk.walked, walk._own = self.walked, set(self._own)
        return walk

    def inclusion(self, positions: IntArray) -> FloatArray:
        """The share walked so far of the part of each item that the walk has passed, 0 for all others; [n]."""
        passed = np.isin(positions, self.permutation[: self.walked])
        # One part may hold items that are never drawn, brought along from an earlier round.
        sizes = self.parts if len(self.parts) > 1 else (max(len(self.permutation), 1),)
        share = self._walked_by_part() / np.array(sizes)
        found: FloatArray = np.where(passed, share[self._part_of(positions)], 0.0)
        return found

    def uneven(self) -> IntArray:
        """Items walked that must be left out, so that the others are one uniform sample of all parts together.

        What was told to be drawn uniformly from the whole pool, by another session, stays.
        """
        passed = self._by_part(self.permutation[: self.walked])
        share = min(len(walked) / n for walked, n in zip(passed, self.parts, strict=True))
        ends = [int(share * n + 1e-9) for n in self.parts]
        ahead = np.concatenate([walked[end:] for walked, end in zip(passed, ends, strict=True)])
        return ahead[np.isin(ahead, list(self._own))]

    def _part_of(self, positions: IntArray) -> IntArray:
        return np.searchsorted(np.cumsum(self.parts), positions, side="right").astype(np.intp)

    def _by_part(self, positions: IntArray) -> list[IntArray]:
        part = self._part_of(positions)
        return [positions[part == i] for i in range(len(self.parts))]

    def _walked_by_part(self) -> IntArray:
        counts: IntArray = np.bincount(self._part_of(self.permutation[: self.walked]), minlength=len(self.parts))
        return counts

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
        passed = self.permutation[self.walked : to]
        self._own.update(passed[~drawn[passed]].tolist())
        drawn[passed] = True
        self.walked = to

    def weave(self, chosen: list[int], audit: list[int], asked: int) -> list[int]:
        """Both in one batch, audit items where their share falls due, so that every prefix holds its part of them."""
        woven, rest, waiting = [], iter(chosen), iter(audit)
        for question in range(asked, asked + len(chosen) + len(audit)):
            first, second = (waiting, rest) if self.due(question + 1) > self.due(question) else (rest, waiting)
            woven += list(islice(first, 1)) or list(islice(second, 1))
        return woven
