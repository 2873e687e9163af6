"""MNIST in its three usual forms: four IDX files, one npz, and the pickle of the courses.

The first five sixths of the training images (50,000 of 60,000) train, the rest validates: the split of the courses'
pickle, so that all three forms give the same numbers. Other sets of the same form and size of image work as well.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from clew_agent.datasets.dataset import Array, DataSet, Split, check_labels, junk, pixels
from clew_agent.datasets.files import digest, read_bytes
from clew_agent.datasets.formats import looks_like_idx, parse_idx, parse_npz
from clew_agent.datasets.lab_pickle import parse_pickle
from clew_shared.base.problem import problem
from clew_shared.cards import DataSetCard

IDX_STEMS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _idx_names(stem: str) -> tuple[str, ...]:
    """The spellings in which the IDX file ``stem`` is handed round; last those of Kaggle, where it is in a folder of
    the same name."""
    short = stem.partition("-idx")[0]
    bases = (stem, stem.replace("-idx", ".idx"), f"{stem}.idx", f"{short}.idx")
    names = tuple(name for base in bases for name in (f"{base}.gz", base))
    return (*names, *(f"{name}/{name}" for name in names[:4]))


IMAGES = _idx_names(IDX_STEMS[0])
"""The training images, which represent the four IDX files where these are looked for."""
_WHOLE = ("mnist.npz", "mnist.pkl.gz", "mnist.pkl")
CARD = DataSetCard(
    name="mnist",
    title="MNIST",
    order=1,
    files=tuple(f"{folder}{file}" for folder in ("", "mnist/", "MNIST/raw/") for file in (*_WHOLE, *IMAGES)),
    whole=_WHOLE,
    endings=(".npz", ".gz", ".pkl", "-ubyte", ".idx"),
    wanted="mnist.npz, mnist.pkl.gz or the four IDX files",
)
SIDE = 28
CLASSES = 10
_NPZ_NAMES = ("x_train", "y_train", "x_test", "y_test")
_IMAGE_BYTES = 256 * 1024 * 1024
"""Bound for the formats that hold bytes; the full set has 55 MB."""


def read(path: Path) -> DataSet:
    """MNIST from ``path``: an npz, a pickle, one of the IDX files (its three siblings must lie beside it).

    What the file is decides its content, not its name. Raises ``ProblemError`` that names the file and what was found.
    """
    data = read_bytes(path)
    if looks_like_idx(data):
        return _read_idx(path)
    if data[:2] == b"PK":
        return _from_npz(path, data)
    if data[:1] in (b"\x80", b"("):
        return _from_pickle(path, data)
    text = f"{path} is not a data set that Clew can read{'' if data else ': it is empty'}."
    hint = (
        "Clew reads mnist.npz, the four IDX files, mnist.pkl.gz, the files of its other data sets, folders of images,"
        " and tables as .csv."
    )
    raise problem("data.junk", text, hint, str(path))


def _from_npz(path: Path, data: bytes) -> DataSet:
    complain = _complainer(path)
    try:
        arrays = parse_npz(data, _NPZ_NAMES, _IMAGE_BYTES)
    except ValueError as error:
        raise complain(str(error)) from None
    return _from_bytes((path,), *(arrays[name] for name in _NPZ_NAMES))


def _idx_folder(path: Path) -> Path:
    return path.parent.parent if path.parent.name == path.name else path.parent


def idx_files(path: Path) -> dict[str, Path | None]:
    """The four IDX files of which ``path`` is one, by their stems; None for one that is not there."""
    folder = _idx_folder(path)
    return {
        stem: next((folder / name for name in _idx_names(stem) if (folder / name).is_file()), None)
        for stem in IDX_STEMS
    }


def _read_idx(chosen: Path) -> DataSet:
    found = idx_files(chosen)
    missing = [stem for stem, path in found.items() if path is None]
    if missing:
        text = f"{chosen} is one of MNIST's four files, but {', '.join(missing)} is missing beside it."
        raise problem("data.missing", text, "Put all four into one folder, plain or as .gz.", str(_idx_folder(chosen)))
    paths = tuple(path for path in found.values() if path is not None)
    return _from_bytes(paths, *(_parse(path) for path in paths))


def _parse(path: Path) -> Array:
    try:
        return parse_idx(read_bytes(path, _IMAGE_BYTES))
    except ValueError as error:
        raise junk(path, str(error)) from None


def _from_bytes(paths: tuple[Path, ...], x: Array, y: Array, x_test: Array, y_test: Array) -> DataSet:
    """The data set of images of bytes; one path for all four arrays, or one for each."""
    places = paths if len(paths) == 4 else paths * 4
    learn, labels = _images(x, places[0]), _labels(y, len(x), places[1])
    held_out, answers = _images(x_test, places[2]), _labels(y_test, len(x_test), places[3])
    kept = len(learn) - len(learn) // 6
    if len(learn) < 6 or not len(held_out):
        raise junk(places[0], f"it has {len(learn)} training and {len(held_out)} test images, too few to split")
    return _data_set(
        paths,
        train=Split(pixels(learn[:kept]), labels[:kept]),
        validation=Split(pixels(learn[kept:]), labels[kept:]),
        test=Split(pixels(held_out), answers),
    )


def _images(x: Array, path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    if x.dtype != np.uint8 or x.shape[1:] not in ((SIDE, SIDE), (SIDE * SIDE,)):
        expected = f"expected uint8 of shape (N, {SIDE}, {SIDE})"
        raise junk(path, f"it has images of shape {x.shape} and type {x.dtype}, {expected}")
    return x.view(np.uint8)


def _labels(y: Array, count: int, path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return check_labels(y, count, CLASSES, _complainer(path))


def _from_pickle(path: Path, data: bytes) -> DataSet:
    """The courses' pickle: ((x, y), (x, y), (x, y)) for training, validation and test, x already divided by 256."""
    complain = _complainer(path)
    try:
        parts = parse_pickle(data)
    except ValueError as error:
        raise complain(str(error)) from None
    splits = [
        _float_split(part, name, complain) for part, name in zip(parts, ("training", "validation", "test"), strict=True)
    ]
    return _data_set((path,), *splits)


def _float_split(part: tuple[Array, Array], name: str, complain: Callable[[str], Exception]) -> Split:
    x, y = part
    if x.dtype.kind != "f" or x.shape[1:] != (SIDE * SIDE,) or not len(x):
        raise complain(f"its {name} images have shape {x.shape} and type {x.dtype}, expected floats (N, {SIDE * SIDE})")
    low, high = float(x.min()), float(x.max())
    if not (low >= 0 and high <= 1):  # also false for NaN
        raise complain(f"its {name} pixels go from {low:g} to {high:g}, expected 0 to 1")
    return Split(x.astype(np.float32, copy=False), check_labels(y, len(x), CLASSES, complain))


def _complainer(path: Path) -> Callable[[str], Exception]:
    return lambda found: junk(path, found)


def _data_set(paths: tuple[Path, ...], train: Split, validation: Split, test: Split) -> DataSet:
    source = str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} (four IDX files)"
    return DataSet(
        name=CARD.name,
        source=source,
        sha256=digest(paths),
        train=train,
        validation=validation,
        test=test,
        image_shape=(SIDE, SIDE, 1),
        classes=CLASSES,
    )
