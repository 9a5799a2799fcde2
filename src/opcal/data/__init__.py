"""The real case that the package ships: a network trained on some X-rays and run on others. NumPy only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Case:
    """What one model said about N field items, and what they truly were."""

    features: NDArray[np.float32]  # [N, d]
    logits: NDArray[np.float32]  # [N, K]
    labels: NDArray[np.intp]  # [N]
    images: NDArray[np.uint8]  # [N, 28, 28]
    head_weight: NDArray[np.float32]  # [K, d]; logits = features @ head_weight.T + head_bias
    head_bias: NDArray[np.float32]  # [K]
    classes: tuple[str, ...]
    ids: tuple[str, ...]
    description: str

    def __len__(self) -> int:
        return len(self.labels)


def load_pneumonia() -> Case:
    """PneumoniaMNIST's 624 test X-rays as a network sees them that learned on the training X-rays (CC BY 4.0)."""
    from safetensors.numpy import load

    folder = files(__name__) / "pneumonia"
    weights = load((folder / "model.safetensors").read_bytes())
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    labels = _read(folder / "labels.npy").astype(np.intp)
    return Case(
        features=_read(folder / "features.npy"),
        logits=_read(folder / "logits.npy"),
        labels=labels,
        images=_read(folder / "images.npz")["images"],
        head_weight=weights["head.weight"],
        head_bias=weights["head.bias"],
        classes=tuple(case["classes"]),
        ids=tuple(f"xray-{i:03d}" for i in range(len(labels))),
        description=case["description"],
    )


def _read(file: Traversable) -> Any:
    """The array of a .npy file, or the mapping of a .npz file, also from inside a zipped package."""
    return np.load(BytesIO(file.read_bytes()), allow_pickle=False)
