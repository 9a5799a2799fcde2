"""Tasks 5 and 6 at full size: pictures in folders, a network with published weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from opcal.errors import InvalidInput
from opcal.experiments import layouts
from opcal.experiments.settings import Settings
from opcal.experiments.tasks.base import Domains, Examples, Inputs, Model

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's, which the published weights expect."""
FACTOR = 4
"""Task 6: 224 → 56 → 224."""


def image_clef(settings: Settings) -> Domains:
    """DATA/imageclef/c/<class>/* and DATA/imageclef/p/<class>/*; a fifth of (c) is kept to test at home."""
    folder = settings.data / "imageclef"
    (home, home_labels, classes), (field, field_labels, others) = (layouts.image_folder(folder / d) for d in "cp")
    if classes != others:
        raise InvalidInput(f"{folder}/c has the classes {classes}, {folder}/p has {others}: they must be the same")
    order = np.random.default_rng(0).permutation(len(home))
    cut = len(order) // 5
    whole = Examples(home, home_labels)
    return Domains(whole.take(order[cut:]), whole.take(order[:cut]), Examples(field, field_labels), tuple(classes))


def image_net(settings: Settings, most: int = 10) -> Domains:
    """DATA/imagenet/val/<wnid>/*, ten pictures a class, and the same down-sampled."""
    images, labels, classes = layouts.image_folder(settings.data / "imagenet" / "val", most=most)
    sharp = Examples(images, labels)
    return Domains(sharp.take(np.arange(0)), sharp, Examples(down_sampled(images), labels), tuple(classes))


def down_sampled(images: Inputs) -> Inputs:
    """Averaged to a quarter of the side, then enlarged again."""
    from PIL import Image

    side = images.shape[1]
    small = (side // FACTOR,) * 2
    parts = [Image.fromarray(i).resize(small, resample=4).resize((side, side), resample=2) for i in images]
    return np.stack([np.asarray(part) for part in parts]).astype(np.uint8)


def prepared(images: Inputs) -> Any:
    from opcal.experiments.nets.network import image_tensor

    return image_tensor(images, MEAN, DEVIATION)


def weights(settings: Settings, name: str) -> dict[str, Any] | None:
    """DATA/weights/NAME.pth as torchvision publishes it, or .safetensors; None where there is none."""
    import torch
    from safetensors.torch import load_file

    folder = settings.data / "weights"
    if (folder / f"{name}.safetensors").exists():
        return dict(load_file(folder / f"{name}.safetensors"))
    if (folder / f"{name}.pth").exists():
        return dict(torch.load(folder / f"{name}.pth", weights_only=True))
    return None


def with_weights(network: Any, known: dict[str, Any], *, but_last: bool) -> Any:
    """Load what the network has a place for; the last layer stays its own where the classes are others."""
    own = network.state_dict()
    fits = {k: v for k, v in known.items() if k in own and not (but_last and k.startswith("fc."))}
    missing = [k for k in own if k not in fits and not (but_last and k.startswith("fc.")) and "num_batches" not in k]
    if missing:
        raise InvalidInput(f"the weights lack {missing[0]!r} and {len(missing) - 1} more: are they this network's?")
    network.load_state_dict({**own, **fits})
    return network


def recipe() -> Any:
    from opcal.experiments.nets import training

    return training.Recipe(10, rate=3e-4, decay=1e-2, batch=32, augment=training.shifted_and_flipped)


def resnet50(settings: Settings, classes: int) -> Callable[[], Any]:
    from opcal.experiments.nets import residual

    known = weights(settings, "resnet50")
    if known is None:
        return lambda: residual.resnet50(classes)
    return lambda: with_weights(residual.resnet50(classes), known, but_last=True)


def train_resnet50(domains: Domains, seed: int, settings: Settings, path: Path) -> Model:
    """From published weights where they are there, else from scratch."""
    from opcal.experiments.nets import model

    return model.trained(resnet50(settings, len(domains.classes)), prepared, recipe(), domains.train, seed, path)


def restore_resnet50(domains: Domains, seed: int, settings: Settings, path: Path) -> Model:
    from opcal.experiments.nets import model, residual

    return model.restored(lambda: residual.resnet50(len(domains.classes)), prepared, recipe(), path)


def published_inception(domains: Domains, seed: int, settings: Settings, path: Path) -> Model:
    from opcal.experiments.nets import inception, model

    known = weights(settings, "inception_v3")
    if known is None:
        raise InvalidInput(f"{settings.data}/weights/inception_v3.pth is missing: ImageNet is not trained on here")
    network = with_weights(inception.InceptionV3(len(domains.classes)), known, but_last=False).to(model.device())
    made = model.TorchModel(network.eval(), prepared, recipe())
    made.save(path)
    return made


def restore_inception(domains: Domains, seed: int, settings: Settings, path: Path) -> Model:
    from opcal.experiments.nets import inception, model

    return model.restored(lambda: inception.InceptionV3(len(domains.classes)), prepared, recipe(), path)
