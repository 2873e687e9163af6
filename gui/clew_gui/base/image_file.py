"""Image files of a person's own, as they are sent to a run's network."""

from __future__ import annotations

from pathlib import Path

from clew_shared.base.foreign import open_regular
from clew_shared.base.installation import how_to_install
from clew_shared.base.problem import ProblemError, problem
from clew_shared.wire.messages import MAX_TRIED_BYTES, TryRun

_SIDE = int((MAX_TRIED_BYTES // 3) ** 0.5)
"""Pixels of the longer side of an image that is sent: a larger one is made smaller."""


def read_image(run: str, path: Path) -> TryRun:
    """The image in a file as a question to ``run``, upright, on white where it is transparent. Raises ``ProblemError``
    for a file that is no image."""
    try:
        from PIL import Image

        from clew_shared.base import image_files
    except ImportError:
        text = "Images are read with Pillow, which this Python environment lacks."
        raise problem("data.pillow", text, f"{how_to_install('pillow')}.", str(path)) from None
    try:
        with open_regular(path) as file, Image.open(file, formats=image_files.FORMATS) as opened:
            if large := image_files.too_large(opened):
                raise problem("try.file", f"{path} cannot be read: {large}.", "Make it smaller first.", str(path))
            opened.draft("RGB", (_SIDE, _SIDE))  # of a JPEG no more is decoded than is needed
            image = image_files.upright(opened)
            image.thumbnail((_SIDE, _SIDE))
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    except ProblemError:
        raise
    except Exception as error:  # noqa: BLE001  # Pillow lets through whatever a broken file leads to
        text = f"{path} is not a readable image: {image_files.why_unreadable(error)}."
        raise problem("try.file", text, f"Known formats: {', '.join(image_files.FORMATS)}.", str(path)) from None
    return TryRun(run=run, width=image.width, height=image.height, pixels=image.tobytes())
