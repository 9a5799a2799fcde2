"""What the model said about each item of the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from opcal.core.method import BoolArray, FloatArray, Head, IntArray, Outputs
from opcal.errors import DuplicateIds, InvalidArray, InvalidInput, UnknownItem, UnknownOption
from opcal.pool import checks, names


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """A model's outputs on N items, checked; make one with `from_arrays`, `from_table`, `from_file` or `open`."""

    outputs: Outputs
    classes: tuple[str, ...] | None = None
    payload: list[str | None] | None = None
    columns: dict[str, list[Any]] = field(default_factory=dict)
    """The user's own columns, one value an item each."""
    model: dict[str, str] = field(default_factory=dict)
    """The model's name and hash, where known."""
    given_ids: list[str] | None = None

    @classmethod
    def from_arrays(
        cls,
        features: ArrayLike,
        logits: ArrayLike | None = None,
        *,
        confidence: ArrayLike | None = None,
        predicted: ArrayLike | None = None,
        ids: Sequence[Any] | None = None,
        payload: Sequence[str | None] | None = None,
        classes: Sequence[str] | None = None,
        head: tuple[ArrayLike, ArrayLike] | Head | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
        model: Mapping[str, str] | None = None,
        on_bad: str = "raise",
    ) -> Pool:
        """A pool from arrays: features [N, d] with logits [N, K], or with confidence [N] and predicted [N].

        `head=(W, b)` is the last layer (logits = features @ W.T + b) where known. `payload` is a path, a URL or a
        text that shows each item to a person. `on_bad="drop"` leaves out rows that hold NaN or inf; the other rows
        keep their ids. Arrays are never changed, and not copied where they are C-ordered float32 or float64.
        """
        if on_bad not in ("raise", "drop"):
            raise UnknownOption(f'on_bad is {on_bad!r}: expected "raise" or "drop"')
        if (logits is None) == (confidence is None and predicted is None):
            raise InvalidInput("pass either logits=, or confidence= and predicted= together")
        z = checks.matrix("features", features)
        bad = _settled(checks.bad_rows(z), on_bad, lambda rows: checks.refuse_rows("features", z, rows))
        if logits is not None:
            outputs, bad = _from_logits(z, logits, bad, on_bad)
            known = names.class_names(classes, None if outputs.logits is None else outputs.logits.shape[1])
        else:
            known = names.class_names(classes, None)
            outputs, bad = _from_confidence(z, (confidence, predicted), known, bad, on_bad)
        pool = cls(
            outputs,
            known,
            names.payloads(payload, len(z)),
            names.own_columns(columns, len(z)),
            {str(key): str(value) for key, value in names.mapping("model", model).items()},
            names.unique_ids(ids, len(z)),
        )
        pool = pool.take(~bad) if bad.any() else pool
        return pool if head is None else pool._with_head(checks.model_head(head, pool.features, pool.logits))

    @classmethod
    def from_table(cls, table: Any, **options: Any) -> Pool:
        """A pool from a pandas, polars or pyarrow table; see `opcal.pool.tables.pool_from_table` for the options."""
        from opcal.pool.tables import pool_from_table

        return pool_from_table(table, **options)

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Pool:
        """A pool from an .npz, .npy, .parquet, .arrow/.feather or .csv file; see `opcal.pool.files.pool_from_file`."""
        from opcal.pool.files import pool_from_file

        return pool_from_file(Path(path), **options)

    @classmethod
    def open(cls, path: str | Path) -> Pool:
        """A stored pool, its large arrays memory-mapped."""
        from opcal.pool.storage import open_pool

        return open_pool(Path(path))

    def save(self, path: str | Path) -> Path:
        """Write the pool to a folder, whole or not at all; a pool that is there already is replaced."""
        from opcal.pool.storage import save_pool

        return save_pool(self, Path(path))

    @property
    def features(self) -> FloatArray:
        return self.outputs.features

    @property
    def logits(self) -> FloatArray | None:
        return self.outputs.logits

    @property
    def confidence(self) -> FloatArray:
        """The model's own confidence in each prediction, [N]."""
        return self.outputs.confidence

    @property
    def predicted(self) -> IntArray:
        """The predicted class of each item, [N]; opcal never changes it."""
        return self.outputs.predicted

    @property
    def head(self) -> Head | None:
        return self.outputs.head

    @property
    def n_classes(self) -> int | None:
        if self.logits is not None:
            return int(self.logits.shape[1])
        return None if self.classes is None else len(self.classes)

    @cached_property
    def ids(self) -> list[str]:
        """One text an item; the row number where none were given."""
        return [str(row) for row in range(len(self))] if self.given_ids is None else self.given_ids

    def id_of(self, position: int) -> str:
        return str(position) if self.given_ids is None else self.given_ids[position]

    @cached_property
    def _position_of(self) -> dict[str, int]:
        return {text: row for row, text in enumerate(self.ids)}

    def has(self, id: str) -> bool:
        """Whether an item has this id."""
        return id in self._position_of

    def positions(self, ids: Iterable[Any]) -> IntArray:
        """Positions of the items with these ids."""
        try:
            wanted = [ids] if isinstance(ids, str) else ids
            return np.array([self._position_of[str(item)] for item in wanted], dtype=np.intp)
        except KeyError as unknown:
            raise UnknownItem(f"no item has the id {unknown.args[0]!r}: see pool.ids") from None

    def take(self, rows: ArrayLike) -> Pool:
        """A pool of these rows (positions or a mask), in this order, with their ids."""
        chosen = self._chosen(rows)
        listed = chosen.tolist()
        return Pool(
            self.outputs.take(chosen),
            self.classes,
            None if self.payload is None else [self.payload[i] for i in listed],
            {name: [values[i] for i in listed] for name, values in self.columns.items()},
            self.model,
            [self.id_of(i) for i in listed],
        )

    def _chosen(self, rows: ArrayLike) -> IntArray:
        array = checks.as_array("rows", rows)
        of_mask = array.dtype == bool
        chosen = np.flatnonzero(names.mask("rows", array, len(self))) if of_mask else array
        chosen = names.positions("rows", chosen, len(self))
        if len(chosen) == 0:
            raise InvalidArray("rows is empty: a pool needs at least one item")
        if len(np.unique(chosen)) < len(chosen):
            raise DuplicateIds("rows holds a position twice: every item of a pool needs its own id")
        return chosen

    def _with_head(self, head: Head) -> Pool:
        return replace(self, outputs=replace(self.outputs, head=head))

    def __len__(self) -> int:
        return len(self.outputs)

    def __repr__(self) -> str:
        k = "no logits" if self.logits is None else f"{self.logits.shape[1]} classes"
        return f"Pool({len(self):,} items, {self.features.shape[1]} features, {k})"


def _settled(bad: BoolArray, on_bad: str, refuse: Callable[[BoolArray], NoReturn]) -> BoolArray:
    if on_bad == "raise" and bad.any():
        refuse(bad)
    if bad.all():
        raise InvalidArray("every row is bad: nothing is left of the pool")
    return bad


def _from_logits(z: FloatArray, logits: ArrayLike, bad: BoolArray, on_bad: str) -> tuple[Outputs, BoolArray]:
    h = checks.matrix("logits", logits)
    checks.same_length("logits", len(h), len(z))
    if h.shape[1] < 2:
        raise InvalidArray(
            "logits has one column: a classifier has two classes or more; "
            "for a single score s of class 1 pass np.column_stack([np.zeros_like(s), s])"
        )
    bad = _settled(bad | checks.bad_rows(h), on_bad, lambda rows: checks.refuse_rows("logits", h, rows))
    checks.refuse_probabilities(h, bad)
    confidence, predicted = softmax_confidence(h)
    return Outputs(z, confidence, predicted, h), bad


def _from_confidence(
    z: FloatArray,
    given: tuple[ArrayLike | None, ArrayLike | None],
    classes: tuple[str, ...] | None,
    bad: BoolArray,
    on_bad: str,
) -> tuple[Outputs, BoolArray]:
    confidence, predicted = given
    if confidence is None or predicted is None:
        missing = "confidence" if confidence is None else "predicted"
        raise InvalidInput(f"{missing}= is missing: without logits, pass both confidence= and predicted=")
    c, wrong = checks.confidences(confidence, len(z))
    bad = _settled(bad | wrong, on_bad, lambda rows: checks.refuse_confidence(c, rows))
    return Outputs(z, c, names.predictions(predicted, len(z), classes)), bad


def softmax_confidence(logits: FloatArray) -> tuple[FloatArray, IntArray]:
    """Top softmax probability and its class, [N] each, in float64 and by chunks."""
    confidence, predicted = np.empty(len(logits)), np.empty(len(logits), dtype=np.intp)
    rows = max(1, checks.CHUNK * 16 // logits.shape[1])
    for start in range(0, len(logits), rows):
        part = np.asarray(logits[start : start + rows], dtype=np.float64)
        top = part.max(1, keepdims=True)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            confidence[start : start + rows] = 1 / np.exp(part - top).sum(1)
        predicted[start : start + rows] = part.argmax(1)
    return confidence, predicted
