"""Before the first label: how many it will take, and a draw that is stratified by confidence."""

from __future__ import annotations

import numpy as np

from opcal.core import plan, strata
from opcal.core.checks import within
from opcal.core.strata import Drawn
from opcal.errors import InvalidInput
from opcal.pool import Pool


def planned(pool: Pool, points: float = 3, *, level: float = 0.95, accuracy: float | None = None) -> int:
    """Labels, drawn at random, until the accuracy's interval is about ± so many percentage points.

    Without any idea of the accuracy it plans for the worst case, one half; predictions will save some of these labels.
    """
    expected = 0.5 if accuracy is None else within(accuracy, "accuracy", 0, 1)
    share = min(max(expected, 0.01), 0.99)
    return plan.labels_for(within(points, "points", 0.01, 100) / 100, share, share * (1 - share), len(pool), level)


def stratified_draw(pool: Pool, n: int, *, strata_wanted: int = 5, random_state: int = 0) -> Drawn:
    """n positions drawn at random within strata of the model's confidence, more of them where it doubts.

    Pass `.inclusion` to `accuracy(pool, drawn.positions, labels=..., inclusion=drawn.inclusion)`.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 2 <= n <= len(pool):
        raise InvalidInput(f"n is {n!r}: expected how many items to draw, from 2 to {len(pool)}")
    return strata.draw(pool.confidence, int(n), strata_wanted, np.random.default_rng(random_state))
