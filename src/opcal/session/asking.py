"""The queue of questions: refilled ahead of time by the calibrator, away from the requests that save answers."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

from opcal.pool import Pool
from opcal.session import log
from opcal.session.replay import Replay
from opcal.session.snapshots import Snapshot, snapshot
from opcal.session.standing import Settled, Standing, opinions_wanted
from opcal.session.store import Store

if TYPE_CHECKING:
    from opcal.calibrator import OperationalCalibrator

TIES = 4
"""Of so many items with several opinions, one may be tied."""


class Asker:
    """Asks the calibrator for more questions; one thread of the process at a time."""

    def __init__(self, store: Store, replay: Replay) -> None:
        self._store, self._replay = store, replay
        self._lock = RLock()
        self._working: tuple[OperationalCalibrator, tuple[Settled, ...], Pool] | None = None

    def refill(self, annotator: str | None, wanted: int) -> int:
        """Have `wanted` questions in the queue that this annotator (anybody, for None) may answer.

        Gives the number of the last event that asked: the same as before where the budget or the pool ends.
        """
        with self._lock:
            while True:
                with self._store.standing() as standing:
                    k, at = _lacking(standing, annotator, wanted), snapshot(standing)
                entries = self._chosen(self._follow(at), k, at.places) if k else []
                if not entries:
                    return at.asked_seq
                if asked := self._put(at, entries):
                    return asked
                self._working = None  # another process asked meanwhile, or took the last places: look again

    def _put(self, at: Snapshot, entries: list[log.Entry]) -> int:
        """The number of the last of these events; 0 where they no longer fit."""
        with self._store.step() as (connection, now):
            places = now.places
            room = places is None or sum(e.data["wanted"] for e in entries) <= places
            if now.asked_seq != at.asked_seq or not room:
                return 0
            return log.append(connection, entries)[-1].seq

    def _follow(self, at: Snapshot) -> OperationalCalibrator:
        """The calibrator that knows all settled answers and all questions so far."""
        calibrator, told, pool = self._working or (self._replay.fresh(at), (), self._replay.pool)
        if at.settled[: len(told)] != told or pool is not self._replay.pool:
            calibrator, told = self._replay.fresh(at), ()
        self._replay.tell(calibrator, at.settled[len(told) :])
        resume(calibrator, at)
        self._working = calibrator, at.settled, self._replay.pool
        return calibrator

    def _chosen(self, calibrator: OperationalCalibrator, k: int, places: int | None) -> list[log.Entry]:
        settings, pool = self._store.settings, self._replay.pool
        if places is not None and settings.overlap > 0:
            each = settings.opinions + (1 / TIES if settings.disputes == "vote" else 0)
            k = max(1, min(k, int(places / each)))
        before = len(calibrator.walked_)
        at = calibrator.ask(k)
        walk, drawn = calibrator.walked_, calibrator.inclusion(at)
        passed = [p for p in walk[before:].tolist() if p not in set(at.tolist())]
        entries: list[log.Entry] = []
        left = places
        for position, share in zip(at.tolist(), drawn.tolist(), strict=True):
            item = pool.id_of(position)
            wanted = opinions_wanted(settings, item)
            wanted = wanted if left is None else min(wanted, left)
            left = None if left is None else left - wanted
            data = {
                "purpose": "audit" if share else "chosen",
                "inclusion": share or 1.0,
                "wanted": wanted,
                "walked": len(walk),
                "predicted": int(pool.predicted[position]),
            } | ({"passed": passed} if not entries and passed else {})
            entries.append(log.Entry("ask", "", None, item, position, data=data))
        return entries


def resume(calibrator: OperationalCalibrator, at: Snapshot) -> None:
    """Questions without an answer are pending; those that somebody could not tell are not asked again."""
    calibrator.resume(np.array(at.asked, dtype=np.intp), asked=at.live, walked=at.walked)


def _lacking(standing: Standing, annotator: str | None, wanted: int) -> int:
    """How many questions to add, by what the queue holds and the budget allows."""
    ready = standing.missing if annotator is None else len(standing.open(annotator))
    lacking = max(0, wanted - ready)
    return lacking if standing.places is None else max(0, min(lacking, standing.places - _kept_back(standing)))


def _kept_back(standing: Standing) -> int:
    """Places for the ties that may still come: one for four items that wait for their further opinions."""
    if standing.settings.disputes != "vote":
        return 0
    return -(-sum(1 for q in standing.open_questions() if q.planned > 1) // TIES)
