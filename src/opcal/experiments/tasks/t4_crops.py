"""Task 4: a VGG network learned on CIFAR-100 and sees random crops."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opcal.experiments import layouts
from opcal.experiments.settings import Settings
from opcal.experiments.tasks.base import Domains, Examples, Inputs, Printed, Task, arrays, labels_of
from opcal.experiments.tasks.learned import Built, learned

CROP = 26
"""Side of a crop of a 32×32 image, enlarged to 32×32 again."""
EPOCHS, QUICK_EPOCHS, FULL_EPOCHS = 12, 4, 100
HIDDEN = 10


def data(settings: Settings) -> Domains:
    train, test = _full(settings.data) if settings.size == "full" else _at_hand(settings.data)
    masked = test.inputs.copy()
    masked[:, -HIDDEN:] = 0
    field = Examples(cropped(test.inputs, CROP, seed=4), test.labels)
    return Domains(train, test, field, tuple(str(c) for c in range(100)), masked=Examples(masked, test.labels))


def cropped(images: Inputs, side: int, seed: int) -> Inputs:
    """A crop at a random place of each image, enlarged to the image's own size."""
    from PIL import Image

    size = images.shape[1]
    corners = np.random.default_rng(seed).integers(0, size - side + 1, (len(images), 2))
    parts = [
        Image.fromarray(image[y : y + side, x : x + side]).resize((size, size), resample=2)
        for image, (y, x) in zip(images, corners.tolist(), strict=True)
    ]
    return np.stack([np.asarray(part) for part in parts]).astype(np.uint8)


def _at_hand(folder: Path) -> tuple[Examples, Examples]:
    found = arrays(folder, "cifar100.npz")
    train, test = (Examples(found[f"x_{part}"], labels_of(found[f"y_{part}"])) for part in ("train", "test"))
    return train, test


def _full(folder: Path) -> tuple[Examples, Examples]:
    train, test = (
        Examples(*layouts.cifar_binary([folder / "cifar-100-binary" / f"{part}.bin"], 100))
        for part in ("train", "test")
    )
    return train, test


def _network(domains: Domains, settings: Settings) -> Built:
    from opcal.experiments.nets import network, training, vgg

    full = settings.size == "full"
    epochs = QUICK_EPOCHS if settings.quick else FULL_EPOCHS if full else EPOCHS
    recipe = training.Recipe(
        epochs,
        rate=2e-3,
        decay=1e-2,
        batch=128 if full else 64,
        augment=training.shifted_and_flipped,
    )
    return (vgg.vgg19 if full else vgg.small_vgg), network.image_tensor, recipe


TRAIN, RESTORE = learned(_network)


def pictures(settings: Settings) -> tuple[list[Inputs], list[Inputs]]:
    found = data(settings)
    return list(found.origin.inputs[:6]), list(found.field.inputs[:6])


TASK = Task(
    name="4",
    title="CIFAR-100 → random crops",
    differs="A small VGG network on 10,000 training images instead of 50,000 (so it is far less accurate at home), "
    "random re-split of CIFAR-100, 2,000 items each for pool and test. The paper does not say how large its crops are: "
    "26×26 of 32×32 here, enlarged again.",
    why="The network learned from a fifth of the images or fewer: less accurate than the paper's, and less sure.",
    printed=Printed(
        model="VGG-19",
        data="CIFAR-100 (orig. → crop)",
        accuracy=(72.0, 63.6),
        size=5000,
        brier={
            "uncalibrated": 0.216,
            "paper": 0.158,
            "RFR": 0.162,
            "SVR": 0.170,
            "TS": 0.217,
            "PS-conf": 0.359,
            "PS-logit": 0.253,
            "IR": 0.364,
            "SAR": 0.529,
        },
        confident={
            0.8: ((1105, 392.5), (583, 46.9), (0.127, 0.070)),
            0.9: ((772, 142.8), (280, 9.3), (0.074, 0.038)),
        },
    ),
    data=data,
    train=TRAIN,
    restore=RESTORE,
    pool_share=0.5,
    pictures=pictures,
)
