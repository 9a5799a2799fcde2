"""Requests to arrays and answers to bytes, every number checked: JSON for one item or some, safetensors for many."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opcal.artifact.artifact import Judged
from opcal.artifact.manifest import Layout
from opcal.core.method import Outputs
from opcal.errors import InvalidInput, OpcalError
from opcal.pool import Pool

BINARY = "application/vnd.safetensors"
KNOWN = {"features", "logits", "confidence", "predicted", "costs", "threshold"}


@dataclass(frozen=True)
class Asked:
    """A request, checked."""

    pool: Pool
    one: bool
    threshold: float | None
    costs: Any

    @property
    def rows(self) -> Outputs:
        return self.pool.outputs


def read(body: bytes, kind: str, layout: Layout) -> Asked:
    """The items of a request; anything else is an `InvalidInput` that says what was expected."""
    given = _binary(body) if kind.partition(";")[0].strip().lower() == BINARY else _json(body)
    if unknown := given.keys() - KNOWN:
        raise InvalidInput(f"the request holds {sorted(unknown)[0]!r}: known are {', '.join(sorted(KNOWN))}")
    if "features" not in given:
        raise InvalidInput(f"features is missing: the artefact was made for {layout}")
    threshold = given.pop("threshold", None)
    if threshold is not None and (type(threshold) not in (int, float) or not 0 <= threshold <= 1):
        raise InvalidInput(f"threshold is {threshold!r}: expected a number in [0, 1]")
    costs = given.pop("costs", None)
    arrays: dict[str, Any] = {name: _array(name, value) for name, value in given.items()}
    one = arrays["features"].ndim == 1
    if one:
        arrays = {name: a[None] for name, a in arrays.items()}
    try:
        pool = Pool.from_arrays(arrays.pop("features"), **arrays)
    except TypeError as error:
        raise InvalidInput(str(error)) from error
    layout.refuse_other(pool)
    return Asked(pool, one, threshold, costs)


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = _parsed(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the body is no JSON ({error}): send features and logits, or {BINARY}") from error
    if not isinstance(found, dict):
        raise InvalidInput('the body is no object: expected {"features": [...], "logits": [...]}')
    return found


def _parsed(body: bytes) -> Any:
    """By orjson where it is installed; what that refuses is left to Python's own reader, so that both say the same."""
    try:
        import orjson

        return orjson.loads(body)
    except (ImportError, ValueError):
        return json.loads(body)


def _binary(body: bytes) -> dict[str, Any]:
    from safetensors.numpy import load

    try:
        return dict(load(body))
    except Exception as error:  # a header from outside breaks its reader in every way
        raise InvalidInput(f"the body is no safetensors ({str(error)[:100]})") from error


def _array(name: str, value: Any) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} is ragged: one number or row for each item ({error})") from None
    if array.dtype.kind not in "fiu" or array.size == 0:
        raise InvalidInput(f"{name} holds {array.dtype}, {array.size} values: expected numbers")
    # JSON numbers are what a float32 model printed: in single precision they are those numbers again.
    return array.astype(np.float32) if name in ("features", "logits") and not isinstance(value, np.ndarray) else array


def columns(asked: Asked, judged: Judged, digest: str, classes: tuple[str, ...] | None) -> dict[str, Any]:
    """The answer, one value an item or one value."""
    table: dict[str, Any] = {
        "confidence": judged.confidence,
        "sd": judged.sd,
        "above": judged.above,
        "act": judged.act,
        "outside": judged.outside,
        "predicted": asked.rows.predicted,
    }
    found = {name: values.tolist() for name, values in table.items()}
    if classes is not None:
        found["label"] = [classes[i] if i < len(classes) else None for i in found["predicted"]]
    return single(found, asked.one) | {"artifact": digest}


def single(table: dict[str, Any], one: bool) -> dict[str, Any]:
    return {name: values[0] for name, values in table.items()} if one else table


def packed(asked: Asked, judged: Judged) -> bytes:
    from safetensors.numpy import save

    arrays = {"confidence": judged.confidence, "sd": judged.sd, "above": judged.above}
    flags = {"act": judged.act, "outside": judged.outside}
    whole = {"predicted": asked.rows.predicted.astype(np.int64)}
    kept = {name: np.ascontiguousarray(array) for name, array in {**arrays, **flags, **whole}.items()}
    stored: bytes = save(kept)
    return stored


def why(error: OpcalError) -> dict[str, str]:
    return {"error": str(error), "kind": type(error).__name__}
