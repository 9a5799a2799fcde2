"""All jobs of an evaluation: models first, then what is measured of them; each kept when it is done."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context

from opcal.errors import MissingDependency
from opcal.experiments import store, tasks
from opcal.experiments.settings import Settings
from opcal.experiments.stages import STAGES, stage
from opcal.experiments.stages.context import Context, make_model
from opcal.experiments.tasks.base import Task

Told = Callable[[str, int, int], None]
"""What was done, how many are done, of how many."""


@dataclass(frozen=True)
class Job:
    task: str
    seed: int
    stage: str

    def __str__(self) -> str:
        return f"task {self.task}, {self.stage}, seed {self.seed}"


MODEL = "model"
WATCHED = 0.5
"""Seconds between two looks for the parent."""


def jobs(settings: Settings, names: list[str]) -> tuple[list[Job], list[Job]]:
    """Those that make models and those that measure."""
    models = min(settings.models, max(settings.splits, settings.repeats))
    making = [Job(name, seed, MODEL) for name in names for seed in range(models)]
    seeds = {"few": settings.repeats, "accuracy": models, "finetune": min(models, settings.splits)}
    measuring = [
        Job(name, seed, stage_name)
        for name in names
        for stage_name in STAGES
        for seed in range(seeds.get(stage_name, settings.splits))
    ]
    return making, measuring


def run(settings: Settings, names: list[str], *, workers: int, told: Told) -> None:
    check(settings, [tasks.task(name) for name in names])
    making, measuring = jobs(settings, names)
    total = len(making) + len(measuring)
    done = 0
    for part in (making, measuring):
        for job in _done(settings, part, workers):
            done += 1
            told(str(job), done, total)


def check(settings: Settings, chosen: list[Task]) -> None:
    """Refused before hours are spent: missing torch."""
    networks = [task for task in chosen if task.torch or settings.size == "full"]
    if not networks:
        return
    try:
        import torch  # noqa: F401
    except ImportError:
        named = ", ".join(task.name for task in networks)
        raise MissingDependency(
            f"tasks {named} train networks and torch is not installed: pip install torch==2.13.0, then "
            "pip install 'opcal[paper]'; --task 5 --task 6 need neither"
        ) from None


def _done(settings: Settings, todo: list[Job], workers: int) -> Iterator[Job]:
    if workers == 1:
        for job in todo:
            do(settings, job)
            yield job
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_alone) as pool:
        running = {pool.submit(do, settings, job): job for job in todo}
        for future in as_completed(running):
            future.result()
            yield running[future]


def _alone() -> None:
    """A worker computes on one thread: two of them on two cores. It does not outlive who started it.

    Workers of a killed parent hold each other's queue open and would go on writing into the folder of the next run.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCHED)
    os._exit(1)


def do(settings: Settings, job: Job) -> None:
    from threadpoolctl import threadpool_limits

    task = tasks.task(job.task)
    with threadpool_limits(1), warnings.catch_warnings():
        if job.stage == MODEL:
            make_model(settings, task, job.seed)
        else:
            context = Context(settings, task, job.seed)
            store.made(settings, job.task, job.seed, job.stage, lambda: stage(job.stage)(context))
