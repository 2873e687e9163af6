"""Images of one's own: a folder with a folder of images for each class.

PNG, JPEG, BMP, GIF, TIFF, WebP and the portable formats (PGM and the like) are read; of several frames the first.
Grey values of more than 8 bits are scaled for each image by itself, from its smallest value to its largest.

The classes are the folders in the order of their names, and are called like them. Of six images of a class, in the
order of their names, the first four train, the fifth validates and the sixth tests; the classes take turns, so that
file order shows all of them. Images that all have one size, of at most 32×32 pixels, stay as they are. Otherwise each
is cut to the square in its middle and resized to 32×32 pixels, the size of CIFAR-10. When all are grey the set is grey,
else in colour. Several threads decode at once: Pillow lets the others work meanwhile.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from clew_agent.datasets.dataset import DataSet, Split, junk, pixels
from clew_agent.datasets.files import MAX_BYTES, read_bytes
from clew_agent.datasets.search import image_classes, images_in, left_out
from clew_shared.base import operating_system
from clew_shared.base.foreign import open_regular
from clew_shared.base.image_files import DEEP, FORMATS, too_large, upright, why_unreadable
from clew_shared.base.number_words import counted
from clew_shared.base.problem import problem

SIDE = 32
FEWEST = 6
"""Images in a class: with fewer, one of the three parts would have none."""
_FILE_BYTES = 64 << 20
_NAME_LENGTH = 60
"""Characters of a class's name that are kept: the names of all classes go into each picture of them."""
_GREY = ("1", "L", "LA")


class _Header(NamedTuple):
    """The properties of an image that are known before it is decoded."""

    size: tuple[int, int]
    grey: bool
    deep: bool
    frames: int


class _Form(NamedTuple):
    """The form that every image of the set gets."""

    width: int
    height: int
    channels: int


def read(folder: Path) -> DataSet:
    """The data set in ``folder``. Raises ``ProblemError`` that names the file or folder and what was found."""
    files, labels, places, names = _files(folder)
    with ThreadPoolExecutor(operating_system.usable_cores()) as threads:
        headers = list(threads.map(_header, files))
        form = _form(headers)
        needed = len(files) * form.width * form.height * form.channels * 4
        if needed > MAX_BYTES:
            raise junk(folder, f"its {len(files):,} images need {needed:,} bytes, more than {MAX_BYTES:,}")
        images, sums = zip(*threads.map(lambda file: _decode(file, form), files), strict=True)
    listing = sorted(f"{file.parent.name}/{file.name}  {total}\n" for file, total in zip(files, sums, strict=True))
    rows, turn = np.stack(images), places % 6
    train, validation, test = (Split(pixels(rows[part]), labels[part]) for part in (turn < 4, turn == 4, turn == 5))
    return DataSet(
        name=folder.name,
        source=f"{folder} ({len(files):,} images)",
        sha256=hashlib.sha256("".join(listing).encode(errors="surrogateescape")).hexdigest(),
        train=train,
        validation=validation,
        test=test,
        image_shape=(form.height, form.width, form.channels),
        classes=len(names),
        class_names=names,
        notes=tuple(_notes(folder, headers)),
    )


def _notes(folder: Path, headers: Sequence[_Header]) -> Iterator[str]:
    """Yields what was converted or left out."""
    deep, moving = sum(one.deep for one in headers), sum(one.frames > 1 for one in headers)
    if deep:
        what = counted(deep, "image")
        yield f"Scaled {what} of more than 8 bits, each from its smallest to its largest value, to 8 bits."
    if moving:
        yield f"Took the first frame of {counted(moving, 'image')} with several."
    beside = left_out(folder)
    if beside:
        yield beside


def _files(folder: Path) -> tuple[list[Path], npt.NDArray[np.int32], npt.NDArray[np.int32], tuple[str, ...]]:
    """The images, the class of each and its place in that: the first of every class, then the second, and so on. And
    the names of the classes."""
    try:
        classes = [sorted(images_in(one)) for one in image_classes(folder)]
    except OSError as error:
        text = f"Cannot read {error.filename}: {error.strerror}."
        raise problem("data.read", text, "Check the path.", str(folder)) from None
    if len(classes) < 2:
        raise junk(folder, f"expected a folder of images for each of 2 or more classes, found {len(classes)}")
    few = next((files for files in classes if len(files) < FEWEST), None)
    if few is not None:
        raise junk(few[0].parent, f"a class needs {FEWEST} images or more, and it has {len(few)}")
    places = sorted((place, label) for label, files in enumerate(classes) for place in range(len(files)))
    numbers = np.array(places, np.int32)
    files = [classes[label][place] for place, label in places]
    return files, numbers[:, 1], numbers[:, 0], tuple(_class_name(one[0].parent) for one in classes)


def _class_name(folder: Path) -> str:
    """A folder's name, with a mark for each character that cannot be shown: a name on a disk may be any bytes."""
    return "".join(one if one.isprintable() else "\ufffd" for one in folder.name)[:_NAME_LENGTH]


def _form(headers: list[_Header]) -> _Form:
    width, height = headers[0].size
    kept = {header.size for header in headers} == {(width, height)} and max(width, height) <= SIDE
    width, height = (width, height) if kept else (SIDE, SIDE)
    return _Form(width, height, 1 if all(header.grey for header in headers) else 3)


def _header(file: Path) -> _Header:
    with _damage_named(file), open_regular(file) as data, Image.open(data, formats=FORMATS) as image:
        deep = image.mode in DEEP
        large = too_large(image)
        found = _Header(image.size, deep or image.mode in _GREY, deep, getattr(image, "n_frames", 1))
    if large:
        raise junk(file, large)
    return found


def _decode(file: Path, form: _Form) -> tuple[npt.NDArray[np.uint8], str]:
    """The image [height, width, channels], upright, and the SHA-256 of its file."""
    data = read_bytes(file, _FILE_BYTES)
    with _damage_named(file), Image.open(io.BytesIO(data), formats=FORMATS) as image:
        found = upright(image).convert("L" if form.channels == 1 else "RGB")
        if found.size != (form.width, form.height):
            found = ImageOps.fit(found, (form.width, form.height), Image.Resampling.BICUBIC)
        rows = np.asarray(found, np.uint8).reshape(form.height, form.width, form.channels)
    return rows, hashlib.sha256(data).hexdigest()


@contextmanager
def _damage_named(file: Path) -> Iterator[None]:
    """Raises ``ProblemError`` that names the file, for whatever else comes of it."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # Pillow lets through whatever a broken file leads to: KeyError, TypeError
        raise junk(file, f"it is not a readable image ({why_unreadable(error)})") from None
