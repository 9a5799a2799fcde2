"""Two pools of one model as one, and items whose payload or features are erased."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from opcal.core.method import FloatArray, IntArray, Outputs
from opcal.errors import DuplicateIds, IncompatiblePool, InvalidInput
from opcal.pool.pool import Pool


def joined(first: Pool, second: Pool) -> Pool:
    """The items of the first pool, then those of the second; positions of the first stay."""
    _refuse_other_model(first, second)
    both = [first.outputs, second.outputs]
    logits = None if first.logits is None else np.concatenate([x.logits for x in both if x.logits is not None])
    outputs = Outputs(
        np.concatenate([x.features for x in both]),
        np.concatenate([x.confidence for x in both]),
        np.concatenate([x.predicted for x in both]),
        logits,
        first.head,
    )
    payload = None
    if first.payload is not None or second.payload is not None:
        payload = [*(first.payload or [None] * len(first)), *(second.payload or [None] * len(second))]
    columns = {
        name: [*first.columns.get(name, [None] * len(first)), *second.columns.get(name, [None] * len(second))]
        for name in [*first.columns, *(name for name in second.columns if name not in first.columns)]
    }
    return Pool(outputs, first.classes, payload, columns, first.model, _ids(first, second))


def erased(pool: Pool, positions: IntArray, *, features: bool) -> Pool:
    """The pool without the payload and the user's columns of some items, and without their features where asked.

    Features become the mean of the other items, logits those that say nothing but the prediction and its confidence.
    """
    gone = set(positions.tolist())
    payload = None if pool.payload is None else _without(pool.payload, gone)
    columns = {name: _without(values, gone) for name, values in pool.columns.items()}
    outputs = _blurred(pool.outputs, positions) if features else pool.outputs
    return replace(pool, outputs=outputs, payload=payload, columns=columns)


def _without(values: list[Any], gone: set[int]) -> list[Any]:
    return [None if i in gone else value for i, value in enumerate(values)]


def _blurred(outputs: Outputs, positions: IntArray) -> Outputs:
    kept = np.ones(len(outputs), dtype=bool)
    kept[positions] = False
    if not kept.any():
        raise InvalidInput(
            "every item would lose its features: nothing would be left to calibrate with; end the session"
        )
    features = np.array(outputs.features)
    features[positions] = features[kept].mean(0)
    logits = None if outputs.logits is None else np.array(outputs.logits)
    if logits is not None:
        logits[positions] = _plain_logits(outputs.confidence[positions], outputs.predicted[positions], logits.shape[1])
    return replace(outputs, features=features, logits=logits)


def _plain_logits(confidence: FloatArray, predicted: IntArray, classes: int) -> FloatArray:
    """Logits [n, K] that are 0 but for the predicted class and give back the confidence."""
    c = np.clip(confidence, 1 / classes, 1 - 1e-12)
    found = np.zeros((len(c), classes))
    found[np.arange(len(c)), predicted] = np.log(c * (classes - 1) / (1 - c))
    return found


def _refuse_other_model(first: Pool, second: Pool) -> None:
    mine, other = _layout(first), _layout(second)
    if mine != other:
        raise IncompatiblePool(f"the new items have {other}, the pool has {mine}: pass outputs of the same model")
    if first.classes is not None and second.classes not in (None, first.classes):
        raise IncompatiblePool("the new items have other class names, or another order of them, than the pool")


def _layout(pool: Pool) -> str:
    logits = "no logits" if pool.logits is None else f"logits of {pool.logits.shape[1]} classes"
    return f"{pool.features.shape[1]} features and {logits}"


def _ids(first: Pool, second: Pool) -> list[str] | None:
    """Row numbers go on where neither pool has ids of its own."""
    if first.given_ids is None and second.given_ids is None:
        return None
    if second.given_ids is None:
        raise InvalidInput("the new items have no ids but the pool's items have: give them ids= of their own")
    known = set(first.ids)
    twice = [i for i in second.given_ids if i in known]
    if twice:
        raise DuplicateIds(
            f"{len(twice)} of the new items are in the pool already, the first is {twice[0]!r}: leave them out"
        )
    return [*first.ids, *second.given_ids]
