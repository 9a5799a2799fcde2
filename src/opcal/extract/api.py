"""`extract`: from a model and field data to a pool."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opcal.errors import InvalidInput, PoolError, UnknownOption
from opcal.extract.job import Job, absolute
from opcal.extract.models.options import ImageOptions, RunOptions
from opcal.extract.partitions import Ray, run_on_ray
from opcal.extract.rows import About, Pair, Source
from opcal.extract.run import COMMIT_SECONDS, Extraction, Plan, Progress, check, probe, run
from opcal.extract.sources.roles import Asked
from opcal.extract.store import Store, work_folder
from opcal.pool import Pool
from opcal.pool.checks import model_head

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
    transform: Callable[[Any], Any] | str | None = None,
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
        transform=None if isinstance(transform, str) else transform,
        collate=collate,
        image=ImageOptions(_size(size), crop, _numbers(mean), _numbers(std), channels),
        processor=None if processor is None else Path(processor),
        max_length=max_length,
        trust=tuple(trust),
    ).checked()
    job = Job(model, data, options, Asked(text, image, _names(inputs), id, _names(columns)), ids, payload,
              transform if isinstance(transform, str) else None)
    plan = Plan(0, limit, 0, on_bad == "skip", commit_seconds)
    given = None if isinstance(head, bool) else _pair(head)
    names = None if classes is None else tuple(str(name) for name in classes)
    wanted = _Wanted(batch_size, workers, names, given, resume, restart)
    return _extract(job, plan, Path(out), wanted, Ray.asked(engine, address, workers, partitions), progress or _silent)


@dataclass(frozen=True)
class _Wanted:
    batch_size: int | str
    workers: int | str
    classes: tuple[str, ...] | None
    head: Pair | None
    resume: bool
    restart: bool


def _extract(job: Job, plan: Plan, out: Path, wanted: _Wanted, ray: Ray | None, progress: Progress) -> Extraction:
    began = time.monotonic()
    job = absolute(job)
    model, source = job.built()
    try:
        batch, about = probe(model, source, plan)
        about = check(about, model.run(batch), wanted.classes)
        about = about if wanted.head is None else given_head(about, wanted.head, model.run(batch))
        plan = replace(
            plan,
            batch_size=_batch_size(wanted.batch_size, batch, source, model),
            workers=_workers(wanted.workers, source),
        )
        described, spec = _described(model, about, source, plan, job)
        if wanted.resume and (done := finished(out, described)) is not None:
            return Extraction(out, done, (), 0, about, tuple(model.notes), done, time.monotonic() - began)
        with Store.open(out.resolve(), spec, resume=wanted.resume, restart=wanted.restart) as store:
            resumed_at = store.position
            if not store.complete:
                through = run if ray is None else partial(run_on_ray, ray=ray, job=job)
                through(model, source, store, plan, progress)
            skipped = tuple(store.read_skipped())
            store.finish(about, described)
        notes, seconds = tuple(model.notes), time.monotonic() - began
        return Extraction(out, store.rows, skipped, store.skipped, about, notes, resumed_at, seconds)
    finally:
        model.close()


def _described(
    model: Any, about: About, source: Source, plan: Plan, job: Job
) -> tuple[dict[str, str], dict[str, Any]]:
    """What the pool says of its model, and what must be the same for a resumed run to give the same bytes."""
    described = {"name": model.name, "hash": model.digest(), "representation": about.representation}
    described["precision"] = job.options.precision
    spec = _spec(described, about, source, plan)
    told = json.dumps(spec, sort_keys=True).encode()
    return described | {"extraction": hashlib.sha256(told).hexdigest()[:32]}, spec


def finished(out: Path, described: dict[str, str]) -> int | None:
    """How many items the pool holds, where this very extraction is finished already."""
    if work_folder(out.resolve()).exists() or not (out / "pool.json").exists():
        return None
    pool = Pool.open(out)
    if pool.model != described:
        raise PoolError(f"{out} is a pool already, of another model, data or options: leave --resume out to replace it")
    return len(pool)


def _spec(described: dict[str, str], about: About, source: Source, plan: Plan) -> dict[str, Any]:
    """What must be the same for a resumed run to give the same bytes."""
    return described | {
        "classes": None if about.classes is None else list(about.classes),
        "data": source.name,
        "fingerprint": source.fingerprint(),
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


def given_head(about: About, head: Pair, outputs: Pair) -> About:
    """The head that the user gave, refused where it does not give the logits."""
    model_head(head, *outputs)
    return replace(about, head=head)


def _silent(done: int, total: int | None) -> None:
    pass
