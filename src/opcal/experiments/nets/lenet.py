"""LeNet-5 (LeCun et al. 1998) with rectifiers, as the authors used it; full size at 16×16 already."""

from __future__ import annotations

from torch import Tensor, nn

from opcal.experiments.nets.network import Network


class LeNet5(Network):
    """[N, 1, 16, 16] (or 28×28, 32×32) to z [N, 84]."""

    def __init__(self, classes: int = 10, side: int = 16) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        width = (side // 2 - 4) // 2
        self.fc1 = nn.Linear(16 * width * width, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def represent(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        z: Tensor = self.fc2(self.fc1(x.flatten(1)).relu()).relu()
        return z

    @property
    def last(self) -> nn.Linear:
        return self.fc3
