"""A table of one's own: a CSV file of numbers with a header, one row for each sample and one column with its class.

The class is in the column ``class`` or ``label`` (in upper or lower case), else in the last one: whole numbers from 0.
Of six rows the first four train, the fifth validates and the sixth tests, so that a file that is ordered by time or
class gives three sets alike. Each other column is scaled so that the training rows go from 0 to 1.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clew_agent.datasets.dataset import DataSet, Rows, Split, aligned, check_labels, junk
from clew_agent.datasets.files import digest, read_bytes
from clew_shared.base.data_files import TABLE_SUFFIXES

_LABELS = ("class", "label")
_MOST_CLASSES = 1000


def is_table(path: Path) -> bool:
    """Whether the name of the file says that it is a table."""
    return path.name.lower().endswith(TABLE_SUFFIXES)


def read(path: Path) -> DataSet:
    """The data set in the table ``path``. Raises ``ProblemError`` that names the file and what was found."""
    names, table = _parse(path)
    place = next((names.index(name) for name in _LABELS if name in names), len(names) - 1)
    classes = table[:, place]
    if not np.isfinite(table).all():
        raise junk(path, "a value that is missing or infinite")
    if not (classes == np.rint(classes)).all() or classes.min() < 0:
        raise junk(path, f"a class in the column {names[place]!r} that is not a whole number from 0 on")
    count = int(classes.max()) + 1
    if count > _MOST_CLASSES:
        raise junk(path, f"classes up to {count - 1:,} in the column {names[place]!r}, more than {_MOST_CLASSES:,}")
    labels = check_labels(classes.astype(np.int32), len(table), count, lambda found: junk(path, found))
    x, turn = np.delete(table, place, 1), np.arange(len(table)) % 6
    rows = _scaled(x, x[turn < 4])
    parts = (turn < 4, turn == 4, turn == 5)
    train, validation, test = (Split(_aligned(rows[part]), labels[part]) for part in parts)
    return DataSet(
        name=path.name,
        source=str(path),
        sha256=digest((path,)),
        train=train,
        validation=validation,
        test=test,
        image_shape=(1, rows.shape[1], 1),
        classes=count,
    )


def _parse(path: Path) -> tuple[list[str], npt.NDArray[np.float64]]:
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
        names = [name.strip().strip('"').lower() for name in lines[0].split(",")] if lines else []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of a table without rows, which is refused below
            table = np.loadtxt(lines[1:], delimiter=",", quotechar='"', comments=None, ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        raise junk(path, f"it is not a table of numbers with a header ({str(error)[:200]})") from None
    if len(table) < 6 or table.shape[1] != len(names) or len(names) < 2:
        text = f"a header of {len(names)} columns and a table of {table.shape}; it needs 6 rows and 2 columns at least"
        raise junk(path, text)
    return names, table


def _scaled(x: npt.NDArray[np.float64], train: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Columns from 0 to 1 over ``train``; what lies outside of that in other rows is cut off."""
    low, high = train.min(0), train.max(0)
    scaled: npt.NDArray[np.float64] = np.clip((x - low) / np.where(high > low, high - low, 1), 0, 1)
    return scaled


def _aligned(rows: npt.NDArray[np.float64]) -> Rows:
    place = aligned(rows.shape)
    place[:] = rows
    return place
