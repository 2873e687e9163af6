"""Image files as Pillow reads them, for data sets and for what is tried with a run: formats, size, grey values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""The formats that a file may have, whatever it is called. Pillow would give PostScript to Ghostscript, which runs
it."""
DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
"""Pillow's modes of grey images with more than 8 bits."""
_MOST_PIXELS = 50_000_000
"""Largest number of pixels of an image; most cameras have half as many. Pillow has up to four bytes for each, and twice
as many where it converts them."""
_STRIP = 1 << 20
"""Pixels of more than 8 bits that are scaled at once."""

Image.MAX_IMAGE_PIXELS = (
    None  # Pillow's own limit warns at some sizes; ``too_large`` is asked before anything is decoded
)


def too_large(image: Image.Image) -> str:
    """Says that the image has too many pixels to be decoded; nothing if it has not."""
    width, height = image.size
    large = width * height > _MOST_PIXELS
    return f"it has {width:,} × {height:,} pixels, more than {_MOST_PIXELS:,} in all" if large else ""


def why_unreadable(error: Exception) -> str:
    """Says why Pillow could not read a file; whatever a broken one leads to comes as an exception of any kind."""
    words = "it has none of the formats that are read" if isinstance(error, UnidentifiedImageError) else str(error)
    return words[:200] or type(error).__name__


def upright(image: Image.Image) -> Image.Image:
    """The image, which may be changed itself, turned as its camera was held. Grey values of more than 8 bits are
    scaled, from the smallest to the largest, where Pillow itself would cut off all above 255; of a palette, a colour
    may be transparent."""
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode not in DEEP:
        return image.convert("RGBA") if image.mode == "P" else image
    low = min(float(rows.min()) for _, rows in _strips(image))
    high = max(float(rows.max()) for _, rows in _strips(image))
    scaled = np.empty((image.height, image.width), np.uint8)
    for top, rows in _strips(image):
        scaled[top : top + len(rows)] = np.rint((rows - low) * (255 / (high - low if high > low else 1)))
    return Image.fromarray(scaled)


def _strips(image: Image.Image) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """Yields some rows of grey values at a time, and which is the first: all in float64 would take too much memory."""
    count = max(1, _STRIP // image.width)
    for top in range(0, image.height, count):
        box = (0, top, image.width, min(top + count, image.height))
        yield top, np.nan_to_num(np.asarray(image.crop(box), np.float64))
