"""The six tasks, each one file; task 2 has two models."""

from __future__ import annotations

from importlib import import_module

from opcal.errors import UnknownOption
from opcal.experiments.tasks.base import Task

HOME = {
    "1": "t1_digits",
    "2": "t2_reviews",
    "2b": "t2_reviews_bag",
    "3": "t3_objects",
    "4": "t4_crops",
    "5": "t5_paintings",
    "6": "t6_downsampled",
}
CHOICES = ("1", "2", "3", "4", "5", "6", "all")


def task(name: str) -> Task:
    if name not in HOME:
        raise UnknownOption(f"task is {name!r}: expected one of {', '.join(HOME)}")
    found: Task = import_module(f"opcal.experiments.tasks.{HOME[name]}").TASK
    return found


def chosen(names: tuple[str, ...]) -> list[Task]:
    """The tasks of a choice: 2 brings its second model, "all" everything."""
    wanted = list(HOME) if "all" in names else [own for own in HOME if own[0] in names]
    return [task(name) for name in wanted]
