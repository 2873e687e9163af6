"""``digits``: 1,797 real handwritten digits of 8×8 pixels that ship inside scikit-learn, shown as 28×28.

So every MNIST exercise runs on a machine without data and without internet. To a site the laptop brings the file along
with the agent, so that no scikit-learn is needed there. Source: E. Alpaydin and C. Kaynak, Optical Recognition of
Handwritten Digits, UCI Machine Learning Repository (1998), test part, as in scikit-learn's ``digits.csv.gz``. In file
order the first 1,200 train, the next 297 validate, the last 300 test.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from clew_agent.datasets.dataset import DataSet, Split, check_labels, junk, pixels
from clew_agent.datasets.files import digest, read_bytes
from clew_shared.cards import DataSetCard

CARD = DataSetCard(
    name="digits",
    title="Digits",
    order=2,
    packaged="sklearn/datasets/data/digits.csv.gz",
    package="scikit-learn",
)
SMALL = 8
FACTOR = 3
BORDER = 2
SIDE = SMALL * FACTOR + 2 * BORDER
COUNT = 1797
TRAIN, VALIDATION = 1200, 297
CLASSES = 10


def read(path: Path) -> DataSet:
    """The data set from scikit-learn's file. Raises ``ProblemError`` when that is damaged."""
    images, labels = _parse(read_bytes(path, 4 << 20), path)
    x, y = pixels(enlarge(images)), check_labels(labels, COUNT, CLASSES, lambda found: junk(path, found))
    ends = (TRAIN, TRAIN + VALIDATION)
    return DataSet(
        name=CARD.name,
        source=f"scikit-learn's {path.name}",
        sha256=digest((path,)),
        train=Split(x[: ends[0]], y[: ends[0]]),
        validation=Split(x[ends[0] : ends[1]], y[ends[0] : ends[1]]),
        test=Split(x[ends[1] :], y[ends[1] :]),
        image_shape=(SIDE, SIDE, 1),
        classes=CLASSES,
    )


def enlarge(images: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Images [N, 8, 8] of 0 to 16 as [N, 28, 28] of 0 to 255, the form of MNIST.

    Each side is enlarged three times by linear interpolation between the pixels' centres, and a black border of two
    pixels is put around. Values are rounded to whole grey levels, so that they are the same bits on every machine.
    """
    weights = _interpolation(SMALL, FACTOR)
    large = weights @ images @ weights.T * (255 / 16)
    return np.pad(np.rint(large).astype(np.uint8), ((0, 0), (BORDER, BORDER), (BORDER, BORDER)))


def _interpolation(size: int, factor: int) -> npt.NDArray[np.float64]:
    """Matrix [size * factor, size] of linear interpolation; beyond the outer centres the outer pixel continues."""
    centres = np.clip((np.arange(size * factor) + 0.5) / factor - 0.5, 0, size - 1)
    return np.maximum(0.0, 1.0 - np.abs(centres[:, None] - np.arange(size)[None, :]))


def _parse(data: bytes, path: Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    try:
        lines = data.decode("ascii").splitlines()
        empty = not any(line.strip() for line in lines)  # NumPy warns of a table without numbers
        table = np.empty((0, 0)) if empty else np.loadtxt(lines, delimiter=",", comments=None)
    except (ValueError, UnicodeDecodeError):
        raise junk(path, "it is not a table of numbers") from None
    if table.shape != (COUNT, SMALL * SMALL + 1) or not (table.min() >= 0 and table.max() <= 16):
        raise junk(path, f"it has a table of {table.shape}, expected {COUNT} rows of 64 grey levels and a label")
    return table[:, :-1].reshape(-1, SMALL, SMALL), table[:, -1].astype(np.int64)
