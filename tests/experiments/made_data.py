"""A made data folder with the names and shapes of the real one, small enough to train on in a second."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

WORDS = ["good", "fine", "great", "bad", "dull", "poor", "film", "plot", "actor", "scene", "the", "a"]


def patterns(rng, n, classes, shape, noise):
    """Images that are noisy copies of one pattern a class."""
    base = np.random.default_rng(0).integers(0, 256, (classes, *shape))
    labels = np.arange(n) % classes
    images = base[labels] * (1 - noise) + rng.integers(0, 256, (n, *shape)) * noise
    return images.astype(np.uint8), labels.astype(np.uint8)


def features(rng, labels, classes, d, shift=0.0):
    centres = np.random.default_rng(1).standard_normal((classes, d))
    return (centres[labels] + shift + rng.standard_normal((len(labels), d))).astype(np.float16)


def pacs(rng):
    found = {"classes": np.array(list("abcdefg"))}
    for name, n, shift in (("photo", 900, 0.0), ("art_painting", 150, 0.4)):
        labels = np.arange(n) % 7
        jpegs = []
        for i in range(n):
            file = io.BytesIO()
            Image.fromarray(np.full((8, 8, 3), i % 256, np.uint8)).save(file, "JPEG")
            jpegs.append(np.frombuffer(file.getvalue(), np.uint8))
        found |= {
            f"feat_{name}": features(rng, labels, 7, 10, shift),
            f"y_{name}": labels.astype(np.uint8),
            f"jpeg_{name}": np.concatenate(jpegs),
            f"offset_{name}": np.concatenate([[0], np.cumsum([len(j) for j in jpegs])]),
        }
    return found


def imagenet(rng, classes=60):
    labels = np.repeat(np.arange(classes), 4)
    w = np.random.default_rng(1).standard_normal((classes, 10))
    return {
        "feat_orig": features(rng, labels, classes, 10),
        "feat_down": features(rng, labels, classes, 10, 0.3),
        "y": labels.astype(np.int16),
        "W": w.astype(np.float16),
        "b": np.zeros(classes, np.float32),
    }


def review(rng, label):
    liked = WORDS[:3] if label else WORDS[3:6]
    return " ".join(rng.choice([*liked, *WORDS[6:]], 30))


def write_reviews(folder: Path, rng) -> None:
    for version, n in (("v1", 80), ("v2", 100)):
        with gzip.open(folder / f"polarity_{version}.jsonl.gz", "wt", encoding="utf-8") as file:
            for i in range(n):
                row = {"id": str(i), "html": i, "label": i % 2, "text": review(rng, i % 2)}
                file.write(json.dumps(row | ({"in_v1": int(i < 40)} if version == "v2" else {})) + "\n")


def write(folder: Path) -> Path:
    rng = np.random.default_rng(7)

    def put(name: str, **arrays) -> None:
        np.savez(folder / name, **arrays)

    def parts(sizes, classes, shape, noise=0.4):
        found = {}
        for part, n in sizes.items():
            found[f"x_{part}"], found[f"y_{part}"] = patterns(rng, n, classes, shape, noise)
        return found

    put("mnist.npz", **parts({"train": 120, "test": 60}, 10, (28, 28)))
    x, y = patterns(rng, 120, 10, (16, 16), 0.5)
    put("usps.npz", x=x, y=y)
    put("cifar10.npz", **parts({"train": 120, "test": 60}, 10, (32, 32, 3)))
    x, y = patterns(rng, 90, 10, (32, 32, 3), 0.6)
    put("stl10_32.npz", x=x, y_cifar=np.where(y == 6, -1, y).astype(np.int8))
    put("cifar100.npz", **parts({"train": 200, "test": 200}, 100, (32, 32, 3), 0.2))
    put("pacs_effnetlite0.npz", **pacs(rng))
    put("imagenet_val_effnetlite0.npz", **imagenet(rng))
    write_reviews(folder, rng)
    return folder
