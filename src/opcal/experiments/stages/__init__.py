"""The stages of the evaluation: what is measured of a task with one seed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from opcal.experiments.stages.context import Context
from opcal.experiments.store import Figures

STAGES = ("accuracy", "efficacy", "few", "curves", "selection", "systematic", "finetune")


def stage(name: str) -> Callable[[Context], Figures]:
    found: Callable[[Context], Figures] = import_module(f"opcal.experiments.stages.{name}").measure
    return found
