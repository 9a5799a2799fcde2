"""Stored runs as means with standard errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from opcal.experiments.stages.scores import mean_and_error
from opcal.experiments.store import Figures

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Cell:
    mean: float
    error: float
    n: int

    def text(self, digits: int = 3) -> str:
        if self.n < 2:
            return f"{self.mean:.{digits}f}"
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"


class Runs:
    """Figures by task and stage, over seeds."""

    def __init__(self, runs: Iterable[Figures]) -> None:
        self.all = list(runs)
        self._by: dict[tuple[str, str], list[Figures]] = defaultdict(list)
        for run in self.all:
            if run["figures"]:
                self._by[run["task"], run["stage"]].append(run["figures"])

    def tasks(self, stage: str) -> list[str]:
        return sorted({task for task, name in self._by if name == stage})

    def of(self, task: str, stage: str) -> list[Figures]:
        return self._by.get((task, stage), [])

    def cell(self, task: str, stage: str, *path: str | int) -> Cell | None:
        """Mean and standard error over seeds of the figure that lies at `path` in a run."""
        values = [value for run in self.of(task, stage) if (value := at(run, path)) is not None]
        return Cell(*mean_and_error(values), len(values)) if values else None

    def mean(self, task: str, stage: str, *path: str | int) -> float | None:
        found = self.cell(task, stage, *path)
        return None if found is None else found.mean


def at(figures: Any, path: Path) -> Any:
    for key in path:
        if isinstance(figures, list):
            if not isinstance(key, int) or key >= len(figures):
                return None
            figures = figures[key]
        elif isinstance(figures, dict) and str(key) in figures:
            figures = figures[str(key)]
        else:
            return None
    return figures


def shown(cell: Cell | None, digits: int = 3) -> str:
    return "" if cell is None else cell.text(digits)
