"""What one trained model says at its origin and in its field, and random splits of the field."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opcal.core.method import BoolArray, FloatArray, IntArray
from opcal.experiments.store import whole
from opcal.pool import Pool


@dataclass(frozen=True)
class Part:
    """A model's outputs on labelled items."""

    features: FloatArray  # [N, d]
    logits: FloatArray  # [N, K]
    labels: IntArray  # [N]
    dropout: FloatArray | None = None  # [N], mean confidence in the prediction over passes with dropout

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def correct(self) -> BoolArray:
        right: BoolArray = self.logits.argmax(1) == self.labels
        return right

    def take(self, rows: IntArray | BoolArray) -> Part:
        dropout = None if self.dropout is None else self.dropout[rows]
        return Part(self.features[rows], self.logits[rows], self.labels[rows], dropout)


@dataclass(frozen=True)
class Shift:
    """One model: what it learned from, where it was tested, where it is used."""

    train: Part
    origin: Part
    field: Part
    weight: FloatArray  # [K, d]
    bias: FloatArray  # [K]
    pool_share: float
    masked: Part | None = None
    """The origin's test items with a part of every input missing: a systematic error."""
    groups: dict[str, BoolArray] = dataclasses.field(default_factory=dict)
    """Parts of the field that are also reported alone, [N] each."""

    def pool(self, part: Part) -> Pool:
        return Pool.from_arrays(part.features, part.logits, head=(self.weight, self.bias))


@dataclass(frozen=True)
class Side:
    part: Part
    pool: Pool
    rows: IntArray  # positions in the field

    @property
    def labels(self) -> IntArray:
        return self.part.labels

    @property
    def correct(self) -> BoolArray:
        return self.part.correct

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Split:
    """A part of the field is the pool, the rest is seen only when it is scored."""

    here: Side
    unseen: Side
    training: Pool | None
    """The items that the model learned from, where they are at hand."""
    seed: int

    def random(self, n: int) -> IntArray:
        """n pool positions; the same for every method, and a prefix of those for more labels."""
        return np.random.default_rng(self.seed).permutation(len(self.here))[:n]


MOST_TRAINING = 5000
"""Training items that surprise is measured against: more add nothing but hours."""


def split_of(shift: Shift, seed: int, part: Part | None = None, share: float | None = None) -> Split:
    whole = shift.field if part is None else part
    order = np.random.default_rng(1000 + seed).permutation(len(whole))
    n = round((shift.pool_share if share is None else share) * len(whole))
    here, unseen = (Side(whole.take(rows), shift.pool(whole.take(rows)), rows) for rows in (order[:n], order[n:]))
    learned_from = shift.train.take(np.arange(min(len(shift.train), MOST_TRAINING)))
    return Split(here, unseen, shift.pool(learned_from) if len(learned_from) else None, seed)


def save(shift: Shift, path: Path) -> None:
    arrays = {"weight": shift.weight, "bias": shift.bias, "pool_share": np.array(shift.pool_share)}
    for name in ("train", "origin", "field", "masked"):
        part = getattr(shift, name)
        for key in ("features", "logits", "labels", "dropout"):
            if part is not None and getattr(part, key) is not None:
                arrays[f"{name}_{key}"] = getattr(part, key)
    arrays |= {f"group_{name}": mask for name, mask in shift.groups.items()}
    with whole(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load(path: Path) -> Shift:
    with np.load(path, allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}

    def part(name: str) -> Part:
        features, logits, labels = (arrays[f"{name}_{key}"] for key in ("features", "logits", "labels"))
        return Part(features, logits, labels, arrays.get(f"{name}_dropout"))

    masked = part("masked") if "masked_features" in arrays else None
    groups = {name.removeprefix("group_"): mask for name, mask in arrays.items() if name.startswith("group_")}
    share = float(arrays["pool_share"])
    return Shift(part("train"), part("origin"), part("field"), arrays["weight"], arrays["bias"], share, masked, groups)
