"""What all networks share: a representation, and a last linear layer that reads the logits from it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from opcal.core.method import FloatArray


class Network(nn.Module):
    """`represent` gives z, the output of the last hidden layer; `last` is the layer after it."""

    def represent(self, x: Tensor) -> Tensor:
        """[N, …] to z [N, d]."""
        raise TypeError(f"{type(self).__name__} must say what its representation is")

    @property
    def last(self) -> nn.Linear:
        """The layer that makes logits of z."""
        raise TypeError(f"{type(self).__name__} must say which layer is its last")

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.represent(x))
        return logits

    @property
    def head(self) -> tuple[FloatArray, FloatArray]:
        weight, bias = (p.detach().cpu().numpy().copy() for p in (self.last.weight, self.last.bias))
        return weight, bias

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


def initialised(module: nn.Module) -> None:
    """He's normal weights for convolutions, ones and zeros for normalisations."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(part, nn.BatchNorm2d):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)


def image_tensor(
    images: np.ndarray, mean: tuple[float, ...] = (0.5,), deviation: tuple[float, ...] = (0.25,)
) -> Tensor:
    """uint8 [N, H, W] or [N, H, W, 3] to float [N, C, H, W]."""
    x = torch.from_numpy(np.ascontiguousarray(images)).float().div_(255)
    x = x.unsqueeze(1) if x.ndim == 3 else x.permute(0, 3, 1, 2)
    shape = (1, -1, 1, 1)
    return ((x - torch.tensor(mean).reshape(shape)) / torch.tensor(deviation).reshape(shape)).contiguous()


def token_tensor(tokens: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(tokens)).long()


def count_tensor(counts: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(counts)).float()
