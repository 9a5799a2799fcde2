"""What acting, asking a person and rejecting are worth: from a YAML or JSON file to decisions.

    gain: 1                          # of acting on a right prediction: a number, or one for each class
    loss: {NORMAL: 50, PNEUMONIA: 2} # of acting on a wrong one: a number, by predicted class, or by predicted and true
    capacity: 1000                   # optional: act on at most so many
    actions:                         # besides acting; without them: reject, worth 0
      person: {cost: 0.5, accuracy: 0.98, capacity: 50}
      second model: {cost: 0.1, accuracy: 0.9}
      reject: {gain: 0}

`u: 9` alone is the simple case: a right prediction gains 1, a wrong one loses u.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opcal.core.assess import plain as uniform_estimate
from opcal.core.cost_matrix import Action, CostMatrix, others_by_softmax, with_accuracy
from opcal.core.costs import Costs
from opcal.core.decide import GainCurve, decide, gain_curve
from opcal.core.method import FloatArray, IntArray
from opcal.errors import InvalidCosts, MissingDependency
from opcal.pool import Pool

__all__ = [
    "Action",
    "CostMatrix",
    "Costs",
    "Decisions",
    "Measured",
    "as_dict",
    "class_list",
    "decisions",
    "from_dict",
    "load",
    "measured",
    "of_pool",
    "read",
]

KNOWN = ("u", "gain", "loss", "capacity", "actions", "classes")
KNOWN_OF_MATRIX = ("act", "others", "capacity")
KNOWN_OF_ACTION = ("gain", "cost", "accuracy", "capacity")


@dataclass(frozen=True, eq=False)
class Decisions:
    """What to do with each item of a pool."""

    action: IntArray  # [N], an index of `names`; 0 is acting on the prediction
    names: tuple[str, ...]
    expected: FloatArray  # [N], the expected gain of the action taken
    curve: GainCurve

    @property
    def counts(self) -> dict[str, int]:
        return dict(zip(self.names, np.bincount(self.action, minlength=len(self.names)).tolist(), strict=True))


def decisions(costs: CostMatrix | Costs | float, pool: Pool, conf: ArrayLike) -> Decisions:
    """The actions with the greatest expected gain for calibrated confidences `conf` [N]; capacities are met exactly."""
    matrix = of_pool(costs, pool)
    wrong = None if pool.logits is None else others_by_softmax(pool.logits, pool.predicted)
    values = matrix.values(conf, pool.predicted, wrong)
    right, false = (found.max(1) for found in matrix.right_and_false(pool.predicted, wrong))
    c = np.asarray(conf, np.float64)
    action = decide(values, matrix.capacities)
    curve = gain_curve(values, c * right + (1 - c) * false)
    return Decisions(action, matrix.names, values[np.arange(len(values)), action], curve)


@dataclass(frozen=True)
class Measured:
    """What decisions brought on items drawn at random, an item on average, and what it misses to perfect knowledge."""

    gain: float
    gain_lower: float
    gain_upper: float
    regret: float
    regret_lower: float
    regret_upper: float
    labels: int


def measured(
    costs: CostMatrix | Costs | float, pool: Pool, action: IntArray, at: IntArray, labels: IntArray, level: float = 0.95
) -> Measured:
    """Gain and regret of `action` [N], estimated from the true `labels` of positions `at`, drawn at random."""
    matrix = of_pool(costs, pool)
    predicted = pool.predicted[at]
    gain, best = matrix.realised(action[at], predicted, labels), matrix.perfect(predicted, labels)
    gains, misses = _mean(gain, matrix.gains, len(pool), level), _mean(best - gain, None, len(pool), level)
    return Measured(*gains, *misses, labels=len(at))


def _mean(values: FloatArray, possible: FloatArray | None, size: int, level: float) -> tuple[float, float, float]:
    """A bounded mean with its interval; without bounds, those of a regret: 0 and the largest seen."""
    low, high = (0.0, float(values.max())) if possible is None else (float(possible.min()), float(possible.max()))
    width = max(high - low, 1e-12)
    found = uniform_estimate((values - low) / width, size, level)
    return low + width * found.value, low + width * found.lower, low + width * found.upper


def of_pool(costs: CostMatrix | Costs | float, pool: Pool) -> CostMatrix:
    """The matrix of any kind of costs, checked against the pool's classes."""
    listed = class_list(pool)
    k = listed if isinstance(listed, int) else len(listed)
    if not isinstance(costs, CostMatrix):
        return CostMatrix.scalar(costs.u if isinstance(costs, Costs) else costs, k)
    if pool.n_classes is None and len(costs.act) > k:
        k = len(costs.act)  # no logits and no names: the other classes are predicted elsewhere
    if len(costs.act) != k:
        raise InvalidCosts(f"the costs are of {len(costs.act)} classes, the pool has {k}")
    if costs.classes is not None and pool.classes is not None and costs.classes != pool.classes:
        raise InvalidCosts(f"the costs name the classes {_list(costs.classes)}, the pool {_list(pool.classes)}")
    return costs


def class_list(pool: Pool) -> Sequence[str] | int:
    """The classes that a file of costs speaks of: their names, or how many they are."""
    if pool.classes is not None:
        return pool.classes
    return pool.n_classes or int(pool.predicted.max()) + 1


def load(path: str | Path, classes: Sequence[str] | int) -> CostMatrix:
    """Costs from a .yaml, .yml or .json file; `classes` are the pool's, by name or number."""
    return from_dict(read(path), classes, where=f"{path}: ")


def read(path: str | Path) -> Any:
    """What a file of costs says, as plain values that nobody has checked yet: for `from_dict`, or for a session."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix.lower() == ".json" else _yaml(text)
    except ValueError as error:
        raise InvalidCosts(f"{path}: cannot be read as {path.suffix or 'YAML'}: {error}") from None
    if found is None:
        raise InvalidCosts(f"{path}: the file is empty: expected entries named {', '.join(KNOWN)}")
    return found


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingDependency("reading YAML needs PyYAML: pip install pyyaml, or write the costs as JSON") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def from_dict(given: Any, classes: Sequence[str] | int, where: str = "") -> CostMatrix:
    """Costs from plain values: as in the file, or from `as_dict`."""
    reader = _Reader(where, tuple(str(i) for i in range(classes)) if isinstance(classes, int) else tuple(classes))
    return reader.costs(given)


def as_dict(matrix: CostMatrix) -> dict[str, Any]:
    """Plain values from which `from_dict` makes just this matrix; for costs that no file was the source of."""
    others = {a.name: {"gain": a.gain.tolist(), "capacity": a.capacity} for a in matrix.others}
    return {"act": matrix.act.tolist(), "others": others, "capacity": matrix.capacity}


@dataclass(frozen=True)
class _Reader:
    """Reads plain values and says where one is wrong."""

    where: str
    classes: tuple[str, ...]

    def costs(self, given: Any) -> CostMatrix:
        if isinstance(given, Real) and not isinstance(given, bool):
            given = {"u": given}
        if isinstance(given, Mapping) and "act" in given:
            return self._matrix(given)
        self._mapping("the file", given, KNOWN)
        if "classes" in given and tuple(map(str, given["classes"] or ())) != self.classes:
            raise self._no("classes", given["classes"], f"the pool's, in its order: {_list(self.classes)}")
        if "u" in given:
            if len(given.keys() - {"classes"}) > 1:
                raise self._no("u", given["u"], "either u alone, or gain and loss without it")
            return CostMatrix.scalar(self._number("u", given["u"], low=0), len(self.classes))
        k = len(self.classes)
        right, wrong = self._right(given.get("gain", 1)), self._wrong(given.get("loss"))
        act = wrong.copy()
        act[np.arange(k), np.arange(k)] = right
        others = self._actions(given.get("actions"), right, wrong)
        return CostMatrix(act, others, self._capacity("capacity", given.get("capacity")), self.classes)

    def _matrix(self, given: Mapping[str, Any]) -> CostMatrix:
        """What `as_dict` gave."""
        self._mapping("the costs", given, KNOWN_OF_MATRIX)
        others: Any = given.get("others")
        self._mapping("others", others, None)
        capacity = self._capacity("capacity", given.get("capacity"))
        made = tuple(self._other(str(name), other) for name, other in others.items())
        return CostMatrix(self._rows("act", given["act"]), made, capacity, self.classes)

    def _other(self, name: str, given: Any) -> Action:
        at = f"others.{name}"
        self._mapping(at, given, ("gain", "capacity"))
        return Action(
            name, self._rows(f"{at}.gain", given.get("gain")), self._capacity(f"{at}.capacity", given.get("capacity"))
        )

    def _rows(self, at: str, given: Any) -> FloatArray:
        k = len(self.classes)
        try:
            rows = np.array(given, np.float64)
        except (TypeError, ValueError):
            rows = np.empty(0)
        if rows.shape != (k, k + 1):
            raise self._no(at, given, f"gains of {k} classes, {k} rows of {k + 1} numbers")
        return rows

    def _right(self, given: Any) -> FloatArray:
        if isinstance(given, Mapping):
            given = self._all_classes("gain", given)
            return np.array([self._number(f"gain.{name}", given[name]) for name in self.classes])
        return np.full(len(self.classes), self._number("gain", given))

    def _wrong(self, given: Any) -> FloatArray:
        """Minus the loss by predicted and true class; none of the classes costs as much as the worst of them."""
        k = len(self.classes)
        if given is None:
            raise self._no("loss", None, "what acting on a wrong prediction loses, a number of 0 or more")
        if not isinstance(given, Mapping):
            return np.full((k, k + 1), -self._number("loss", given, low=0))
        given = self._all_classes("loss", given)
        return np.stack([self._row(name, given[name]) for name in self.classes])

    def _row(self, name: str, given: Any) -> FloatArray:
        if not isinstance(given, Mapping):
            return np.full(len(self.classes) + 1, -self._number(f"loss.{name}", given, low=0))
        others = [c for c in self.classes if c != name]
        given = self._all_classes(f"loss.{name}", given, tuple(others))
        loss = {c: self._number(f"loss.{name}.{c}", given[c], low=0) for c in others}
        return -np.array([*(loss.get(c, 0.0) for c in self.classes), max(loss.values())])

    def _actions(self, given: Any, right: FloatArray, wrong: FloatArray) -> tuple[Action, ...]:
        if given is None:
            return (Action("reject", np.zeros_like(wrong)),)
        if not isinstance(given, Mapping) or not given:
            raise self._no("actions", given, "names with their costs, e.g. person: {cost: 0.5}")
        return tuple(self._action(str(name), entry, right, wrong) for name, entry in given.items())

    def _action(self, name: str, given: Any, right: FloatArray, wrong: FloatArray) -> Action:
        at = f"actions.{name}"
        if name == "act":
            raise self._no(at, given, "another name: acting is described by gain and loss")
        self._mapping(at, given, KNOWN_OF_ACTION)
        capacity = self._capacity(f"{at}.capacity", given.get("capacity"))
        if "gain" in given:
            if given.keys() & {"cost", "accuracy"}:
                raise self._no(f"{at}.gain", given["gain"], "either gain, or cost and accuracy")
            return Action(name, np.full_like(wrong, self._number(f"{at}.gain", given["gain"])), capacity)
        if "cost" not in given:
            raise self._no(f"{at}.cost", None, "what the action costs each time (or gain: what it brings)")
        cost = self._number(f"{at}.cost", given["cost"])
        accuracy = self._number(f"{at}.accuracy", given.get("accuracy", 1), low=0, high=1)
        return Action(name, with_accuracy(right, wrong, accuracy=accuracy, cost=cost), capacity)

    def _number(self, at: str, given: Any, low: float = -np.inf, high: float = np.inf) -> float:
        number = float(given) if isinstance(given, Real) and not isinstance(given, bool) else np.nan
        if not (low <= number <= high and np.isfinite(number)):
            bounds = f" from {low:g} to {high:g}" if np.isfinite(high) else f" of {low:g} or more"
            raise self._no(at, given, "a number" + (bounds if np.isfinite(low) else ""))
        return number

    def _capacity(self, at: str, given: Any) -> int | None:
        if given is None:
            return None
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise self._no(at, given, "how many items at most, a whole number of 0 or more")
        return given

    def _mapping(self, at: str, given: Any, known: tuple[str, ...] | None) -> None:
        if not isinstance(given, Mapping):
            raise self._no(at, given, f"entries named {', '.join(known)}" if known else "names with their gains")
        for name in given:
            if known is not None and name not in known:
                raise InvalidCosts(f"{self.where}{at} has an entry {name!r}: known are {', '.join(known)}")

    def _all_classes(self, at: str, given: Mapping[Any, Any], wanted: tuple[str, ...] | None = None) -> dict[str, Any]:
        """With every class once and nothing else; YAML reads a class named 1 as a number."""
        wanted, names = wanted or self.classes, {str(name) for name in given}
        if names != set(wanted) or len(names) != len(given):
            raise InvalidCosts(f"{self.where}{at} names {_list(tuple(names)) or 'nothing'}: expected {_list(wanted)}")
        return {str(name): value for name, value in given.items()}

    def _no(self, at: str, given: Any, expected: str) -> InvalidCosts:
        found = "missing" if given is None else repr(given)
        return InvalidCosts(f"{self.where}{at} is {found}: expected {expected}")


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(sorted(names)[:8]) + (", …" if len(names) > 8 else "")
