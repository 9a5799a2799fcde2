"""`extract`: from a model and field data to a pool."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from opcal.errors import PoolError, UnknownOption
from opcal.extract.job import Job, absolute
from opcal.extract.partitions import Ray, run_on_ray
from opcal.extract.rows import About, Source
from opcal.extract.run import Extraction, Plan, Progress, check, probe, run
from opcal.extract.settings import Settings
from opcal.extract.store import Store, work_folder
from opcal.pool import Pool
from opcal.pool.checks import model_head

LARGEST_BATCH = 256
AIM = {"cpu": 1 << 23, "cuda": 1 << 26}
"""Bytes of input in a batch that "auto" aims at: what fits the caches of a CPU; a GPU wants more."""


def extract(model: Any, data: Any, *, out: str | Path, progress: Progress | None = None, **options: Any) -> Extraction:
    """Features and logits of every item, in one pass, written to the pool `out`; `.pool` of what is returned opens it.

    `model`: a torch module, exported program or TorchScript; a Hugging Face model; a scikit-learn estimator; an ONNX
    model; a function of a batch that returns (features, logits); or the path of one of these. `data`: a folder of
    images, a file or folder of tables, an array, a table, a torch Dataset or DataLoader, any iterable. The options are
    the fields of `opcal.extract.Settings`. `progress(done, total)` is called after each batch.
    """
    return _extract(model, data, Settings.of(options), Path(out), progress or _silent)


def _extract(given: Any, data: Any, settings: Settings, out: Path, progress: Progress) -> Extraction:
    began = time.monotonic()
    job = absolute(Job(given, data, settings.run_options(), settings.asked(), settings.ids, settings.payload,
                       settings.preprocess()))  # fmt: skip
    ray = Ray.asked(settings.engine, settings.address, settings.workers, settings.partitions)
    model, source = job.built()
    try:
        about, plan = _looked_at(model, source, settings)
        described, spec = _described(model, about, source, plan, job)
        if settings.resume and (done := finished(out, described)) is not None:
            return Extraction(out, done, (), 0, about, tuple(model.notes), done, time.monotonic() - began)
        with Store.open(out.resolve(), spec, resume=settings.resume, restart=settings.restart) as store:
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


def _looked_at(model: Any, source: Source, settings: Settings) -> tuple[About, Plan]:
    """What a first batch shows, and what is to be done, with no "auto" left."""
    plan = Plan(0, settings.limit, 0, settings.on_bad == "skip", settings.commit_seconds)
    batch, about, outputs = probe(model, source, plan)
    about = check(about, outputs, settings.class_names())
    if (head := settings.given_head()) is not None:
        model_head(head, *outputs)
        about = replace(about, head=head)
    batch_size, workers = _batch_size(settings.batch_size, batch, source, model), _workers(settings.workers, source)
    return about, replace(plan, batch_size=batch_size, workers=workers)


def _described(model: Any, about: About, source: Source, plan: Plan, job: Job) -> tuple[dict[str, str], dict[str, Any]]:
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


def _silent(done: int, total: int | None) -> None:
    pass
