"""The data sets that Clew knows by name and the files that hold them: agent and laptop go by the same names.

Nothing is read here, and scikit-learn is not imported.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

NAMES = ("mnist", "digits", "fashion-mnist", "cifar10")
"""The data sets that Clew knows by name."""
MNIST_FILES = ("mnist.npz", "mnist.pkl.gz", "mnist.pkl")
IDX_STEMS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
"""The files of CIFAR-10 in its Python version; in the binary version each ends with ``.bin``."""
CIFAR_ARCHIVES = ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz")
IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".gif", ".tif", ".tiff", ".webp"),
    *(".pbm", ".pgm", ".ppm", ".pnm"),
)
UNREAD_IMAGE_SUFFIXES = (
    *(".heic", ".heif", ".avif", ".svg", ".eps", ".ps", ".pdf", ".psd", ".ai", ".jp2", ".jxl", ".ico", ".tga", ".xcf"),
    *(".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".exr", ".hdr"),
)
"""What people keep images in and Clew does not read: a folder with them is not called empty."""
DIGITS_FILE = "digits.csv.gz"
"""scikit-learn's file of the digits, in its package, and beside the agent where a laptop has brought it."""
DIGITS_BROUGHT = f"clew_agent/datasets/{DIGITS_FILE}"
"""Where a laptop puts it among the agent's files."""


TABLE_SUFFIXES = (".csv", ".csv.gz")
"""A file of such a name is a table of one's own; any other file holds a data set in one of its known forms."""
_NAMED = {"fashion-mnist": re.compile(r"fashion[-_]?mnist"), "cifar10": re.compile(r"cifar[-_]?10(?![0-9])")}
_CIFAR_FILES = re.compile(r"(data_batch_[1-5]|test_batch)(\.bin)?")
_FORMS = re.compile(r".*(\.npz|\.gz|\.pkl|[-.]idx[0-9]-ubyte|\.idx)")


def data_set_of(name_or_path: str) -> str:
    """The data set by which goals are judged.

    A file, or its folder, may be called after a set. A file that is not counts as "mnist", in one of whose forms it
    must be; a table and a folder have a name of their own.
    """
    *folders, name = name_or_path.replace("\\", "/").rstrip("/").split("/")
    low = name.lower()
    if name_or_path in ("", *NAMES):
        return name_or_path
    if low.endswith(TABLE_SUFFIXES):
        return name
    if low in MNIST_FILES:
        return "mnist"
    if _CIFAR_FILES.fullmatch(low):
        return "cifar10"
    for one in (low, *(folder.lower() for folder in reversed(folders[-2:]))):
        for known, pattern in _NAMED.items():
            if pattern.search(one):
                return known
    return "mnist" if _FORMS.fullmatch(low) or "mnist" in low else name


def idx_names(stem: str) -> tuple[str, ...]:
    """The spellings in which the IDX file ``stem`` is handed round; last those of Kaggle, where it is in a folder of
    the same name."""
    short = stem.partition("-idx")[0]
    bases = (stem, stem.replace("-idx", ".idx"), f"{stem}.idx", f"{short}.idx")
    names = tuple(name for base in bases for name in (f"{base}.gz", base))
    return (*names, *(f"{name}/{name}" for name in names[:4]))


def idx_folder(path: Path) -> Path:
    """The folder in which the four IDX files lie of which ``path`` is one."""
    return path.parent.parent if path.parent.name == path.name else path.parent


def file_names(name: str) -> tuple[str, ...]:
    """Where the data set ``name`` is looked for in a folder, in this order.

    The training images represent all IDX files, the first batch all of CIFAR-10's. ``data_set_of`` says whether
    what is found by a name that several sets use is the one that is looked for.
    """
    images = idx_names(IDX_STEMS[0])
    if name == "mnist":
        return tuple(f"{folder}{one}" for folder in ("", "mnist/", "MNIST/raw/") for one in (*MNIST_FILES, *images))
    if name == "fashion-mnist":
        files = ("fashion-mnist.npz", "fashion_mnist.npz")
        folders = ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw")
        return (*files, *images, *(f"{folder}/{one}" for folder in folders for one in images))
    if name == "cifar10":
        first, batches = CIFAR_BATCHES[0], ("cifar-10-batches-py", "cifar-10-batches-bin")
        beside = (*CIFAR_ARCHIVES, f"{batches[0]}/{first}", f"{batches[1]}/{first}.bin", first, f"{first}.bin")
        return tuple(f"{folder}{one}" for folder in ("", "cifar10/", "cifar-10/") for one in beside)
    return ()


def sklearn_digits() -> Path | None:
    """scikit-learn's file of the digits, found without importing scikit-learn, which takes a second."""
    try:
        spec = importlib.util.find_spec("sklearn")
    except (ImportError, ValueError):
        return None
    path = Path(spec.origin).parent / "datasets" / "data" / DIGITS_FILE if spec and spec.origin else None
    return path if path is not None and path.is_file() else None
