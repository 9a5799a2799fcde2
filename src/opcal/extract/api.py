"""`extract`: from a model and field data to a pool."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opcal.errors import InvalidInput, UnknownOption
from opcal.extract.models.choose import as_model
from opcal.extract.models.options import ImageOptions, RunOptions
from opcal.extract.rows import About, Pair, Source
from opcal.extract.run import COMMIT_SECONDS, Extraction, Plan, Progress, check, probe, run
from opcal.extract.sources.choose import as_source
from opcal.extract.sources.roles import Asked
from opcal.extract.store import Store

LARGEST_BATCH = 256
AIM = {"cpu": 1 << 23, "cuda": 1 << 26}
"""Bytes of input in a batch that "auto" aims at: what fits the caches of a CPU; a GPU wants more."""


def extract(
    model: Any,
    data: Any,
    *,
    out: str | Path,
    resume: bool = False,
    restart: bool = False,
    batch_size: int | str = "auto",
    limit: int | None = None,
    workers: int | str = "auto",
    on_bad: str = "raise",
    classes: Sequence[str] | None = None,
    head: bool | tuple[ArrayLike, ArrayLike] = True,
    layer: str | None = None,
    device: str = "auto",
    precision: str = "float32",
    channels_last: bool | None = None,
    threads: int | None = None,
    transform: Callable[[Any], Any] | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    size: int | tuple[int, int] | None = None,
    crop: bool = False,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    channels: int = 3,
    processor: str | Path | None = None,
    max_length: int | None = None,
    trust: Sequence[str] = (),
    text: str | None = None,
    image: str | None = None,
    inputs: Sequence[str] | None = None,
    id: str | None = None,  # noqa: A002  the column's name, as on the command line
    columns: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    payload: Sequence[str] | None = None,
    engine: str = "local",
    address: str | None = None,
    partitions: int | None = None,
    progress: Progress | None = None,
    commit_seconds: float = COMMIT_SECONDS,
) -> Extraction:
    """Features and logits of every item, in one pass, written to the pool `out`; `.pool` of what is returned opens it.

    `model`: a torch module, exported program or TorchScript; a Hugging Face model; a scikit-learn estimator; an ONNX
    model; a function of a batch that returns (features, logits); or the path of one of these. `data`: a folder of
    images, a file or folder of tables, an array, a table, a torch Dataset or DataLoader, any iterable.
    """
    if on_bad not in ("raise", "skip"):
        raise UnknownOption(f'on_bad is {on_bad!r}: expected "raise" or "skip"')
    if limit is not None and limit < 1:
        raise InvalidInput(f"limit is {limit}: expected 1 item or more")
    options = RunOptions(
        layer=layer,
        head=head is True,
        device=device,
        precision=precision,
        channels_last=channels_last,
        threads=threads,
        transform=transform,
        collate=collate,
        image=ImageOptions(_size(size), crop, _numbers(mean), _numbers(std), channels),
        processor=None if processor is None else Path(processor),
        max_length=max_length,
        trust=tuple(trust),
    ).checked()
    job = Job(model, data, options, Asked(text, image, _names(inputs), id, _names(columns)), ids, payload)
    plan = Plan(0, limit, 0, on_bad == "skip", commit_seconds)
    given = None if isinstance(head, bool) else _pair(head)
    names = None if classes is None else tuple(str(name) for name in classes)
    return _extract(job, plan, Path(out), (batch_size, workers), (names, given), (resume, restart), progress)


class Job:
    """A model and its data, built where they are needed: here, or in a worker of another engine."""

    def __init__(
        self,
        model: Any,
        data: Any,
        options: RunOptions,
        asked: Asked,
        ids: Sequence[Any] | None,
        payload: Sequence[str] | None,
    ) -> None:
        self.given, self.data, self.options, self.asked, self.ids, self.payload = (
            model, data, options, asked, ids, payload,
        )  # fmt: skip

    def built(self) -> tuple[Any, Source]:
        model = as_model(self.given, self.options)
        return model, as_source(self.data, self.asked, model.wants, ids=self.ids, payload=self.payload)


def _extract(
    job: Job,
    plan: Plan,
    out: Path,
    sizes: tuple[int | str, int | str],
    known: tuple[tuple[str, ...] | None, Pair | None],
    again: tuple[bool, bool],
    progress: Progress | None,
) -> Extraction:
    began = time.monotonic()
    model, source = job.built()
    try:
        batch, about = probe(model, source, plan)
        first = model.run(batch)
        about = check(about, first, known[0])
        about = about if known[1] is None else replace(about, head=known[1])
        plan = replace(plan, batch_size=_batch_size(sizes[0], batch, source, model), workers=_workers(sizes[1], source))
        described = {"name": model.name, "hash": model.digest(), "representation": about.representation}
        described["precision"] = job.options.precision
        spec = _spec(described, about, source, plan)
        with Store.open(out.resolve(), spec, resume=again[0], restart=again[1]) as store:
            resumed_at = store.position
            if not store.complete:
                run(model, source, store, plan, progress or _silent)
            skipped = store.read_skipped()
            store.finish(about, described)
            return Extraction(
                out,
                store.rows,
                tuple(skipped),
                store.skipped,
                about,
                tuple(model.notes),
                resumed_at,
                time.monotonic() - began,
            )
    finally:
        model.close()


def _spec(described: dict[str, str], about: About, source: Source, plan: Plan) -> dict[str, Any]:
    """What must be the same for a resumed run to give the same bytes."""
    return described | {
        "classes": None if about.classes is None else list(about.classes),
        "data": source.name,
        "items": source.count,
        "batch_size": plan.batch_size,
        "limit": plan.limit,
        "on_bad": "skip" if plan.skip_bad else "raise",
    }


def _batch_size(asked: int | str, batch: Any, source: Source, model: Any) -> int:
    """As asked; "auto" follows from the size of an item and the kind of device only, so that it is the same again."""
    fixed = getattr(source, "batch_size", None) or getattr(model, "fixed_batch", None)
    if fixed is not None:
        return int(fixed)
    if asked != "auto":
        if isinstance(asked, str) or asked < 1:
            raise UnknownOption(f'batch_size is {asked!r}: expected a number, 1 or more, or "auto"')
        return asked
    if source.kind == "texts":
        return 32
    items, size = _extent(batch)
    aim = AIM["cuda" if getattr(getattr(model, "device", None), "type", "cpu") == "cuda" else "cpu"]
    fitting = max(aim * items // max(size, 1), 1)
    return int(np.clip(1 << (fitting.bit_length() - 1), 8, LARGEST_BATCH))


def _extent(batch: Any) -> tuple[int, int]:
    """Items and bytes of a prepared batch."""
    if hasattr(batch, "keys"):
        parts = [_extent(batch[name]) for name in batch.keys()]  # noqa: SIM118  BatchEncoding is no dict
        return parts[0][0], sum(size for _, size in parts)
    items = len(batch) if hasattr(batch, "__len__") else 1
    return max(items, 1), int(getattr(batch, "nbytes", 0) or 4096 * items)


def _workers(asked: int | str, source: Source) -> int:
    if asked == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return {"images": min(4, cores), "texts": 1, "items": 0}.get(source.kind, 0)
    if isinstance(asked, str) or asked < 0:
        raise UnknownOption(f'workers is {asked!r}: expected a number, 0 or more, or "auto"')
    return asked


def _size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    pair = (size, size) if isinstance(size, int) else size
    if pair is not None and (len(pair) != 2 or min(pair) < 1):
        raise InvalidInput(f"size is {size!r}: expected (height, width)")
    return pair


def _numbers(values: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(float(v) for v in values)


def _names(values: Sequence[str] | str | None) -> tuple[str, ...] | None:
    return None if values is None else (values,) if isinstance(values, str) else tuple(values)


def _pair(head: Any) -> Pair:
    if not isinstance(head, (tuple, list)) or len(head) != 2:
        raise InvalidInput("head is neither True, False nor a pair (weight, bias) of the model's last layer")
    weight, bias = (np.asarray(part, dtype=np.float32) for part in head)
    return weight, bias


def _silent(done: int, total: int | None) -> None:
    pass
