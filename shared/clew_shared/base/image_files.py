"""Image files as Pillow reads them, for data sets and for what is tried with a run: formats, size, grey values."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""The formats that a file may have, whatever it is called. Pillow would give PostScript to Ghostscript, which runs
it."""
DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
"""Pillow's modes of grey images with more than 8 bits."""
_MOST_PIXELS = 50_000_000
"""Largest number of pixels of an image; most cameras have half as many."""

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
    """The image turned as its camera was held. Grey values of more than 8 bits are scaled, from the smallest to the
    largest, where Pillow itself would cut off all above 255; of a palette, a colour may be transparent."""
    turned = ImageOps.exif_transpose(image)
    if turned.mode not in DEEP:
        return turned.convert("RGBA") if turned.mode == "P" else turned
    values = np.nan_to_num(np.asarray(turned, np.float64))
    low, high = values.min(), values.max()
    scaled = np.rint((values - low) * (255 / (high - low if high > low else 1)))
    return Image.fromarray(scaled.astype(np.uint8))
