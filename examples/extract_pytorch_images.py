"""A PyTorch model and a folder of images: from both to a pool, in one forward pass.

    python examples/extract_pytorch_images.py

needs `pip install "opcal[torch]"`. The network has random weights and the images are noise: put yours in their place.
The same from the command line: opcal extract examples/extract_pytorch_images.py:make photos/ --size 32 --out pool
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from opcal.extract import extract


def make() -> nn.Module:
    """Any module will do; here is where yours is built and its weights loaded."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 4),
    )  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder) / "photos"
        photos.mkdir()
        rng = np.random.default_rng(0)
        for i in range(40):
            Image.fromarray(rng.integers(0, 256, (40, 48, 3), dtype=np.uint8)).save(photos / f"{i:02d}.jpg")

        found = extract(
            make(),
            photos,
            out=Path(folder) / "pool",
            size=32,  # resized, then to [0, 1]; mean= and std= normalise; transform= replaces all of it
            classes=["ant", "bee", "cat", "dog"],
            on_bad="skip",  # broken files are left out and listed in found.skipped
            resume=True,  # after a kill, the same line goes on where it was
        )
        print(found.representation)  # the input of 6 (Linear), 32 numbers
        print(found.pool, found.pool.payload[0] if found.pool.payload else None)


if __name__ == "__main__":
    main()
