"""How fast people label, read off the log: how long is left."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from opcal.session import Event

KEPT = 20
PAUSE = 120.0
"""A longer gap is a break and says nothing about the pace."""
RECENT = 300.0
"""Who answered within so many seconds is at work."""


@dataclass
class Pace:
    """Fed with the log's events once, in order."""

    seen: int = 0
    _last: dict[str, float] = field(default_factory=dict)
    _gaps: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    def take(self, events: Iterable[Event]) -> bool:
        """Whether there was any."""
        before = self.seen
        for event in events:
            self.seen = event.seq
            if event.kind in ("answer", "skip") and event.annotator and "given" not in event.data:
                now = datetime.fromisoformat(event.at).timestamp()
                gap = now - self._last.get(event.annotator, -PAUSE)
                if 0 <= gap < PAUSE:
                    self._gaps.append(gap)
                self._last[event.annotator] = now
        return self.seen > before

    def seconds_left(self, answers: int | None, now: float | None = None) -> float | None:
        """For so many answers at the pace of the last ones by all who are at work; None while nobody can say."""
        if answers is None or len(self._gaps) < 3:
            return None
        now = datetime.now(UTC).timestamp() if now is None else now
        at_work = sum(now - last < RECENT for last in self._last.values())
        return answers * median(self._gaps) / max(1, at_work)
