"""What several opinions on one item come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from opcal.core.method import WRONG

TIE = -3
"""Opinions that do not settle the item."""


def outcome(labels: Sequence[int], predicted: int | None) -> int:
    """The label with most votes, or TIE. "Wrong" speaks for every class but the predicted one."""
    if len(set(labels)) == 1:
        return labels[0]
    if WRONG not in labels:
        return _most(labels)
    against = [label for label in labels if label != predicted]
    right = len(labels) - len(against)
    if right == len(against):
        return TIE
    if right > len(against):
        assert predicted is not None
        return predicted
    named = [label for label in against if label != WRONG]
    if not named:
        return WRONG
    best = _most(named)
    return WRONG if best == TIE else best


def _most(labels: Sequence[int]) -> int:
    (first, votes), *others = Counter(labels).most_common()
    return TIE if others and others[0][1] == votes else first
