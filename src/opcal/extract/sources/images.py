"""A folder of images, or a list of image files: Pillow reads them, turned upright by their EXIF orientation."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa

from opcal.errors import DataError, MissingDependency
from opcal.extract.rows import Rows, Skipped, in_batches

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".jp2"})


@dataclass(frozen=True)
class ImageFolder:
    """Every image below a folder, in the order of its path; the path is the id, the full path the payload."""

    folder: Path
    kind: str = "images"
    anywhere: bool = True

    @property
    def name(self) -> str:
        return str(self.folder)

    @property
    def count(self) -> int:
        return len(self._paths)

    def fingerprint(self) -> str:
        return checksum(self._paths)

    @cached_property
    def _paths(self) -> list[str]:
        """Relative paths only: 1,000,000 of them take about 100 MB, and their order must be known."""
        found = sorted(_below(self.folder))
        if not found:
            raise DataError(f"{self.folder} holds no image ({', '.join(sorted(SUFFIXES))}): name another folder")
        return found

    def batches(self, start: int, stop: int | None, size: int) -> Iterator[Callable[[], Rows]]:
        return in_batches(self._read, start, self.count if stop is None else min(stop, self.count), size)

    def _read(self, start: int, stop: int) -> Rows:
        ids = self._paths[start:stop]
        return read_images(start, stop, ids, [str((self.folder / path).resolve()) for path in ids])


@dataclass(frozen=True)
class ImageFiles:
    """Image files by name."""

    paths: Sequence[str | Path]
    kind: str = "images"
    anywhere: bool = True
    name: str = "the list of image files"

    @property
    def count(self) -> int:
        return len(self.paths)

    def fingerprint(self) -> str:
        return checksum(str(path) for path in self.paths)

    def batches(self, start: int, stop: int | None, size: int) -> Iterator[Callable[[], Rows]]:
        return in_batches(self._read, start, self.count if stop is None else min(stop, self.count), size)

    def _read(self, start: int, stop: int) -> Rows:
        paths = [str(path) for path in self.paths[start:stop]]
        return read_images(start, stop, paths, paths)


def checksum(texts: Iterable[str]) -> str:
    value = 0
    for text in texts:
        value = zlib.crc32(text.encode(errors="surrogatepass") + b"\0", value)
    return f"{value:08x}"


def _below(folder: Path) -> Iterator[str]:
    for place, _, files in os.walk(folder, followlinks=True):
        inside = Path(place).relative_to(folder)
        for file in files:
            if Path(file).suffix.lower() in SUFFIXES and not file.startswith("."):
                yield (inside / file).as_posix()


def read_images(
    start: int, stop: int, ids: Sequence[str], given: Sequence[Any], columns: pa.Table | None = None
) -> Rows:
    """Images from paths or bytes; what cannot be read is listed with its reason."""
    images, kept, skipped = [], [], []
    for i, (text, what) in enumerate(zip(ids, given, strict=True)):
        try:
            images.append(open_image(what))
            kept.append(i)
        except (OSError, ValueError, SyntaxError, EOFError, TypeError, _bomb()) as error:
            skipped.append(Skipped(text, f"the image cannot be read ({_short(error)})"))
    if columns is None:
        columns = pa.table({"id": pa.array(ids, pa.string()), "payload": pa.array(given, pa.string())})
    return Rows(start, stop, images, columns.take(kept) if skipped else columns, skipped)


def open_image(what: Any) -> Any:
    """The whole image in memory, upright: a truncated file fails here and not later."""
    image_module, ops = pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd EXIF data; what matters raises
        if what is None:
            raise ValueError("there is none")
        with image_module.open(BytesIO(what) if isinstance(what, bytes) else what) as image:
            image.load()
            return ops.exif_transpose(image)


def pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise MissingDependency("images need Pillow: pip install 'opcal[images]'") from error
    return Image, ImageOps


def _bomb() -> type[Exception]:
    return pillow()[0].DecompressionBombError  # type: ignore[no-any-return]


def _short(error: BaseException) -> str:
    return str(error).split(" '", 1)[0].split(" <", 1)[0] or type(error).__name__
