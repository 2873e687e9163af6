"""An image file becomes what a run's network is asked: upright, in all its grey values, and no larger than is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clew_gui.base.image_file import read_image
from clew_shared.base.problem import ProblemError
from clew_shared.wire.messages import TryRun

_ORIENTATION = 0x0112
_HELD_RIGHT = 6


def pixels_of(asked: TryRun) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.frombuffer(asked.pixels, np.uint8).reshape(asked.height, asked.width, 3)


def test_a_photo_is_turned_as_its_camera_was_held(tmp_path: Path) -> None:
    photo = Image.new("RGB", (300, 200))
    photo.paste((255, 255, 255), (0, 0, 300, 40))
    exif = photo.getexif()
    exif[_ORIENTATION] = _HELD_RIGHT
    photo.save(tmp_path / "photo.jpg", exif=exif)
    shown = pixels_of(read_image("r", tmp_path / "photo.jpg"))
    assert shown.shape == (104, 69, 3)
    assert shown[:, -8:].mean() > 240
    assert shown[:, :50].mean() < 15


def test_grey_values_of_16_bits_are_scaled_and_not_cut_off(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 10_000, 40_000]], np.uint16)).save(tmp_path / "deep.png")
    assert pixels_of(read_image("r", tmp_path / "deep.png"))[0, :, 0].tolist() == [0, 64, 255]


def test_what_is_transparent_is_paper(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1), 1)
    image.putpalette([0, 0, 0, 200, 100, 50])
    image.putpixel((0, 0), 0)
    image.save(tmp_path / "two.png", transparency=0)
    assert pixels_of(read_image("r", tmp_path / "two.png")).tolist() == [[[255, 255, 255], [200, 100, 50]]]


def test_an_image_with_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("1", (16_000, 12_000)).save(path)
    with pytest.raises(ProblemError, match="it has 16,000 × 12,000 pixels, more than 50,000,000"):
        read_image("r", path)


def test_what_is_no_image_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    for path, words in (
        (tmp_path / "text.png", "none of the formats"),
        (tmp_path, "a folder"),
        (tmp_path / "x", "No "),
    ):
        with pytest.raises(ProblemError, match=f"is not a readable image: .*{words}"):
            read_image("r", path)
