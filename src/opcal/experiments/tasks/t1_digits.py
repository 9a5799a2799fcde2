"""Task 1: LeNet-5 learned on 2,000 MNIST digits of 16×16 and reads USPS."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opcal.experiments import layouts
from opcal.experiments.settings import Settings
from opcal.experiments.tasks.base import Domains, Examples, Inputs, Printed, Task, arrays, labels_of
from opcal.experiments.tasks.learned import Built, learned

TRAINED, FIELD, HIDDEN = 2_000, 1_800, 5
"""The paper's sizes; a digit of the control misses its five rightmost columns."""
EPOCHS = 12
"""Then 64 to 71 % of USPS are read (four seeds), as the paper's 68 %."""


def data(settings: Settings) -> Domains:
    train, origin, field = _full(settings.data) if settings.size == "full" else _at_hand(settings.data)
    chosen = np.random.default_rng(1).permutation(len(train))[:TRAINED]
    used = np.random.default_rng(0).permutation(len(field))[:FIELD]
    return Domains(train.take(chosen), origin, field.take(used), tuple("0123456789"), masked=missing(origin))


def missing(digits: Examples) -> Examples:
    images = digits.inputs.copy()
    images[:, :, -HIDDEN:] = 0
    return Examples(images, digits.labels)


def _at_hand(folder: Path) -> tuple[Examples, Examples, Examples]:
    mnist, usps = arrays(folder, "mnist.npz"), arrays(folder, "usps.npz")
    home = [
        Examples(layouts.digits_16(mnist[f"x_{part}"]), labels_of(mnist[f"y_{part}"])) for part in ("train", "test")
    ]
    return home[0], home[1], Examples(usps["x"], labels_of(usps["y"]))


def _full(folder: Path) -> tuple[Examples, Examples, Examples]:
    home = []
    for part in ("train", "t10k"):
        images, labels = layouts.mnist_idx(folder / "mnist", part)
        home.append(Examples(layouts.digits_16(images), labels))
    return home[0], home[1], Examples(*layouts.usps_h5(folder / "usps.h5"))


def _network(domains: Domains, settings: Settings) -> Built:
    from opcal.experiments.nets import lenet, network, training

    return lenet.LeNet5, network.image_tensor, training.Recipe(EPOCHS)


def _network_to_tune(domains: Domains, settings: Settings) -> Built:
    """Fine-tuning shifts its digits, training did not."""
    from opcal.experiments.nets import lenet, network, training

    return lenet.LeNet5, network.image_tensor, training.Recipe(EPOCHS, augment=training.shifted)


TRAIN, RESTORE = learned(_network)[0], learned(_network_to_tune)[1]


def pictures(settings: Settings) -> tuple[list[Inputs], list[Inputs]]:
    found = data(settings)
    return list(found.train.inputs[:6]), list(found.field.inputs[:6])


TASK = Task(
    name="1",
    title="MNIST → USPS",
    differs="The same network, sizes and data sets; the 1,800 USPS digits are drawn from all 9,298 with a fixed seed. "
    "MNIST's 28×28 lose one pixel of their margin and are resized, which leaves digits smaller than those of USPS, and "
    "training is short: chosen so that as many of USPS are read as in the paper (cut to their centre, 87 %).",
    why="Close throughout: the same network, sizes and data sets.",
    printed=Printed(
        model="LeNet-5",
        data="MNIST → USPS",
        accuracy=(96.9, 68.0),
        size=900,
        brier={
            "uncalibrated": 0.207,
            "paper": 0.114,
            "RFR": 0.126,
            "SVR": 0.163,
            "TS": 0.183,
            "PS-conf": 0.316,
            "PS-logit": 0.182,
            "IR": 0.320,
            "SAR": 0.320,
        },
        confident={
            0.8: ((473, 309.1), (126, 24.3), (0.143, 0.089)),
            0.9: ((417, 141.9), (74, 2.5), (0.096, 0.055)),
        },
    ),
    data=data,
    train=TRAIN,
    restore=RESTORE,
    pool_share=0.5,
    pictures=pictures,
)
