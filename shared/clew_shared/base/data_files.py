"""The data sets that Clew knows by name and the files that hold them: agent and laptop go by the same names.

Nothing is read here, and scikit-learn is not imported.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

NAMES = ("mnist", "digits")
"""The data sets that Clew knows by name."""
MNIST_FILES = ("mnist.npz", "mnist.pkl.gz", "mnist.pkl")
IDX_STEMS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
DIGITS_FILE = "digits.csv.gz"
"""scikit-learn's file of the digits, in its package, and beside the agent where a laptop has brought it."""
DIGITS_BROUGHT = f"clew_agent/datasets/{DIGITS_FILE}"
"""Where a laptop puts it among the agent's files."""


TABLE_SUFFIXES = (".csv", ".csv.gz")
"""A file of such a name is a table of one's own; any other file holds MNIST, or images like it."""


def data_set_of(name_or_path: str) -> str:
    """The data set by which goals are judged: "mnist" for a file in one of its forms, a table's own file name."""
    file = name_or_path.replace("\\", "/").rsplit("/", 1)[-1]
    if name_or_path in ("", *NAMES):
        return name_or_path
    return file if file.lower().endswith(TABLE_SUFFIXES) else NAMES[0]


def idx_names(stem: str) -> tuple[str, ...]:
    """The spellings in which the IDX file ``stem`` is handed round."""
    return f"{stem}.gz", stem, stem.replace("-idx", ".idx")


def mnist_names() -> tuple[str, ...]:
    """Where MNIST is looked for in a folder, in this order; of the IDX files the training images stand for all."""
    names = (*MNIST_FILES, *idx_names(IDX_STEMS[0]))
    return (*names, *(f"mnist/{name}" for name in names))


def sklearn_digits() -> Path | None:
    """scikit-learn's file of the digits, found without importing scikit-learn, which takes a second."""
    try:
        spec = importlib.util.find_spec("sklearn")
    except (ImportError, ValueError):
        return None
    path = Path(spec.origin).parent / "datasets" / "data" / DIGITS_FILE if spec and spec.origin else None
    return path if path is not None and path.is_file() else None
