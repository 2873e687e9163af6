"""Images from outside as rows of a data set: what is drawn or photographed becomes what the network trained on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clew_agent.datasets.dataset import Rows, pixels

Grey = npt.NDArray[np.float64]

_INKED = 20 / 28
"""The share of MNIST's side that the longer side of a digit has (http://yann.lecun.com/exdb/mnist)."""
_INK = 16
"""Grey levels from which on a pixel counts as ink: below, it is the noise of a photograph."""


def as_row(image: npt.NDArray[np.uint8], shape: tuple[int, int, int], drawn: bool) -> Rows:
    """``image`` [height, width, 1 or 3] of 0 to 255 as a row of a data set whose images have this ``shape``.

    What is ``drawn``, or grey and of another size, is treated as MNIST's digits were: what has ink is scaled to a box
    of 20 of 28 pixels, and its centre of mass becomes the image's. Dark ink on light paper is turned round first. In
    colour the square in the middle is scaled. An image that has the size already stays as it is.
    """
    height, width, channels = shape
    seen = image.astype(np.float64)
    if channels == 1:
        seen = seen @ (np.array([0.299, 0.587, 0.114]) if seen.shape[2] == 3 else np.ones(1))
        if seen.shape != (height, width) or drawn:
            seen = _centred(seen if drawn else _on_black(seen), height, width)
    elif seen.shape[:2] != (height, width):
        side = min(seen.shape[:2])
        top, left = ((size - side) // 2 for size in seen.shape[:2])
        seen = _resized(seen[top : top + side, left : left + side], height, width)
    seen = np.broadcast_to(seen.reshape(height, width, -1), shape)
    rows: Rows = pixels(np.rint(np.clip(seen, 0, 255)).astype(np.uint8)[np.newaxis])
    row: Rows = rows[0]
    return row


def _on_black(image: Grey) -> Grey:
    border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
    return 255 - image if border.mean() > 127 else image


def _centred(image: Grey, height: int, width: int) -> Grey:
    rows, columns = (np.flatnonzero((image >= _INK).any(axis)) for axis in (1, 0))
    placed = np.zeros((height, width))
    if not rows.size:
        return placed
    inked = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scale = _INKED * min(height / inked.shape[0], width / inked.shape[1])
    small = _resized(inked, *(max(1, round(scale * size)) for size in inked.shape))
    places = (_place(small.sum(1), height), _place(small.sum(0), width))
    placed[places[0] : places[0] + small.shape[0], places[1] : places[1] + small.shape[1]] = small
    return placed


def _place(mass: Grey, size: int) -> int:
    """The first pixel of ``size`` for something with this ``mass`` along one axis, its centre in the middle, as far as
    all of it stays inside."""
    centre = float(mass @ np.arange(len(mass))) / max(float(mass.sum()), 1e-12)
    return int(np.clip(round((size - 1) / 2 - centre), 0, size - len(mass)))


def _resized(image: Grey, height: int, width: int) -> Grey:
    """The image [rows, columns, ...] in another size: linear between pixels, the mean of several where it shrinks."""
    down, across = _weights(image.shape[0], height), _weights(image.shape[1], width)
    tall = np.tensordot(down, image, (1, 0))
    resized: Grey = np.moveaxis(np.tensordot(tall, across, (1, 1)), -1, 1)  # a single einsum takes seconds
    return resized


def _weights(size: int, wanted: int) -> Grey:
    ratio = size / wanted
    centres = (np.arange(wanted) + 0.5) * ratio - 0.5
    near = np.maximum(0.0, 1 - np.abs(centres[:, None] - np.arange(size)[None, :]) / max(ratio, 1.0))
    weights: Grey = near / near.sum(1, keepdims=True)
    return weights
