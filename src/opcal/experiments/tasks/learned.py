"""What tasks share that train a network: from a builder to `train` and `restore`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from opcal.experiments.settings import Settings
from opcal.experiments.tasks.base import Domains, Model

Step = Callable[[Domains, int, Settings, Path], Model]
Built = tuple[Any, Any, Any]
"""Makes the network, prepares its inputs, and how it is trained."""


def learned(build: Callable[[Domains, Settings], Built]) -> tuple[Step, Step]:
    """`train` and `restore` of a task; torch is imported when they run."""

    def train(domains: Domains, seed: int, settings: Settings, path: Path) -> Model:
        from opcal.experiments.nets import model

        make, prepare, recipe = build(domains, settings)
        return model.trained(make, prepare, recipe, domains.train, seed, path)

    def restore(domains: Domains, seed: int, settings: Settings, path: Path) -> Model:
        from opcal.experiments.nets import model

        make, prepare, recipe = build(domains, settings)
        return model.restored(make, prepare, recipe, path)

    return train, restore
