"""From the items of a source to one batch of NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opcal.errors import DataError, InvalidInput
from opcal.extract.models.options import ImageOptions
from opcal.extract.sources.images import pillow


def is_image(value: Any) -> bool:
    return type(value).__module__.startswith("PIL.")


def image_batch(images: Sequence[Any], options: ImageOptions) -> NDArray[np.float32]:
    """[n, channels, height, width] in [0, 1], normalised where mean and std are given."""
    found = [_pixels(image, options) for image in images]
    shapes = {pixels.shape for pixels in found}
    if len(shapes) > 1:
        raise DataError(
            f"the images differ in size ({_sizes(shapes)}): pass --size HEIGHTxWIDTH (size=(h, w)) as the model expects"
        )
    batch = np.stack(found).transpose(0, 3, 1, 2).astype(np.float32)
    batch /= 255
    for name, values in (("mean", options.mean), ("std", options.std)):
        if values is not None and len(values) not in (1, options.channels):
            raise InvalidInput(f"{name} has {len(values)} numbers: expected one, or one for each channel")
    if options.mean is not None:
        batch -= np.asarray(options.mean, np.float32).reshape(-1, 1, 1)
    if options.std is not None:
        batch /= np.asarray(options.std, np.float32).reshape(-1, 1, 1)
    return np.ascontiguousarray(batch)


def _pixels(image: Any, options: ImageOptions) -> NDArray[np.uint8]:
    image = image.convert("L" if options.channels == 1 else "RGB")
    if options.size is not None:
        image = _resized(image, *options.size, crop=options.crop)
    pixels = np.asarray(image)
    return pixels[..., None] if options.channels == 1 else pixels


def _resized(image: Any, height: int, width: int, *, crop: bool) -> Any:
    bilinear = pillow()[0].Resampling.BILINEAR
    if not crop:
        return image if image.size == (width, height) else image.resize((width, height), bilinear)
    scale = max(height / image.height, width / image.width)
    grown = (max(width, round(image.width * scale)), max(height, round(image.height * scale)))
    image = image.resize(grown, bilinear)
    left, top = (grown[0] - width) // 2, (grown[1] - height) // 2
    return image.crop((left, top, left + width, top + height))


def _sizes(shapes: set[tuple[int, ...]]) -> str:
    return ", ".join(sorted(f"{h}x{w}" for h, w, _ in shapes)[:4])


def array_batch(values: Any, options: ImageOptions) -> Any:
    """An array of the values, whatever they are; float64 becomes float32."""
    if isinstance(values, (list, tuple)) and values and is_image(values[0]):
        return image_batch(values, options)
    if isinstance(values, (list, tuple)) and values and isinstance(values[0], (tuple, list)):
        values = [value[0] for value in values]  # (input, label) pairs
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DataError(f"the data hold {array.dtype}: the model takes numbers; pass a transform, or other columns")
    return array.astype(np.float32) if array.dtype == np.float64 else array
