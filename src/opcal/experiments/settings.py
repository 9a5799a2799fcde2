"""What one run of the evaluation is asked to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opcal.errors import InvalidInput

SIZES = ("default", "full")


@dataclass(frozen=True)
class Settings:
    data: Path
    out: Path
    quick: bool = False
    size: str = "default"
    models: int = 3
    """Trainings of each network, with seeds 0, 1, …"""
    splits: int = 5
    """Random splits into pool and unseen items for the tables with all labels and for the curves."""
    repeats: int = 10
    """Splits for the table with 10 % of the labels; the paper's ten."""

    def __post_init__(self) -> None:
        for name in ("models", "splits", "repeats"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} is {getattr(self, name)}: expected 1 or more")

    def model_of(self, seed: int) -> int:
        """Which training a split is made with."""
        return seed % self.models

    def of_run(self) -> dict[str, Any]:
        """What the figures of a run depend on, besides task, seed and stage."""
        wanted = asdict(self)
        return {name: wanted[name] for name in ("quick", "size", "models")}


def quick(data: Path, out: Path) -> Settings:
    return Settings(data, out, quick=True, models=1, splits=2, repeats=2)
