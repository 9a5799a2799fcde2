"""The assignment of items to actions with the greatest expected gain, capacities met exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opcal.core.method import FloatArray, IntArray
from opcal.errors import InvalidInput


def decide(values: FloatArray, capacities: Sequence[int | None]) -> IntArray:
    """The best action of each item, [N], from the expected gains [N, actions]; ties go to the earlier action.

    `capacities` says how many items an action takes at most, None for any number.
    """
    n, actions = values.shape
    limits = [n if c is None else min(int(c), n) for c in capacities]
    if len(limits) != actions:
        raise InvalidInput(f"capacities has {len(limits)} entries for {actions} actions: pass one for each, or None")
    if min(limits, default=0) < 0:
        raise InvalidInput("a capacity is negative: expected 0 or more, or None")
    if sum(limits) < n:
        raise InvalidInput(f"all capacities together take {sum(limits)} of {n} items: leave one action unlimited")
    free = values.argmax(1)
    over = np.bincount(free, minlength=actions) > np.array(limits)
    if not over.any():
        return np.asarray(free, np.intp)
    tight = [a for a in range(actions) if limits[a] < n]
    return _one_limit(values, tight[0], limits[tight[0]]) if len(tight) == 1 else _many_limits(values, limits)


def _one_limit(values: FloatArray, action: int, limit: int) -> IntArray:
    """Those that gain most by the scarce action get it; all others take their best."""
    others = values.copy()
    others[:, action] = -np.inf
    chosen = others.argmax(1)
    advantage = values[:, action] - others.max(1)
    first = np.argsort(-advantage, kind="stable")[:limit]
    chosen[first[advantage[first] >= 0]] = action
    return np.asarray(chosen, np.intp)


def _many_limits(values: FloatArray, limits: list[int]) -> IntArray:
    """A transport problem, which has a whole-numbered best corner; solved as a linear programme with whole numbers."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    n, actions = values.shape
    scarce = [a for a in range(actions) if limits[a] < n]
    used = (np.arange(n)[None, :] * actions + np.array(scarce)[:, None]).ravel()
    columns = np.concatenate([np.arange(n * actions), used])
    rows = np.concatenate([np.repeat(np.arange(n), actions), n + np.repeat(np.arange(len(scarce)), n)])
    table = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n + len(scarce), n * actions))
    most = np.array([1.0] * n + [float(limits[a]) for a in scarce])
    least = np.array([1.0] * n + [0.0] * len(scarce))
    rules = LinearConstraint(table, least, most)
    found = milp(-values.ravel(), integrality=np.ones(n * actions, np.intp), bounds=Bounds(0, 1), constraints=rules)
    if found.x is None:
        raise InvalidInput(f"no assignment of the items to the actions was found: {found.message}")
    return np.asarray(found.x.reshape(n, actions).argmax(1), np.intp)


@dataclass(frozen=True)
class GainCurve:
    """Mean gain per item of acting on the m best items, m = 0..N, everything else going its next best way."""

    items: IntArray  # [points]
    expected: FloatArray  # [points]
    regret: FloatArray  # [points], what knowing which predictions are right would bring more
    best: int
    """Where the expected gain is greatest."""


def gain_curve(values: FloatArray, perfect: FloatArray, points: int = 101) -> GainCurve:
    """Expected gain against how many predictions are acted on; the first action is acting.

    `perfect` [N] is each item's expected gain if one knew whether its prediction is right.
    """
    other = values[:, 1:].max(1)
    advantage = np.sort(values[:, 0] - other)[::-1]
    gains = (other.sum() + np.append(0.0, np.cumsum(advantage))) / len(values)
    at = np.unique(np.linspace(0, len(values), points).round().astype(np.intp))
    return GainCurve(at, gains[at], perfect.mean() - gains[at], int(gains.argmax()))
