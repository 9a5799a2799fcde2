"""One pass over the data: read, prepare, run, append; from where an earlier run was stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from opcal.errors import DataError, InvalidArray, LengthMismatch, ModelError
from opcal.extract.loading import prefetched
from opcal.extract.rows import About, Model, Pair, Rows, Skipped, Source
from opcal.extract.store import Store
from opcal.pool import Pool
from opcal.pool.checks import bad_rows, refuse_probabilities

Progress = Callable[[int, int | None], None]
PROBE = 8
"""Items of the batch on which the representation is found."""
COMMIT_SECONDS = 5.0
"""A kill loses at most so much work; two syncs of the disk in so long a time cost nothing."""


@dataclass(frozen=True)
class Plan:
    """What an extraction does, resolved: no "auto" is left."""

    batch_size: int
    limit: int | None = None
    workers: int = 0
    skip_bad: bool = False
    commit_seconds: float = COMMIT_SECONDS

    def end(self, source: Source) -> int | None:
        known = [n for n in (source.count, self.limit) if n is not None]
        return min(known) if known else None


@dataclass(frozen=True)
class Extraction:
    """What came of it; `pool` opens the pool, memory-mapped."""

    path: Path
    items: int
    skipped: tuple[Skipped, ...]
    n_skipped: int
    about: About
    notes: tuple[str, ...] = ()
    resumed_at: int = 0
    seconds: float = 0.0

    @cached_property
    def pool(self) -> Pool:
        return Pool.open(self.path)

    @property
    def representation(self) -> str:
        return self.about.representation


def probe(model: Model, source: Source, plan: Plan) -> tuple[Any, About, Pair]:
    """The first few sound items, prepared, what the model shows on them, and their features and logits."""
    size = getattr(model, "fixed_batch", None) or PROBE
    for read in source.batches(0, plan.end(source), size):
        rows = settled(read(), plan.skip_bad)
        if len(rows):
            batch = model.prepare(rows.values)
            return batch, *model.examine(batch)
    raise DataError(f"{source.name} holds no item that can be used")


def run(model: Model, source: Source, store: Store, plan: Plan, progress: Progress) -> None:
    """Everything from the store's position to the end, into the store."""
    end, last = plan.end(source), time.monotonic()
    try:
        for rows, outputs in outcomes(model, source, plan, store.position, end):
            store.append(rows, outputs)
            progress(store.position, end)
            if time.monotonic() - last >= plan.commit_seconds:
                store.commit()
                last = time.monotonic()
    except BaseException:
        store.commit()
        raise
    if source.count is not None and end is not None and store.position < end:
        raise DataError(f"{source.name} ended after {store.position:,} of {end:,} items: were some removed meanwhile?")


def outcomes(
    model: Model, source: Source, plan: Plan, start: int, stop: int | None
) -> Iterator[tuple[Rows, Pair | None]]:
    """Every batch with its outputs, sound rows only. Engines share this; a batch depends on its position alone."""

    def ready(read: Callable[[], Rows]) -> tuple[Rows, Any]:
        rows = settled(read(), plan.skip_bad)
        return rows, model.prepare(rows.values) if len(rows) else None

    for rows, batch in prefetched(source.batches(start, stop, plan.batch_size), ready, plan.workers):
        yield sound(rows, model.run(batch) if len(rows) else None, plan.skip_bad)


def settled(rows: Rows, skip_bad: bool) -> Rows:
    """With items that may be missing every other one needs an id that stays."""
    if rows.skipped and not skip_bad:
        bad = rows.skipped[0]
        raise DataError(f'{bad.id}: {bad.reason}; mend or remove it, or pass --on-bad skip (on_bad="skip")')
    if rows.items is not None or not skip_bad:
        return rows
    if len(rows) != rows.stop - rows.start:
        left_out = {item.id for item in rows.skipped}
        ids = [text for i in range(rows.start, rows.stop) if (text := str(i)) not in left_out]
    else:
        ids = [str(i) for i in range(rows.start, rows.stop)]
    return replace(rows, items=pa.table({"id": ids}))


def sound(rows: Rows, outputs: Pair | None, skip_bad: bool) -> tuple[Rows, Pair | None]:
    """NaN and inf are refused, or those rows left out, as the user asked."""
    if outputs is None:
        return rows, None
    features, logits = outputs
    if not len(rows) == len(features) == len(logits):
        raise LengthMismatch(
            f"the model gave {len(features)} features and {len(logits)} logits for {len(rows)} items: "
            "it must return one row for each"
        )
    bad = bad_rows(features) | bad_rows(logits)
    if not bad.any():
        return rows, outputs
    ids = _ids(rows)
    found = [Skipped(ids[i], "the model's features or logits hold NaN or inf") for i in np.flatnonzero(bad)]
    if not skip_bad:
        raise InvalidArray(f'{found[0].id}: {found[0].reason}; look at it, or pass --on-bad skip (on_bad="skip")')
    items = None if rows.items is None else rows.items.filter(pa.array(~bad))
    kept = replace(rows, values=features[~bad], items=items, skipped=[*rows.skipped, *found])
    return kept, (features[~bad], logits[~bad]) if not bad.all() else None


def _ids(rows: Rows) -> list[str]:
    if rows.items is not None and "id" in rows.items.column_names:
        return [str(text) for text in rows.items["id"].to_pylist()]
    return [f"item {i}" for i in range(rows.start, rows.stop)]


def check(about: About, outputs: Pair, classes: tuple[str, ...] | None) -> About:
    """What every model must keep: two classes or more, names that match, logits and no probabilities."""
    features, logits = outputs
    if features.ndim != 2 or logits.ndim != 2 or logits.shape[1] < 2:
        raise ModelError(
            f"the model gives features {features.shape} and logits {logits.shape}: expected [items, features] and "
            "[items, classes] with two classes or more; name the layer with --layer, or pass a function"
        )
    names = classes if classes is not None else about.classes
    if names is not None and len(names) != logits.shape[1]:
        raise ModelError(
            f"{len(names)} class names were given or found, but the model's head has {logits.shape[1]} outputs: "
            "pass --classes with one name for each output, in the head's order"
        )
    if names is not None and len(set(names)) < len(names):
        raise ModelError(f"the class names {', '.join(names)} hold one twice: pass --classes with distinct names")
    refuse_probabilities(logits, np.zeros(len(logits), bool))
    return replace(about, width=features.shape[1], n_classes=logits.shape[1], classes=names)
