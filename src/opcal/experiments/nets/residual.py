"""Residual networks (He et al. 2016); the full ones bear torchvision's names, so that its weights load."""

from __future__ import annotations

from torch import Tensor, nn

from opcal.experiments.nets.network import Network, initialised


def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class BasicBlock(nn.Module):
    widens = 1

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        out: Tensor = (y + (x if self.downsample is None else self.downsample(x))).relu()
        return out


class Bottleneck(nn.Module):
    widens = 4

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.downsample = shortcut(inputs, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn3(self.conv3(self.bn2(self.conv2(y)).relu()))
        out: Tensor = (y + (x if self.downsample is None else self.downsample(x))).relu()
        return out


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


Block = type[BasicBlock] | type[Bottleneck]


def stage(
    block: type[BasicBlock] | type[Bottleneck], inputs: int, width: int, depth: int, stride: int
) -> nn.Sequential:
    first = block(inputs, width, stride)
    return nn.Sequential(first, *(block(width * block.widens, width) for _ in range(depth - 1)))


class ResNet(Network):
    """[N, 3, H, W] to z [N, 512] or [N, 2048]. `tiny_images` keeps 32×32 images from vanishing in the first layers."""

    def __init__(
        self,
        block: Block,
        depths: tuple[int, int, int, int],
        classes: int,
        *,
        tiny_images: bool = False,
    ) -> None:
        super().__init__()
        self.conv1 = conv(3, 64, 3) if tiny_images else nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if tiny_images else nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = stage(block, 64, 64, depths[0], 1)
        self.layer2 = stage(block, 64 * block.widens, 128, depths[1], 2)
        self.layer3 = stage(block, 128 * block.widens, 256, depths[2], 2)
        self.layer4 = stage(block, 256 * block.widens, 512, depths[3], 2)
        self.fc = nn.Linear(512 * block.widens, classes)
        initialised(self)

    def represent(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))

    @property
    def last(self) -> nn.Linear:
        return self.fc


def resnet18(classes: int = 10, *, tiny_images: bool = True) -> ResNet:
    return ResNet(BasicBlock, (2, 2, 2, 2), classes, tiny_images=tiny_images)


def resnet50(classes: int = 12) -> ResNet:
    return ResNet(Bottleneck, (3, 4, 6, 3), classes)


class SmallResNet(Network):
    """[N, 3, 32, 32] to z [N, 64]: one basic block a stage, a sixteenth of ResNet-18's width squared."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(3, 16, 3), nn.BatchNorm2d(16)
        self.stages = nn.Sequential(BasicBlock(16, 16), BasicBlock(16, 32, 2), BasicBlock(32, 64, 2))
        self.fc = nn.Linear(64, classes)
        initialised(self)

    def represent(self, x: Tensor) -> Tensor:
        z: Tensor = self.stages(self.bn1(self.conv1(x)).relu()).mean((2, 3))
        return z

    @property
    def last(self) -> nn.Linear:
        return self.fc
