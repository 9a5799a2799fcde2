"""Make the real case that opcal ships: a small network meets X-rays that differ from those it learned on.

    python examples/pneumonia_case.py --data pneumoniamnist.npz

needs torch and writes src/opcal/data/pneumonia/. The network trains on PneumoniaMNIST's training X-rays by plain
cross-entropy with Adam and is run once on the 624 test X-rays. Nothing is tuned on these: the last epoch is kept.
Other processors may round differently, so the shipped arrays are kept as made; the accuracies stay.
"""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor, nn

OUT = Path(__file__).resolve().parents[1] / "src" / "opcal" / "data" / "pneumonia"
WIDTH, EPOCHS, BATCH, RATE = 64, 8, 64, 1e-3


class PneumoniaNet(nn.Module):
    """28x28 X-rays in [0, 1], [N, 1, 28, 28] -> logits [N, 2]; `body` gives the representation z, [N, 64]."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(layer for sizes in ((1, 16), (16, 32), (32, 64)) for layer in _stage(*sizes)),
            nn.Flatten(),
            nn.Linear(64 * 3 * 3, WIDTH),
            nn.ReLU(),
        )
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits


def _stage(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)


@dataclass(frozen=True)
class Part:
    """One part of PneumoniaMNIST."""

    images: NDArray[np.uint8]  # [N, 28, 28]
    labels: NDArray[np.int64]  # [N], 0 normal, 1 pneumonia

    @property
    def inputs(self) -> Tensor:
        return torch.from_numpy(self.images).float().div(255).unsqueeze(1)


def read_parts(path: Path) -> dict[str, Part]:
    with np.load(path, allow_pickle=False) as data:
        return {p: Part(data[f"x_{p}"], data[f"y_{p}"].astype(np.int64).ravel()) for p in ("train", "val", "test")}


def train(part: Part, seed: int) -> PneumoniaNet:
    torch.manual_seed(seed)
    model, inputs, labels = PneumoniaNet(), part.inputs, torch.from_numpy(part.labels)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        order = torch.randperm(len(labels))
        for start in range(0, len(labels), BATCH):
            rows = order[start : start + BATCH]
            optimiser.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(model(inputs[rows]), labels[rows]))
            optimiser.step()
    return model.eval()


@torch.inference_mode()
def run(model: PneumoniaNet, part: Part) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Features [N, 64] and logits [N, 2] of one part."""
    features = model.body(part.inputs)
    return features.numpy(), model.head(features).numpy()


def describe(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> dict[str, Any]:
    """Accuracy, Brier score of the confidence, and the confident mistakes."""
    exps = np.exp(logits.astype(float) - logits.max(1, keepdims=True))
    confidence, correct = exps.max(1) / exps.sum(1), logits.argmax(1) == labels
    return {
        "items": len(labels),
        "accuracy": round(float(correct.mean()), 4),
        "brier": round(float(np.mean((confidence - correct) ** 2)), 4),
        "mistakes": int(np.sum(~correct)),
        "mistakes_above_0.8": int(np.sum(~correct & (confidence > 0.8))),
        "mistakes_above_0.9": int(np.sum(~correct & (confidence > 0.9))),
    }


def verify(model: PneumoniaNet, features: NDArray[np.float32], logits: NDArray[np.float32]) -> None:
    head = {name: p.detach().numpy() for name, p in model.head.named_parameters()}
    gap = float(np.abs(features @ head["weight"].T + head["bias"] - logits).max())
    if not gap < 1e-4:
        raise SystemExit(f"head(features) differs from the logits by {gap}: the case would be wrong, nothing written")


def write(out: Path, model: PneumoniaNet, part: Part, case: dict[str, Any]) -> None:
    features, logits = run(model, part)
    verify(model, features, logits)
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "features.npy", features)
    np.save(out / "logits.npy", logits)
    np.save(out / "labels.npy", part.labels)
    np.savez_compressed(out / "images.npz", images=part.images)
    (out / "model.safetensors").write_bytes(save(model.state_dict()))
    (out / "case.json").write_text(json.dumps(case, indent=2) + "\n", encoding="utf-8")


def case_of(seed: int, home: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "pneumonia",
        "description": "A small CNN learned to tell pneumonia from normal on PneumoniaMNIST's training X-rays and "
        "meets its test X-rays: de-identified children's chest X-rays, 28x28, with a natural shift between the two.",
        "classes": ["normal", "pneumonia"],
        "image_size": [28, 28],
        "feature_width": WIDTH,
        "home": {"split": "validation", **home},
        "here": {"split": "test", **here},
        "training": {"seed": seed, "epochs": EPOCHS, "batch": BATCH, "optimiser": "Adam", "learning_rate": RATE},
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "script": "examples/pneumonia_case.py",
        "source": "PneumoniaMNIST (MedMNIST v2, https://medmnist.com), from Kermany et al. 2018",
        "licence": "CC BY 4.0",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="pneumoniamnist.npz: x_train, y_train, x_val, ...")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    # One thread and exact algorithms: the same seed gives the same bytes on the same processor.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    parts = read_parts(args.data)
    model = train(parts["train"], args.seed)
    home, here = (describe(run(model, parts[p])[1], parts[p].labels) for p in ("val", "test"))
    write(args.out, model, parts["test"], case_of(args.seed, home, here))
    print(f"home: {home}\nhere: {here}\nwritten to {args.out}")


if __name__ == "__main__":
    main()
