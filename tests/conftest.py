"""Small made cases that many tests share, and the shared data folder where it is there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from databases import db, postgres  # noqa: F401  fixtures for every test

import opcal


@dataclass(frozen=True)
class Case:
    features: np.ndarray
    logits: np.ndarray
    labels: np.ndarray

    @property
    def pool(self) -> opcal.Pool:
        return opcal.Pool.from_arrays(self.features, self.logits)


def make_case(n: int = 200, d: int = 6, classes: int = 4, seed: int = 0, groups: int = 6) -> Case:
    """Groups of features, each with its own rate of right predictions, so that errors are local."""
    rng = np.random.default_rng(seed)
    at = rng.integers(0, groups, n)
    z = 3 * rng.standard_normal((groups, d))[at] + rng.standard_normal((n, d))
    h = 2 * z @ rng.standard_normal((d, classes)) / np.sqrt(d)
    right = rng.random(n) < np.linspace(0.05, 1.0, groups)[at]
    labels = np.where(right, h.argmax(1), (h.argmax(1) + 1 + rng.integers(0, classes - 1, n)) % classes)
    return Case(z, h, labels)


@pytest.fixture
def site(tmp_path):
    """A session as the labelling page serves it."""
    from web_site import served

    with served(tmp_path / "ward") as made:
        yield made


@pytest.fixture
def case() -> Case:
    return make_case()


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = Path(os.environ.get("OPCAL_SHARED", Path(__file__).parent.parent.parent / "shared"))
    if not (folder / "bench").is_dir():
        pytest.skip(f"the shared data folder is not at {folder}; set OPCAL_SHARED")
    return folder
