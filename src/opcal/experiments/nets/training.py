"""Training that a stop does not undo: a checkpoint after each epoch, and the same bytes whether stopped or not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from opcal.experiments.nets.network import Network
from opcal.experiments.store import whole

Augment = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Recipe:
    epochs: int
    rate: float = 1e-3
    batch: int = 64
    decay: float = 1e-4
    augment: Augment | None = None


def train(network: Network, x: Tensor, labels: np.ndarray, recipe: Recipe, seed: int, checkpoint: Path | None) -> None:
    """AdamW with one cosine from `rate` to 0, in place; `checkpoint` is read where it is there and removed at the "
    "end."""
    y = torch.from_numpy(np.asarray(labels)).long()
    optimiser = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    first = resumed(network, optimiser, checkpoint)
    for epoch in range(first, recipe.epochs):
        run_epoch(network, optimiser, x, y, recipe, seed, epoch)
        if checkpoint is not None:
            kept = {"epoch": epoch + 1, "network": network.state_dict(), "optimiser": optimiser.state_dict()}
            with whole(checkpoint) as temporary:
                torch.save(kept, temporary)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    network.eval()


def resumed(network: nn.Module, optimiser: torch.optim.Optimizer, checkpoint: Path | None) -> int:
    """The epoch to go on with; a checkpoint that cannot be read is as good as none."""
    if checkpoint is None or not checkpoint.exists():
        return 0
    try:
        kept: dict[str, Any] = torch.load(checkpoint, weights_only=True)
    except Exception:  # torch raises whatever comes first in a broken file
        return 0
    network.load_state_dict(kept["network"])
    optimiser.load_state_dict(kept["optimiser"])
    return int(kept["epoch"])


def run_epoch(
    network: Network, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor, recipe: Recipe, seed: int, epoch: int
) -> None:
    """Order, augmentation and dropout follow from seed and epoch alone, so that an epoch can be run again."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + epoch)
    torch.manual_seed(7_919 * seed + epoch)
    order = torch.randperm(len(y), generator=generator)
    steps = max(1, len(y) // recipe.batch)
    network.train()
    for step in range(steps):
        rows = order[step * recipe.batch : (step + 1) * recipe.batch] if steps > 1 else order
        for group in optimiser.param_groups:
            done = (epoch + step / steps) / recipe.epochs
            group["lr"] = recipe.rate * 0.5 * (1 + math.cos(math.pi * done))
        batch = x[rows] if recipe.augment is None else recipe.augment(x[rows], generator)
        optimiser.zero_grad()
        logits = network(batch.to(network.device))
        nn.functional.cross_entropy(logits, y[rows].to(network.device)).backward()
        optimiser.step()


def shifted_and_flipped(x: Tensor, generator: torch.Generator) -> Tensor:
    """Each image [N, C, H, W] shifted by up to an eighth of its side and mirrored with probability ½."""
    return _moved(x, generator, x.shape[-1] // 8, mirror=True)


def shifted(x: Tensor, generator: torch.Generator) -> Tensor:
    """Each image shifted by at most one pixel: digits are no longer themselves in a mirror."""
    return _moved(x, generator, 1, mirror=False)


def _moved(x: Tensor, generator: torch.Generator, most: int, *, mirror: bool) -> Tensor:
    n, _, height, width = x.shape
    padded = nn.functional.pad(x, (most,) * 4, mode="replicate")
    dy, dx = (torch.randint(0, 2 * most + 1, (n, 1), generator=generator) for _ in range(2))
    rows, columns = dy + torch.arange(height), dx + torch.arange(width)
    if mirror:
        flip = torch.rand(n, 1, generator=generator) < 0.5
        columns = torch.where(flip, columns.flip(1), columns)
    at = torch.arange(n)[:, None, None]
    return padded.permute(0, 2, 3, 1)[at, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def words_dropped(x: Tensor, generator: torch.Generator) -> Tensor:
    """A tenth of the tokens [N, T] becomes unknown (1)."""
    gone = (torch.rand(x.shape, generator=generator) < 0.1) & (x > 0)
    return torch.where(gone, torch.ones_like(x), x)


def counts_dropped(x: Tensor, generator: torch.Generator) -> Tensor:
    """A tenth of the words [N, V] is left out."""
    return x * (torch.rand(x.shape, generator=generator) >= 0.1)
