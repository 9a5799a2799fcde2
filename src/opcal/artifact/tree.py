"""Values to JSON and arrays and back: only the frozen dataclasses listed here, numbers, texts and arrays.

A class is found by its name in `KINDS`, never imported by what a file says.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from numbers import Integral
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from opcal.artifact.container import Arrays
from opcal.artifact.scorers import KINDS

NAMES = {kind: name for name, kind in KINDS.items()}
DEEPEST = 12
LARGEST = 1e150
POSITIVE = {"length", "median_b", "median_z"}
MOST_CLASSES = 10**6
SHAPES: dict[str, dict[str, str]] = {
    "Projection": {"mean": "d", "basis": "d r", "scale": "r"},
    "Prototypes": {"places": "K *"},
    "FieldKernel": {"mean": "d"},
    "Places": {"centred": "n d", "whitened": "n r"},
    "Seen": {
        **{"centred": "n d", "whitened": "n r", "logits": "n K", "near_b": "n K", "near_z": "n K"},
        **{"predicted": "n", "trend": "n 3"},
    },
    "Fit": {"pulls": "2", "trend": "3", "offsets": "K", "alpha": "n K"},
    "Spread": {"whiten": "m m", "root": "f f"},
    "Doubt": {"root": "3 3"},
    "Laplace": {"slope": "n", "root": "n", "lower": "n n"},
    "Solved": {"alpha": "n K", "solve": "n n"},
    "Fitted": {"points": "n d", "weights": "n", "root": "n n", "noise": "n"},
    "Clustered": {"centre": "d", "points": "L d", "medoids": "L d"},
    "Gains": {"values": "a k *"},
    "Fence": {"mean": "d", "scale": "d", "rows": "n d", "known": "m"},
}
EVERYWHERE = {"d", "K"}
"""Sizes that are one number in a whole artefact; the others belong to the object that they are found in."""


class Encoder:
    """Equal arrays are stored once."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._name_of: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def __call__(self, value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            return {"kind": NAMES[type(value)]} | {f.name: self(getattr(value, f.name)) for f in fields(value)}
        if isinstance(value, np.ndarray):
            return {"array": self._stored(value)}
        if isinstance(value, np.dtype):
            return {"dtype": value.name}
        if isinstance(value, (tuple, list)):
            return [self(part) for part in value]
        if value is None or isinstance(value, (str, bool)):
            return value
        return int(value) if isinstance(value, Integral) else float(value)

    def _stored(self, array: np.ndarray[Any, Any]) -> str:
        kept = np.ascontiguousarray(array, np.int64 if array.dtype.kind == "i" else None)
        key = kept.dtype.name, kept.shape, kept.tobytes()
        name = self._name_of.setdefault(key, f"a{len(self._name_of)}")
        self.arrays[name] = kept
        return name


class Decoder:
    """Raises whatever comes; the reader turns it into an `ArtifactError`."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self.sizes: dict[str, int] = {}
        self._shared: dict[str, Any] = {}

    def __call__(self, spec: Any, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise ValueError("its description is nested too deeply")
        if isinstance(spec, list):
            return tuple(self(part, depth + 1) for part in spec)
        if not isinstance(spec, dict):
            return spec
        if spec.keys() == {"array"}:
            return self._arrays[spec["array"]]
        if spec.keys() == {"dtype"}:
            return {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}[spec["dtype"]]
        return self._object(dict(spec), depth)

    def _object(self, spec: dict[str, Any], depth: int) -> Any:
        name = spec.pop("kind")
        kind = KINDS[name]
        known = {f.name: f.default is MISSING for f in fields(kind)}
        if not spec.keys() <= known.keys() or any(needed and part not in spec for part, needed in known.items()):
            raise ValueError(f"its {name} has other parts than this opcal knows")
        parts = {key: self(value, depth + 1) for key, value in spec.items()}
        for key, hint in _hints(kind).items():
            if key in parts and not _fits(parts[key], hint):
                raise ValueError(f"{key} of its {name} is a {type(parts[key]).__name__}")
        self._check(name, parts)
        return kind(**parts)

    def _check(self, name: str, parts: dict[str, Any]) -> None:
        if any(parts[key] < 1 / LARGEST for key in POSITIVE & parts.keys()):
            raise ValueError(f"its {name} holds a length of 0")
        mine: dict[str, int] = {}
        if "classes" in parts and parts["classes"] != self.sizes.setdefault("K", _classes(parts["classes"])):
            raise ValueError(f"{name} knows {parts['classes']} classes")
        for field, shape in SHAPES.get(name, {}).items():
            array, wanted = parts[field], shape.split()
            if not isinstance(array, np.ndarray) or array.ndim != len(wanted):
                raise ValueError(f"{field} of {name} is no array of {len(wanted)} dimensions")
            for symbol, size in zip(wanted, array.shape, strict=True):
                scope = self.sizes if symbol in EVERYWHERE else mine
                if symbol != "*" and size != (int(symbol) if symbol.isdigit() else scope.setdefault(symbol, size)):
                    raise ValueError(f"{field} of {name} has shape {array.shape}")


def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that the dataclass declares."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(part, get_args(hint)[0]) for part in value)
    if origin is not None:
        return isinstance(value, origin)
    if hint is float:
        return type(value) in (int, float) and abs(value) < LARGEST
    return type(value) is int if hint is int else isinstance(value, hint)


def _classes(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MOST_CLASSES:
        raise ValueError(f"classes is {value!r}")
    return value
