"""What a stage works on: one task, one seed, and the outputs of the model that goes with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from opcal.core.method import FloatArray, IntArray
from opcal.experiments.settings import Settings
from opcal.experiments.shift import Part, Shift, Split, load, save, split_of
from opcal.experiments.store import model_path
from opcal.experiments.tasks.base import Domains, Examples, Model, Task

PASSES, QUICK_PASSES = 20, 5
MANY_CLASSES = 50
QUICK_ITEMS, QUICK_ITEMS_MANY_CLASSES, QUICK_TRAINING = 1_600, 800, 3_000


@dataclass(frozen=True)
class Context:
    settings: Settings
    task: Task
    seed: int

    @cached_property
    def shift(self) -> Shift:
        return load(model_path(self.settings, self.task.name, self.settings.model_of(self.seed)))

    @cached_property
    def split(self) -> Split:
        return split_of(self.shift, self.seed)

    @cached_property
    def domains(self) -> Domains:
        return domains_of(self.settings, self.task)

    @cached_property
    def model(self) -> Model:
        """The trained model itself, for what its outputs do not tell."""
        seed = self.settings.model_of(self.seed)
        return self.task.restore(self.domains, seed, self.settings, weights_path(self.settings, self.task, seed))


def weights_path(settings: Settings, task: Task, seed: int) -> Path:
    return settings.out / "models" / f"t{task.name}-m{seed}.weights"


def domains_of(settings: Settings, task: Task) -> Domains:
    """The task's data; a quick run looks at some of it, drawn at random."""
    domains = task.data(settings)
    if not settings.quick:
        return domains
    most = QUICK_ITEMS if len(domains.classes) <= MANY_CLASSES else QUICK_ITEMS_MANY_CLASSES

    def some(n: int, most: int) -> IntArray:
        return np.random.default_rng(n).permutation(n)[:most]

    def cut(examples: Examples, most: int) -> Examples:
        return examples.take(some(len(examples), most))

    rows = some(len(domains.field), most)
    return replace(
        domains,
        train=cut(domains.train, QUICK_TRAINING),
        origin=cut(domains.origin, most),
        field=domains.field.take(rows),
        masked=None if domains.masked is None else cut(domains.masked, most),
        groups={name: mask[rows] for name, mask in domains.groups.items()},
    )


def make_model(settings: Settings, task: Task, seed: int) -> None:
    """Train the model, unless it is there already, and keep what it says."""
    target = model_path(settings, task.name, seed)
    if target.exists():
        return
    domains, weights = domains_of(settings, task), weights_path(settings, task, seed)
    if weights.exists():
        model = task.restore(domains, seed, settings, weights)
    else:
        weights.parent.mkdir(parents=True, exist_ok=True)
        model = task.train(domains, seed, settings, weights)
    save(_shift(domains, model, task, seed, settings.quick), target)


def _shift(domains: Domains, model: Model, task: Task, seed: int, quick: bool) -> Shift:
    def part(examples: Examples, dropout: FloatArray | None = None) -> Part:
        return Part(*model.outputs(examples.inputs), examples.labels, dropout)

    masked = None if domains.masked is None else part(domains.masked)
    field = part(domains.field, model.with_dropout(domains.field.inputs, QUICK_PASSES if quick else PASSES, seed))
    return Shift(part(domains.train), part(domains.origin), field, *model.head, task.pool_share, masked, domains.groups)
