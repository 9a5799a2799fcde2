"""VGG networks (Simonyan and Zisserman 2015); VGG-19 bears torchvision's names, so that its weights load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from opcal.experiments.nets.network import Network, initialised

POOL = 0
VGG_19 = (64, 64, POOL, 128, 128, POOL, *([256] * 4), POOL, *([512] * 4), POOL, *([512] * 4), POOL)
SMALL = (24, POOL, 48, 48, POOL, 96, 96, POOL, 128, POOL)


def layers(widths: Sequence[int], *, normalised: bool) -> nn.Sequential:
    made: list[nn.Module] = []
    inputs = 3
    for width in widths:
        if width == POOL:
            made.append(nn.MaxPool2d(2))
            continue
        made.append(nn.Conv2d(inputs, width, 3, padding=1))
        made += [nn.BatchNorm2d(width)] if normalised else []
        made.append(nn.ReLU())
        inputs = width
    return nn.Sequential(*made)


class VGG(Network):
    """[N, 3, H, W] to z [N, `hidden`], the output of the last but one layer of the classifier."""

    def __init__(
        self, widths: Sequence[int], classes: int, *, hidden: int = 4096, grid: int = 7, normalised: bool = False
    ) -> None:
        super().__init__()
        self.features = layers(widths, normalised=normalised)
        self.avgpool = nn.AdaptiveAvgPool2d(grid)
        flat = [w for w in widths if w != POOL][-1] * grid * grid
        self.classifier = nn.Sequential(
            nn.Linear(flat, hidden),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(hidden, classes),
        )
        initialised(self)

    def represent(self, x: Tensor) -> Tensor:
        z: Tensor = self.classifier[:-1](self.avgpool(self.features(x)).flatten(1))
        return z

    @property
    def last(self) -> nn.Linear:
        return cast(nn.Linear, self.classifier[-1])


def vgg19(classes: int = 100) -> VGG:
    """For images of 32×32, with batch normalisation, without which nineteen layers do not start to learn."""
    return VGG(VGG_19, classes, hidden=512, grid=1, normalised=True)


def vgg19_imagenet(classes: int = 1000) -> VGG:
    """As published, for 224×224."""
    return VGG(VGG_19, classes)


def small_vgg(classes: int = 100) -> VGG:
    return VGG(SMALL, classes, hidden=256, grid=2, normalised=True)
