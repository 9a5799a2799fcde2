"""Task 6: ImageNet, and the same images after down-sampling."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opcal.experiments import linear
from opcal.experiments.settings import Settings
from opcal.experiments.tasks import pictures
from opcal.experiments.tasks.base import Domains, Examples, Model, Printed, Task, arrays, labels_of

FILE = "imagenet_val_effnetlite0.npz"


def data(settings: Settings) -> Domains:
    if settings.size == "full":
        return pictures.image_net(settings)
    found = arrays(settings.data, FILE)
    labels = labels_of(found["y"])
    sharp = Examples(found["feat_orig"].astype(np.float32), labels)
    coarse = Examples(found["feat_down"].astype(np.float32), labels)
    none = np.arange(0)
    return Domains(sharp.take(none), sharp, coarse, tuple(str(c) for c in range(len(found["W"]))))


def train(domains: Domains, seed: int, settings: Settings, path: Path) -> Model:
    """The published network's own last layer: there is nothing to train."""
    if settings.size == "full":
        return pictures.published_inception(domains, seed, settings, path)
    found = arrays(settings.data, FILE)
    model = linear.LinearModel(found["W"].astype(np.float32), found["b"].astype(np.float32))
    model.save(path)
    return model


def restore(domains: Domains, seed: int, settings: Settings, path: Path) -> Model:
    if settings.size == "full":
        return pictures.restore_inception(domains, seed, settings, path)
    return linear.load(path)


TASK = Task(
    name="6",
    title="ImageNet → down-sampled",
    differs="EfficientNet-lite0 (features only) in place of Inception-v3, 5,000 validation images (5 a class) "
    "down-sampled 224 → 56 → 224: 2,500 for the pool, 2,500 unseen. No training images are at hand: surprise is "
    "measured "
    "against the field pool's own confident items.",
    why="Another network, and half as many labels as in the paper: two or three a class.",
    printed=Printed(
        model="Inception-v3",
        data="ImageNet (orig. → down-sample)",
        accuracy=(77.5, 45.3),
        size=5000,
        brier={
            "uncalibrated": 0.192,
            "paper": 0.161,
            "RFR": 0.167,
            "SVR": 0.217,
            "TS": 0.191,
            "PS-conf": 0.546,
            "PS-logit": 0.427,
            "IR": 0.334,
        },
        confident={
            0.8: ((1160, 692.0), (265, 63.6), (0.087, 0.073)),
            0.9: ((801, 554.1), (137, 40.2), (0.054, 0.041)),
        },
    ),
    data=data,
    train=train,
    restore=restore,
    pool_share=0.5,
    whole_network=False,
    torch=False,
)
