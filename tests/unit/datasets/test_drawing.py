"""Drawings and image files as rows of a data set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from clew_agent.datasets.drawing import as_row

MNIST = (28, 28, 1)


def stroke(height: int, width: int, *box: int) -> npt.NDArray[np.uint8]:
    """White ink in the box (top, bottom, left, right) of a black image."""
    image = np.zeros((height, width, 1), np.uint8)
    top, bottom, left, right = box
    image[top:bottom, left:right] = 255
    return image


def test_an_image_of_the_sets_own_size_is_what_the_set_itself_would_read() -> None:
    image = np.arange(28 * 28, dtype=np.uint8).reshape(28, 28, 1)
    row = as_row(image, MNIST, drawn=False)
    assert row.dtype == np.float32
    assert np.array_equal(row, image.reshape(-1) / 256)


@pytest.mark.parametrize("box", [(2, 62, 5, 25), (50, 110, 80, 100)])
def test_a_drawing_is_scaled_to_twenty_pixels_about_its_centre_of_mass(box: tuple[int, ...]) -> None:
    image = as_row(stroke(112, 112, *box), MNIST, drawn=True).reshape(28, 28)
    rows, columns = np.flatnonzero(image.max(1) > 0.5), np.flatnonzero(image.max(0) > 0.5)
    assert len(rows) == 20
    assert len(columns) == 7
    places = np.arange(28)
    assert abs(image.sum(1) @ places / image.sum() - 13.5) <= 0.5
    assert abs(image.sum(0) @ places / image.sum() - 13.5) <= 0.5
    assert image.max() == pytest.approx(255 / 256)


def test_dark_ink_on_light_paper_is_turned_round_in_grey_and_in_colour() -> None:
    drawn = stroke(60, 90, 10, 50, 20, 30)
    light = 255 - drawn
    wanted = as_row(drawn, MNIST, drawn=False)
    assert wanted.max() > 0.9
    assert np.allclose(as_row(light, MNIST, drawn=False), wanted)
    assert np.allclose(as_row(np.repeat(light, 3, 2), MNIST, drawn=False), wanted, atol=1 / 256)


def test_nothing_drawn_is_a_black_image() -> None:
    assert not as_row(np.zeros((112, 112, 1), np.uint8), MNIST, drawn=True).any()


def test_a_photograph_for_colour_images_is_the_square_in_its_middle() -> None:
    photo = np.zeros((40, 80, 3), np.uint8)
    photo[:, 20:60] = (200, 100, 50)
    row = as_row(photo, (32, 32, 3), drawn=False).reshape(32, 32, 3)
    assert np.allclose(row, np.array([200, 100, 50]) / 256)
    assert np.allclose(as_row(photo[:, 20:60, :1], (8, 8, 3), drawn=False), 200 / 256)
