"""A data set after it has been read: three splits of float32 rows and int32 labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from clew_shared.base.problem import problem

_ALIGNMENT = 64
_SETS = ("training", "validation", "test")
_LACKING = 3
"""Classes without samples in a set that are named."""

Rows = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]
Array = npt.NDArray[np.generic]


class Split(msgspec.Struct, frozen=True, eq=False):
    """``x`` is float32 [N, features] with values from 0 to 1, ``y`` int32 [N] with the class of each row."""

    x: Rows
    y: Labels

    def __len__(self) -> int:
        return len(self.y)


class DataSet(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A data set in memory.

    ``source`` says where it came from, ``sha256`` is that file's SHA-256 (of several files: the SHA-256 of what
    ``sha256sum`` prints for them in the order of their names). ``image_shape`` is (height, width, channels) of a row.
    ``class_names`` are words for people, one for each class; none where numbers are the names, as with digits.
    ``notes`` are sentences about what was assumed, converted or left out when the files were read.
    """

    name: str
    source: str
    sha256: str
    train: Split
    validation: Split
    test: Split
    image_shape: tuple[int, int, int]
    classes: int
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def place_of(self, label: int) -> int | None:
        """The class with this label, as ``y`` counts them; None where no sample has it."""
        if not self.class_names:
            return label if 0 <= label < self.classes else None
        named = {name: place for place, name in enumerate(self.class_names)}
        return named.get(str(label), label if self._names_are_words and 0 <= label < self.classes else None)

    def lacking(self, place: int, sets: Sequence[str] = _SETS) -> str:
        """Says which of these ``sets`` have no sample of a class; empty where each has one."""
        counts = {name: int(np.count_nonzero(part.y == place)) for name, part in zip(_SETS, self._parts, strict=True)}
        lacking = " and ".join(name for name in sets if not counts[name])
        found = ", ".join(f"{count:,} in {name}" for name, count in counts.items())
        label = self.class_names[place] if self.class_names else place
        text = f"No sample of class {label} is among the {lacking} samples of {self.name}: there are {found}."
        return text if lacking else ""

    def lacking_classes(self) -> Iterator[str]:
        """Yields sentences about the classes of which a set has no sample."""
        counts = np.stack([np.bincount(part.y, minlength=self.classes) for part in self._parts])
        places = np.flatnonzero((counts == 0).any(0)).tolist()
        yield from map(self.lacking, places[:_LACKING])
        if len(places) > _LACKING:
            yield f"Each of {len(places) - _LACKING:,} more classes has no sample in one of the three sets."

    @property
    def _parts(self) -> tuple[Split, Split, Split]:
        return self.train, self.validation, self.test

    @property
    def _names_are_words(self) -> bool:
        return not all(name.isdecimal() for name in self.class_names)


def pixels(images: npt.NDArray[np.uint8]) -> Rows:
    """Images of 0 to 255 as rows of float32, divided by 256 as in the courses' ``mnist.pkl.gz``.

    256 is a power of two, so the product is exact; going through float64 would take thirty times as long.
    """
    rows = images.reshape(len(images), -1)
    return np.multiply(rows, np.float32(1 / 256), out=aligned(rows.shape), dtype=np.float32)


def aligned(shape: tuple[int, ...]) -> Rows:
    """An array of float32, still without values, that begins where TensorFlow can use it without a copy."""
    count = math.prod(shape) * 4
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(np.float32).reshape(shape)


def check_labels(y: Array, count: int, classes: int, complain: Callable[[str], Exception]) -> Labels:
    """``y`` as int32 [count], every label below ``classes``. Raises what ``complain`` makes of a description."""
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise complain(f"labels of shape {y.shape} and type {y.dtype}, expected one row of whole numbers")
    if len(y) != count:
        raise complain(f"{len(y)} labels for {count} images")
    if count and not (int(y.min()) >= 0 and int(y.max()) < classes):
        raise complain(f"labels from {int(y.min())} to {int(y.max())}, expected 0 to {classes - 1}")
    return y.astype(np.int32)


def junk(path: object, found: str) -> Exception:
    """The refusal of a file that is not what it should be: ``found`` says what was found in it."""
    return problem(
        "data.junk",
        f"{path} is not a usable data set: {found}.",
        "Use another file, or the data set 'digits'.",
        str(path),
    )
