"""What a payload shows: an image below the media folder, a text, a link. Asked for by item, never by path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from opcal.web.security import Refusal

if TYPE_CHECKING:
    from PIL.Image import Image as Opened

IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"})
TEXTS = frozenset({".txt", ".md"})
AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
"""Formats that browsers show; the others that Pillow reads are sent as PNG."""
READ = (*AS_THEY_ARE, "BMP", "TIFF")
MAX_PIXELS = 50_000_000
MAX_BYTES = 200_000_000
MAX_TEXT = 1_000_000
THUMBNAIL = 160
_LINK = re.compile(r"https?://\S+\Z")


@dataclass(frozen=True)
class Image:
    kind: str
    content: bytes


def what_it_is(payload: str | None) -> str:
    """image, file (of text), link, text or nothing."""
    if not payload:
        return "nothing"
    if _LINK.match(payload):
        return "link"
    ending = Path(payload).suffix.lower() if len(payload) < 1024 and "\n" not in payload else ""
    return "image" if ending in IMAGES else "file" if ending in TEXTS else "text"


def located(root: Path | None, payload: str) -> Path:
    """The file that a payload names, below the root once all links are followed; else there is nothing."""
    if root is None or "\0" in payload:
        raise Refusal(404)
    try:
        base = root.resolve(strict=True)
        found = (base / payload).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise Refusal(404) from None
    if not found.is_relative_to(base) or not found.is_file() or found.suffix.lower() not in IMAGES | TEXTS:
        raise Refusal(404)
    return found


def text_of(root: Path | None, payload: str) -> str:
    """A file of text, its beginning where it is long."""
    with located(root, payload).open("rb") as file:
        return file.read(MAX_TEXT).decode("utf-8", "replace")


def image_of(root: Path | None, payload: str) -> Image:
    """Opened and judged by its content, never by its name; SVG and HTML are no images here."""
    file = located(root, payload)
    if file.stat().st_size > MAX_BYTES:
        raise Refusal(413, "This image is too large to be shown.")
    content = file.read_bytes()
    from PIL import Image as Pillow

    try:
        opened = Pillow.open(BytesIO(content), formats=READ)
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning):
        raise Refusal(413, "Images above 50 megapixels are not shown.") from None
    except Exception:  # Pillow's readers fail in many ways on broken files
        raise Refusal(415, "This file is no image that can be shown.") from None
    with opened:
        if opened.width * opened.height > MAX_PIXELS:
            raise Refusal(413, "Images above 50 megapixels are not shown.")
        kind = opened.format or ""
        return Image(AS_THEY_ARE[kind], content) if kind in AS_THEY_ARE else Image("image/png", _png(opened))


def thumbnail(root: Path | None, payload: str) -> Image:
    file = located(root, payload)
    return _thumbnail(root, payload, file.stat().st_mtime_ns)


@lru_cache(maxsize=2000)
def _thumbnail(root: Path | None, payload: str, changed: int) -> Image:
    from PIL import Image as Pillow

    try:
        with Pillow.open(BytesIO(image_of(root, payload).content), formats=READ) as opened:
            small = _shown(opened)
            small.thumbnail((THUMBNAIL, THUMBNAIL))
            return Image("image/png", _png(small))
    except (OSError, ValueError, SyntaxError):
        raise Refusal(415, "This file is no image that can be shown.") from None


def _shown(opened: Opened) -> Opened:
    """In eight bits a channel: deeper greys are stretched over their own range."""
    if opened.mode.startswith(("I", "F")):
        import numpy as np
        from PIL import Image as Pillow

        grey = np.asarray(opened, dtype=np.float64)
        low, high = float(grey.min()), float(grey.max())
        return Pillow.fromarray(((grey - low) * (255 / max(high - low, 1e-9))).astype(np.uint8))
    return opened.convert("RGBA" if "A" in opened.getbands() or opened.mode == "P" else "RGB")


def _png(opened: Opened) -> bytes:
    out = BytesIO()
    try:
        _shown(opened).save(out, "PNG")
    except (OSError, ValueError, SyntaxError):
        raise Refusal(415, "This file is no image that can be shown.") from None
    return out.getvalue()
