"""CIFAR-10: 60,000 colour images of 32×32 pixels in 10 classes, in its binary version.

That is an archive or the folder that it unpacks to. The Python version's files are found as well, and refused by name.
Batches 1 to 4 train, batch 5 validates, the test batch tests. Source: A. Krizhevsky, Learning
Multiple Layers of Features from Tiny Images (2009); formats: https://www.cs.toronto.edu/~kriz/cifar.html.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clew_agent.datasets.dataset import DataSet, Labels, Split, check_labels, junk, pixels
from clew_agent.datasets.files import digest, read_bytes
from clew_shared.base.problem import problem
from clew_shared.cards import DataSetCard

BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
_OLD = tuple(name.removesuffix(".bin") for name in BATCHES)
"""The files of the Python version, which are pickles."""
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
_WHOLE = ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz")
_BINARY = (_WHOLE[0], f"cifar-10-batches-bin/{BATCHES[0]}", BATCHES[0])
_PICKLES = (_WHOLE[1], f"cifar-10-batches-py/{_OLD[0]}", _OLD[0])
CARD = DataSetCard(
    name="cifar10",
    title="CIFAR-10",
    order=4,
    files=tuple(
        f"{folder}{file}" for form in (_BINARY, _PICKLES) for folder in ("", "cifar10/", "cifar-10/") for file in form
    ),
    whole=_WHOLE,
    parts=(*BATCHES, *_OLD),
    endings=_ARCHIVES,
    wanted="cifar-10-binary.tar.gz or the folder that it unpacks to",
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
    """The content of each batch in the archive, by its name."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read_bytes(path)), mode="r:") as archive:
            for member in archive:
                name = member.name.rsplit("/", 1)[-1]
                if name in _OLD:
                    raise _is_old(path)
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
    """The six batches in the folder of ``path``."""
    if path.name in _OLD:
        raise _is_old(path)
    found = {name: path.parent / name for name in BATCHES}
    missing = [file.name for file in found.values() if not file.is_file()]
    if missing:
        text = f"{path} is one of CIFAR-10's six batches, but {', '.join(missing)} is missing beside it."
        raise problem("data.missing", text, "Unpack the whole archive into one folder.", str(path.parent))
    return found


def _is_old(path: Path) -> Exception:
    text = f"{path} is the Python version of CIFAR-10, which Clew does not read."
    hint = f"Take {_WHOLE[0]}, which holds the same images. {CARD.published}"
    return problem("data.junk", text, hint, str(path))


def _place(path: Path, name: str) -> str:
    """Where a batch is, for messages."""
    inside = path.name.lower().endswith(_ARCHIVES)
    return f"{path}: {name}" if inside else str(path.parent / name)


def _batch(data: bytes, place: str) -> tuple[npt.NDArray[np.uint8], Labels]:
    """Images [n, 32, 32, 3] and their labels: a byte of label and 3,072 of image for each sample, of which red, green
    and blue follow each other."""
    if not data or len(data) % (_IMAGE + 1):
        raise junk(place, f"it has {len(data):,} bytes, expected {_IMAGE + 1:,} for each image")
    rows = np.frombuffer(data, np.uint8).reshape(-1, _IMAGE + 1)
    images = rows[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    return images, check_labels(rows[:, 0], len(images), CLASSES, lambda found: junk(place, found))
