"""The calibrator as a pure function of pool and log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import groupby
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

from opcal.core.method import WRONG
from opcal.pool import Pool
from opcal.session.options import costs_of
from opcal.session.snapshots import Snapshot
from opcal.session.standing import Settled
from opcal.session.values import Settings

if TYPE_CHECKING:
    from opcal.calibrator import OperationalCalibrator

LEAST = 1e-6
"""Weight of a label that is counted but teaches nothing."""
SHOWN = 1000
"""Pool rows whose confidence enters the digest."""


class Replay:
    """Makes calibrators that share what was prepared on the pool."""

    def __init__(self, settings: Settings, pool: Callable[[], Pool]) -> None:
        self._settings, self._pool = settings, pool
        self._lock = RLock()
        self._base: tuple[OperationalCalibrator, Pool, tuple[tuple[int, int], ...]] | None = None

    @property
    def pool(self) -> Pool:
        return self._pool()

    def fresh(self, at: Snapshot) -> OperationalCalibrator:
        """A calibrator on the items of that moment that was told nothing yet."""
        with self._lock:
            pool = self.pool
            if self._base is None or self._base[1:] != (pool, at.parts):
                # Items that were added since that moment are in the pool already.
                self._base = self._begun(first(pool, at.items), at.parts), pool, at.parts
            return self._base[0].anew()

    def _begun(self, pool: Pool, parts: tuple[tuple[int, int], ...]) -> OperationalCalibrator:
        """Begun on the first items, then extended part by part with the audit where it had come to."""
        from opcal.calibrator import OperationalCalibrator

        s = self._settings
        made = OperationalCalibrator(
            s.method, s.design, threshold=s.threshold, costs=costs_of(s), audit=s.audit, random_state=s.seed
        )
        n = len(pool) - sum(added for added, _ in parts)
        made.begin(first(pool, n), s.budget)
        for added, walked in parts:
            n += added
            made.resume([], asked=0, walked=walked).extend(first(pool, n))
        return made

    def tell(self, calibrator: OperationalCalibrator, settled: Sequence[Settled]) -> None:
        """In order; runs of "wrong without its class" apart from runs of labels."""
        for wrong, run in groupby(settled, key=lambda s: s.label == WRONG):
            part = list(run)
            at = np.array([s.position for s in part], dtype=np.intp)
            drawn = np.array([s.drawn for s in part], dtype=bool)
            said = (
                {"correct": np.zeros(len(at), dtype=bool)}
                if wrong
                else {"labels": np.array([s.label for s in part], dtype=np.intp)}
            )
            weight = np.array([max(s.weight, LEAST) for s in part])
            full = bool((weight == 1).all())
            calibrator.tell(at, audit=drawn, **said, **({} if full else {"weight": weight}))


def first(pool: Pool, n: int) -> Pool:
    """The first n items, arrays shared."""
    if n == len(pool):
        return pool
    return Pool(
        pool.outputs.take(slice(0, n)),
        pool.classes,
        None if pool.payload is None else pool.payload[:n],
        {name: values[:n] for name, values in pool.columns.items()},
        pool.model,
        None if pool.given_ids is None else pool.given_ids[:n],
    )


def digest(calibrator: OperationalCalibrator) -> str:
    """One text that is the same for two calibrators exactly when they know the same and say the same."""
    answers, pool = calibrator.answers_, calibrator.pool_
    rows = np.unique(np.linspace(0, len(pool) - 1, min(len(pool), SHOWN)).astype(np.intp))
    parts = (
        answers.positions.astype(np.int64),
        answers.labels.astype(np.int64),
        calibrator.audit_,
        calibrator.confidence(pool.take(rows)),
    )
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + np.ascontiguousarray(part).tobytes())
    return found.hexdigest()
