"""The original data sets in the layouts that they are published in, for `--size full`."""

from __future__ import annotations

import gzip
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opcal.core.method import IntArray
from opcal.errors import InvalidInput, MissingDependency, PoolError

Images = NDArray[np.uint8]
PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}


def present(path: Path, what: str) -> Path:
    if not path.exists():
        raise PoolError(f"{path} is missing: --size full expects {what} there")
    return path


def image_folder(folder: Path, side: int = 224, *, most: int | None = None) -> tuple[Images, IntArray, list[str]]:
    """FOLDER/<class>/<picture>: resized to `side`·256/224, centre cropped; classes in alphabetical order.

    `most` takes so many pictures of each class, the first by name.
    """
    from PIL import Image

    classes = sorted(p.name for p in present(folder, "a folder a class with its pictures").iterdir() if p.is_dir())
    images, labels = [], []
    for label, name in enumerate(classes):
        files = [p for p in sorted((folder / name).iterdir()) if p.suffix.lower() in PICTURES]
        for path in files[:most]:
            with Image.open(path) as picture:
                images.append(_cropped(picture.convert("RGB"), side))
            labels.append(label)
    if not images:
        raise InvalidInput(f"{folder} holds no pictures: expected {folder}/<class>/<picture>.jpg")
    return np.stack(images), np.array(labels, dtype=np.intp), classes


def _cropped(picture: Any, side: int) -> Images:
    short = round(side * 256 / 224)
    scale = short / min(picture.size)
    width, height = (max(side, round(length * scale)) for length in picture.size)
    left, top = (width - side) // 2, (height - side) // 2
    resized = picture.resize((width, height), resample=2)  # bilinear
    return np.asarray(resized.crop((left, top, left + side, top + side)), np.uint8)


def cifar_binary(files: list[Path], classes: int) -> tuple[Images, IntArray]:
    """The binary version: a record is one label byte (CIFAR-100: coarse, then fine) and 3,072 of the image."""
    before = 2 if classes == 100 else 1
    parts = [np.fromfile(present(path, "CIFAR's binary version"), np.uint8) for path in files]
    for path, part in zip(files, parts, strict=True):
        if part.size % (before + 3072):
            raise InvalidInput(
                f"{path} has {part.size} bytes: expected records of {before + 3072}, as CIFAR-{classes}'s binary "
                f"version"
            )
    records = np.concatenate(parts).reshape(-1, before + 3072)
    images = records[:, before:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, before - 1].astype(np.intp)


def stl_binary(folder: Path, part: str) -> tuple[Images, IntArray]:
    """PART_X.bin, column-major 3×96×96 images, and PART_y.bin, labels from 1."""
    images = np.fromfile(present(folder / f"{part}_X.bin", "STL-10's binary files"), np.uint8)
    labels = np.fromfile(present(folder / f"{part}_y.bin", "STL-10's binary files"), np.uint8)
    if images.size != labels.size * 27648:
        raise InvalidInput(
            f"{folder}/{part}_X.bin has {images.size} bytes for {labels.size} labels: expected 27,648 each"
        )
    shaped = images.reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)
    return np.ascontiguousarray(shaped), labels.astype(np.intp) - 1


def usps_h5(path: Path) -> tuple[Images, IntArray]:
    """Groups train and test with data [N, 256] in [0, 1] and target [N]; both together."""
    try:
        import h5py
    except ImportError:
        raise MissingDependency("USPS comes as an .h5 file: pip install 'opcal[paper]' brings h5py") from None
    with h5py.File(present(path, "USPS as usps.h5"), "r") as file:
        groups = [file[name] for name in ("train", "test")]
        data = np.concatenate([group["data"][()] for group in groups])
        labels = np.concatenate([group["target"][()] for group in groups])
    return np.round(255 * data).astype(np.uint8).reshape(-1, 16, 16), labels.astype(np.intp)


def mnist_idx(folder: Path, part: str) -> tuple[Images, IntArray]:
    """PART-images-idx3-ubyte and PART-labels-idx1-ubyte, packed by gzip or not."""
    images = _idx(folder, f"{part}-images-idx3-ubyte")
    return images, _idx(folder, f"{part}-labels-idx1-ubyte").astype(np.intp)


def _idx(folder: Path, name: str) -> NDArray[np.uint8]:
    packed = folder / f"{name}.gz"
    content = gzip.decompress(packed.read_bytes()) if packed.exists() else present(folder / name, "MNIST").read_bytes()
    kind, dimensions = content[2], content[3]
    if content[:2] != b"\0\0" or kind != 8:
        raise InvalidInput(f"{folder / name} does not begin as an idx file of bytes does")
    shape = struct.unpack(f">{dimensions}I", content[4 : 4 + 4 * dimensions])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def digits_16(images: Images) -> Images:
    """28×28 digits as 16×16: one pixel of the margin is cut off, then resized (bilinear)."""
    from PIL import Image

    small = [np.asarray(Image.fromarray(i[1:27, 1:27]).resize((16, 16), resample=2)) for i in images]
    return np.stack(small).astype(np.uint8)


def polarity(folder: Path) -> tuple[list[str], IntArray, IntArray]:
    """FOLDER/neg/*.txt and FOLDER/pos/*.txt: texts, labels (0, 1) and the number of the IMDb page in the file's "
    "name."""
    texts, labels, pages = [], [], []
    for label, name in enumerate(("neg", "pos")):
        for path in sorted(present(folder / name, "Polarity's reviews").glob("*.txt")):
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
            labels.append(label)
            number = re.search(r"(\d+)\.txt$", path.name)
            pages.append(int(number.group(1)) if number else -1)
    if not texts:
        raise InvalidInput(f"{folder} holds no reviews: expected {folder}/neg/*.txt and {folder}/pos/*.txt")
    return texts, np.array(labels, dtype=np.intp), np.array(pages, dtype=np.intp)
