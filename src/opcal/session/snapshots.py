"""What the calibrator is told of a session at one moment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opcal.session.opinions import weights
from opcal.session.standing import Settled, Standing


@dataclass(frozen=True)
class Snapshot:
    """A pure function of the log; nobody changes it."""

    seq: int
    settled: tuple[Settled, ...]
    asked: tuple[int, ...]
    """Positions asked for, in order."""
    live: int
    """How many of them were not given up."""
    walked: int
    places: int | None
    asked_seq: int
    """Number of the last event that asked."""
    items: int
    parts: tuple[tuple[int, int], ...]
    """Items added later: how many, and how far the audit had walked then."""


def snapshot(standing: Standing) -> Snapshot:
    settled = standing.settled()
    weighed = tuple(
        replace(label, weight=0.0 if label.position in standing.erased else weight)
        for label, weight in zip(settled, weights(standing, settled), strict=True)
    )
    questions = standing.questions
    asked = tuple(sorted(questions, key=lambda p: questions[p].seq))
    live = sum(1 for q in questions.values() if not (q.retired and q.filled == 0))
    return Snapshot(
        standing.seq,
        weighed,
        asked,
        live,
        standing.walked,
        standing.places,
        standing.asked_seq,
        sum(count for count, _ in standing.arrivals),
        tuple(standing.parts),
    )
