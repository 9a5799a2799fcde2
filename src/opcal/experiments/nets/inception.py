"""Inception-v3 (Szegedy et al. 2016) with torchvision's names, so that its weights load; no auxiliary classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from opcal.experiments.nets.network import Network

Size = int | tuple[int, int]


class Conv(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: Size, stride: int = 1, padding: Size = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn(self.conv(x)).relu()
        return y


def pooled(x: Tensor) -> Tensor:
    return nn.functional.avg_pool2d(x, 3, stride=1, padding=1)


class InceptionA(nn.Module):
    def __init__(self, inputs: int, pool: int) -> None:
        super().__init__()
        self.branch1x1 = Conv(inputs, 64, 1)
        self.branch5x5_1, self.branch5x5_2 = Conv(inputs, 48, 1), Conv(48, 64, 5, padding=2)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Conv(inputs, 64, 1), Conv(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Conv(96, 96, 3, padding=1)
        self.branch_pool = Conv(inputs, pool, 1)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        parts = [self.branch1x1(x), self.branch5x5_2(self.branch5x5_1(x)), double, self.branch_pool(pooled(x))]
        return torch.cat(parts, 1)


class InceptionB(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3 = Conv(inputs, 384, 3, stride=2)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Conv(inputs, 64, 1), Conv(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Conv(96, 96, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, nn.functional.max_pool2d(x, 3, stride=2)], 1)


class InceptionC(nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        row, column = {"size": (1, 7), "padding": (0, 3)}, {"size": (7, 1), "padding": (3, 0)}
        self.branch1x1 = Conv(inputs, 192, 1)
        self.branch7x7_1 = Conv(inputs, width, 1)
        self.branch7x7_2 = Conv(width, width, **row)  # type: ignore[arg-type]
        self.branch7x7_3 = Conv(width, 192, **column)  # type: ignore[arg-type]
        self.branch7x7dbl_1 = Conv(inputs, width, 1)
        self.branch7x7dbl_2 = Conv(width, width, **column)  # type: ignore[arg-type]
        self.branch7x7dbl_3 = Conv(width, width, **row)  # type: ignore[arg-type]
        self.branch7x7dbl_4 = Conv(width, width, **column)  # type: ignore[arg-type]
        self.branch7x7dbl_5 = Conv(width, 192, **row)  # type: ignore[arg-type]
        self.branch_pool = Conv(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        single = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return torch.cat([self.branch1x1(x), single, double, self.branch_pool(pooled(x))], 1)


class InceptionD(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch3x3_1, self.branch3x3_2 = Conv(inputs, 192, 1), Conv(192, 320, 3, stride=2)
        self.branch7x7x3_1 = Conv(inputs, 192, 1)
        self.branch7x7x3_2 = Conv(192, 192, (1, 7), padding=(0, 3))
        self.branch7x7x3_3 = Conv(192, 192, (7, 1), padding=(3, 0))
        self.branch7x7x3_4 = Conv(192, 192, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        seven = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return torch.cat([self.branch3x3_2(self.branch3x3_1(x)), seven, nn.functional.max_pool2d(x, 3, stride=2)], 1)


class InceptionE(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch1x1 = Conv(inputs, 320, 1)
        self.branch3x3_1 = Conv(inputs, 384, 1)
        self.branch3x3_2a = Conv(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3_2b = Conv(384, 384, (3, 1), padding=(1, 0))
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Conv(inputs, 448, 1), Conv(448, 384, 3, padding=1)
        self.branch3x3dbl_3a = Conv(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3dbl_3b = Conv(384, 384, (3, 1), padding=(1, 0))
        self.branch_pool = Conv(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        one, two = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        parts = [self.branch1x1(x), self.branch3x3_2a(one), self.branch3x3_2b(one)]
        return torch.cat([*parts, self.branch3x3dbl_3a(two), self.branch3x3dbl_3b(two), self.branch_pool(pooled(x))], 1)


class InceptionV3(Network):
    """[N, 3, 299, 299] (or 224) to z [N, 2048]."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = Conv(3, 32, 3, stride=2)
        self.Conv2d_2a_3x3, self.Conv2d_2b_3x3 = Conv(32, 32, 3), Conv(32, 64, 3, padding=1)
        self.Conv2d_3b_1x1, self.Conv2d_4a_3x3 = Conv(64, 80, 1), Conv(80, 192, 3)
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = InceptionA(192, 32), InceptionA(256, 64), InceptionA(288, 64)
        self.Mixed_6a, self.Mixed_6b, self.Mixed_6c = InceptionB(288), InceptionC(768, 128), InceptionC(768, 160)
        self.Mixed_6d, self.Mixed_6e = InceptionC(768, 160), InceptionC(768, 192)
        self.Mixed_7a, self.Mixed_7b, self.Mixed_7c = InceptionD(768), InceptionE(1280), InceptionE(2048)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(2048, classes)

    def represent(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))), 3, stride=2)
        x = nn.functional.max_pool2d(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)), 3, stride=2)
        for part in (self.Mixed_5b, self.Mixed_5c, self.Mixed_5d, self.Mixed_6a, self.Mixed_6b, self.Mixed_6c):
            x = part(x)
        for part in (self.Mixed_6d, self.Mixed_6e, self.Mixed_7a, self.Mixed_7b, self.Mixed_7c):
            x = part(x)
        z: Tensor = self.dropout(x.mean((2, 3)))
        return z

    @property
    def last(self) -> nn.Linear:
        return self.fc
