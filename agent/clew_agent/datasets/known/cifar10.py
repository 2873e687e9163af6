"""CIFAR-10: 60,000 colour images of 32×32 pixels in 10 classes, in its Python and its binary version.

Each version is an archive or the folder that it unpacks to. The Python version's pickles are read by ``lab_pickle``,
which runs nothing. Batches 1 to 4 train, batch 5 validates, the test batch tests. Source: A. Krizhevsky, Learning
Multiple Layers of Features from Tiny Images (2009); formats: https://www.cs.toronto.edu/~kriz/cifar.html.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clew_agent.datasets.dataset import Array, DataSet, Labels, Split, check_labels, junk, pixels
from clew_agent.datasets.files import digest, read_bytes
from clew_agent.datasets.lab_pickle import parse_pickle
from clew_shared.base.problem import problem
from clew_shared.cards import DataSetCard

BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
"""The files of the Python version; in the binary version each ends with ``.bin``."""
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
_WHOLE = ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz")
_FIRST = (BATCHES[0], f"{BATCHES[0]}.bin")
_UNPACKED = (*_WHOLE, f"cifar-10-batches-py/{_FIRST[0]}", f"cifar-10-batches-bin/{_FIRST[1]}", *_FIRST)
CARD = DataSetCard(
    name="cifar10",
    title="CIFAR-10",
    order=4,
    files=tuple(f"{folder}{file}" for folder in ("", "cifar10/", "cifar-10/") for file in _UNPACKED),
    whole=_WHOLE,
    parts=tuple(f"{name}{end}" for name in BATCHES for end in ("", ".bin")),
    endings=_ARCHIVES,
    wanted="cifar-10-python.tar.gz, cifar-10-binary.tar.gz or the folder that one of them unpacks to",
    published="The files are at https://www.cs.toronto.edu/~kriz/cifar.html.",
)
SIDE, CHANNELS, CLASSES = 32, 3, 10
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""As in the archive's ``batches.meta``."""
_IMAGE = CHANNELS * SIDE * SIDE
_BATCH_BYTES = 64 << 20
"""Bound for one batch; a full one has 31 MB."""


def read(path: Path) -> DataSet:
    """CIFAR-10 from an archive, or from one of its six batches, beside which the others must lie.

    Raises ``ProblemError`` that names the file and what was found.
    """
    files = {} if path.name.lower().endswith(_ARCHIVES) else _siblings(path)
    contents = {name: read_bytes(file, _BATCH_BYTES) for name, file in files.items()} or _from_archive(path)
    batches = {name: _batch(contents[name], _place(path, name)) for name in BATCHES}
    *learn, validation, test = batches.values()
    x, y = (np.concatenate(parts) for parts in zip(*learn, strict=True))
    return DataSet(
        name=CARD.name,
        source=f"{path.parent} (six batches)" if files else str(path),
        sha256=digest(tuple(files.values()) or (path,)),
        train=Split(pixels(x), y),
        validation=Split(pixels(validation[0]), validation[1]),
        test=Split(pixels(test[0]), test[1]),
        image_shape=(SIDE, SIDE, CHANNELS),
        classes=CLASSES,
        class_names=CLASS_NAMES,
    )


def _from_archive(path: Path) -> dict[str, bytes]:
    """The content of each batch in the archive, by its name without ``.bin``."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read_bytes(path)), mode="r:") as archive:
            for member in archive:
                name = member.name.rsplit("/", 1)[-1].removesuffix(".bin")
                file = archive.extractfile(member) if name in BATCHES and member.isreg() else None
                if file is not None and member.size <= _BATCH_BYTES:
                    found[name] = file.read()
    except tarfile.TarError as error:
        raise junk(path, f"it is not a readable archive ({error})") from None
    missing = [name for name in BATCHES if name not in found]
    if missing:
        raise junk(path, f"it is an archive without CIFAR-10's {', '.join(missing)}")
    return found


def _siblings(path: Path) -> dict[str, Path]:
    """The six batches in the folder of ``path``, in its version."""
    end = ".bin" if path.name.endswith(".bin") else ""
    found = {name: path.parent / f"{name}{end}" for name in BATCHES}
    missing = [file.name for file in found.values() if not file.is_file()]
    if missing:
        text = f"{path} is one of CIFAR-10's six batches, but {', '.join(missing)} is missing beside it."
        raise problem("data.missing", text, "Unpack the whole archive into one folder.", str(path.parent))
    return found


def _place(path: Path, name: str) -> str:
    """Where a batch is, for messages."""
    inside = path.name.lower().endswith(_ARCHIVES)
    return f"{path}: {name}" if inside else str(path.parent / f"{name}{path.suffix}")


def _batch(data: bytes, place: str) -> tuple[npt.NDArray[np.uint8], Labels]:
    """Images [n, 32, 32, 3] and their labels. In the files red, green and blue of an image follow each other."""
    is_binary = data[:1] < bytes([CLASSES])  # it begins with a label, and no pickle begins with so low a byte
    x, y = _binary(data, place) if is_binary else _from_pickle(data, place)
    if x.dtype != np.uint8 or x.ndim != 2 or x.shape[1] != _IMAGE or not len(x):
        raise junk(place, f"it has images of shape {x.shape} and type {x.dtype}, expected uint8 of shape (N, {_IMAGE})")
    images = x.view(np.uint8).reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    return images, check_labels(y, len(images), CLASSES, lambda found: junk(place, found))


def _binary(data: bytes, place: str) -> tuple[Array, Array]:
    """One byte of label and 3,072 of image for each sample."""
    if not data or len(data) % (_IMAGE + 1):
        raise junk(place, f"it has {len(data):,} bytes, expected {_IMAGE + 1:,} for each image")
    rows = np.frombuffer(data, np.uint8).reshape(-1, _IMAGE + 1)
    return rows[:, 1:], rows[:, 0]


def _from_pickle(data: bytes, place: str) -> tuple[Array, Array]:
    """A dictionary with the array ``data`` and the list ``labels``."""
    try:
        batch = parse_pickle(data)
    except ValueError as error:
        raise junk(place, str(error)) from None
    x, labels = (batch.get("data"), batch.get("labels")) if isinstance(batch, dict) else (None, None)
    if not isinstance(x, np.ndarray) or not isinstance(labels, tuple):
        raise junk(place, "its pickle does not hold data and labels")
    if not all(type(label) is int and 0 <= label < CLASSES for label in labels):
        raise junk(place, f"it has a label that is not a whole number from 0 to {CLASSES - 1}")
    return x, np.array(labels, np.int32)
