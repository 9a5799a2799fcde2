"""The next round: the new field, with the old labels beside it, each as much as it still says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opcal._threads import one_thread
from opcal.answers import CARRIED
from opcal.calibrator import OperationalCalibrator
from opcal.core.fence import Fence
from opcal.core.kernels import squared_distances
from opcal.core.method import WRONG, Answers, FloatArray, IntArray
from opcal.errors import InvalidInput
from opcal.pool import Pool

NEIGHBOURS = 25
LEAST = 0.05
HALF_LIFE = 365.0
"""Days after which a label counts half."""


@dataclass(frozen=True)
class NextRound:
    """A pool of the new items with the labelled ones of before at its end, and their answers."""

    pool: Pool
    positions: IntArray
    """Of the items brought along."""
    answers: Answers
    """Theirs, by position in the new pool; weights are the pool's own."""
    weight: FloatArray

    def begin(self, like: OperationalCalibrator, budget: int | None = None) -> OperationalCalibrator:
        """A calibrator with the settings of `like` on the new field, told the old labels."""
        made = type(like)(**like.get_params()).begin(self.pool, budget)
        wrong = self.answers.labels == WRONG
        for rows, said in ((wrong, "correct"), (~wrong, "labels")):
            if rows.any():
                told = np.zeros(int(rows.sum()), bool) if said == "correct" else self.answers.labels[rows]
                made.tell(self.positions[rows], audit=np.zeros(len(told), bool), **{said: told})
        return made


def next_round(
    calibrator: OperationalCalibrator,
    pool: Pool,
    *,
    days: Sequence[float] | FloatArray | None = None,
    half_life: float = HALF_LIFE,
) -> NextRound:
    """Bring a calibrator's labels along to a new field. `days` is the age of each of its answers.

    A label weighs what it did, times ½ for each half-life, times how much its region is still visited: twice the share
    of new items among its 25 nearest, were both fields of one size, at most 1.
    """
    calibrator.posterior(pool.take([0]))  # refuses a pool of another model
    if half_life <= 0:
        raise InvalidInput(f"half_life is {half_life}: expected a number of days above 0")
    answers, old = calibrator.answers_, calibrator.pool_
    age = np.zeros(len(answers)) if days is None else np.asarray(days, np.float64)
    if age.shape != (len(answers),):
        raise InvalidInput(f"days has shape {age.shape} for {len(answers)} answers: pass one age for each")
    weight = answers.weight * 0.5 ** (np.maximum(age, 0) / half_life) * still_visited(calibrator, pool)
    weight = np.clip(weight, LEAST, 1.0)
    positions = len(pool) + np.arange(len(answers))
    moved = Answers(positions, answers.labels, answers.correct, weight)
    return NextRound(_joined(pool, old, answers.positions, weight), positions, moved, weight)


def still_visited(calibrator: OperationalCalibrator, pool: Pool) -> FloatArray:
    """For each answered item, min(1, 2 · share of new items among its nearest, fields weighed alike) [n]."""
    field, answers = calibrator.field_, calibrator.answers_
    if not len(answers):
        return np.empty(0)
    rng = field.generator("region")
    with one_thread():
        fence = Fence.of(field.pool.features, rng, 1)
        sides = [fence.space(_some(z, rng)) for z in (field.pool.features, pool.features)]
        both = np.vstack(sides)
        d2 = squared_distances(fence.space(np.asarray(field.pool.features[answers.positions])), both)
    nearest = np.argsort(d2, axis=1, kind="stable")[:, : NEIGHBOURS + 1]
    is_new = nearest >= len(sides[0])
    new = is_new.sum(1) / len(sides[1])
    old = np.maximum((~is_new).sum(1) - 1, 0) / len(sides[0])  # it is its own nearest
    share: FloatArray = new / np.maximum(new + old, 1e-12)
    return np.minimum(1.0, 2 * share)


def _some(features: FloatArray, rng: np.random.Generator, most: int = 4000) -> FloatArray:
    if len(features) <= most:
        return np.asarray(features)
    return np.asarray(features[np.sort(rng.choice(len(features), most, replace=False))])


def _joined(new: Pool, old: Pool, rows: IntArray, weight: FloatArray) -> Pool:
    """The new items, then these old ones, under other ids and with their weights in a column."""
    if not len(rows):
        return new
    names = {*new.columns, *old.columns} - {CARRIED}
    columns: dict[str, list[Any]] = {
        name: _column(new, name) + [_column(old, name)[i] for i in rows.tolist()] for name in sorted(names)
    }
    columns[CARRIED] = [None] * len(new) + weight.tolist()
    logits = None if new.logits is None or old.logits is None else np.vstack([new.logits, old.logits[rows]])
    said = (
        {"logits": logits}
        if logits is not None
        else {
            "confidence": np.concatenate([new.confidence, old.confidence[rows]]),
            "predicted": np.concatenate([new.predicted, old.predicted[rows]]),
        }
    )
    taken = set(new.ids)
    return Pool.from_arrays(
        np.vstack([new.features, old.features[rows]]),
        ids=[*new.ids, *(_free(f"earlier/{old.id_of(i)}", taken) for i in rows.tolist())],
        payload=[*(new.payload or [None] * len(new)), *((old.payload or [None] * len(old))[i] for i in rows.tolist())],
        classes=new.classes,
        head=new.head,
        columns=columns,
        model=new.model,
        **said,
    )


def _column(pool: Pool, name: str) -> list[Any]:
    return pool.columns.get(name, [None] * len(pool))


def _free(id: str, taken: set[str]) -> str:
    while id in taken:
        id = f"earlier/{id}"
    taken.add(id)
    return id
