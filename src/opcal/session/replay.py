"""The calibrator as a pure function of pool and log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import groupby
from threading import RLock

import numpy as np

from opcal.calibrator import OperationalCalibrator
from opcal.core.method import WRONG
from opcal.pool import Pool
from opcal.session.standing import Settled
from opcal.session.values import Settings

SHOWN = 1000
"""Pool rows whose confidence enters the digest."""


class Replay:
    """Makes calibrators that share what was prepared on the pool."""

    def __init__(self, settings: Settings, pool: Callable[[], Pool]) -> None:
        self._settings, self._pool = settings, pool
        self._lock = RLock()
        self._base: OperationalCalibrator | None = None

    @property
    def pool(self) -> Pool:
        return self._pool()

    def fresh(self) -> OperationalCalibrator:
        """A calibrator that was told nothing yet."""
        s = self._settings
        with self._lock:
            if self._base is None:
                base = OperationalCalibrator(
                    s.method, s.design, threshold=s.threshold, costs=s.costs, audit=s.audit, random_state=s.seed
                )
                self._base = base.begin(self.pool, s.budget)
            return self._base.anew()

    def tell(self, calibrator: OperationalCalibrator, settled: Sequence[Settled]) -> None:
        """In order; runs of "wrong without its class" apart from runs of labels."""
        for wrong, run in groupby(settled, key=lambda s: s.label == WRONG):
            part = list(run)
            at = np.array([s.position for s in part], dtype=np.intp)
            drawn = np.array([s.drawn for s in part], dtype=bool)
            if wrong:
                calibrator.tell(at, correct=np.zeros(len(at), dtype=bool), audit=drawn)
            else:
                calibrator.tell(at, labels=np.array([s.label for s in part], dtype=np.intp), audit=drawn)


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
