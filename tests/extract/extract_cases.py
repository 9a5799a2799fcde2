"""Made models, images and texts that the tests of extraction share; NumPy and Pillow only."""

from __future__ import annotations

import filecmp
from pathlib import Path

import numpy as np
from PIL import Image

WEIGHT = np.random.default_rng(7).standard_normal((3, 4)).astype(np.float32)


def network(batch):
    """Features are the first four numbers of each row, logits a linear map of them."""
    z = np.asarray(batch, dtype=np.float32).reshape(len(batch), -1)[:, :4]
    return z, z @ WEIGHT.T


def torch_module():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(40, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))


def rows(n=100, d=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def differing(a: Path, b: Path) -> list[str]:
    """Files that are not byte for byte the same in two folders."""
    names = sorted({file.name for folder in (a, b) for file in folder.iterdir()})
    both = [n for n in names if (a / n).exists() and (b / n).exists()]
    return [n for n in names if n not in both or not filecmp.cmp(a / n, b / n, shallow=False)]


def image_folder(folder: Path, n=6, size=(12, 10), broken=()) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(n):
        pixels = np.random.default_rng(i).integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:02d}.png")
    for i in broken:
        file = folder / f"{i:02d}.png"
        file.write_bytes(file.read_bytes()[:60])
    return folder


def pixels(images):
    """A function of images [n, 3, height, width] in [0, 1]."""
    return network(np.asarray(images)[:, 0, 0, :6])
