"""Pictures that a run took as arrays to be drawn; what a threshold makes of scores; rows for a file."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clew_gui.charts.kit.layout import FloatArray
from clew_shared.base.foreign import replacing_whole
from clew_shared.base.harmless import numbers_writer
from clew_shared.cards import QUANTILES, PictureSpec
from clew_shared.journal.events import Histogram, Image, Matrix
from clew_shared.journal.history import Figure

Labels = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TakenPicture:
    """A picture of the card, and what a run took of it by some step; None as long as it took none. ``earlier`` are
    those that it took before, ``later`` those after that step."""

    spec: PictureSpec
    figure: Figure | None
    earlier: Sequence[Figure] = ()
    later: Sequence[Figure] = ()


def taken_at(
    specs: Sequence[PictureSpec], figures: Mapping[str, Sequence[Figure]], step: int | None
) -> tuple[TakenPicture, ...]:
    """Returns each picture as it was last taken up to ``step`` (None: the last one)."""
    found = []
    for spec in specs:
        known = figures.get(spec.id, ())
        place = len(known) if step is None else bisect_right(known, step, key=lambda one: one.step)
        latest = known[place - 1] if place else None
        found.append(TakenPicture(spec, latest, known[: max(place - 1, 0)], known[place:]))
    return tuple(found)


def steps_of(specs: Sequence[PictureSpec], figures: Mapping[str, Sequence[Figure]]) -> list[int]:
    """Returns all steps at which one of the pictures was taken."""
    return sorted({figure.step for spec in specs for figure in figures.get(spec.id, ())})


# --- Arrays -----------------------------------------------------------------------------------------------------------


def pixels(image: Image) -> npt.NDArray[np.uint8]:
    """uint8 [count, height, width, channels]."""
    shape = image.count, image.height, image.width, image.channels
    return np.frombuffer(image.data, np.uint8).reshape(shape)


def integers(data: bytes) -> Labels:
    """The classes or answers of an event."""
    return np.frombuffer(data, "<i4").astype(np.int32)


def table(matrix: Matrix) -> FloatArray:
    """float64 [rows, columns]."""
    return np.frombuffer(matrix.data, "<f8").astype(np.float64).reshape(matrix.rows, matrix.columns)


def points(matrix: Matrix) -> tuple[FloatArray, Labels]:
    """The points [n, 2] of a scatter plot that are finite numbers, and their classes; none of a table of other form."""
    values = table(matrix)
    if matrix.columns != 3:
        return np.empty((0, 2)), np.empty(0, np.int32)
    good = np.isfinite(values).all(axis=1)
    return values[good, :2], values[good, 2].astype(np.int32)


def places_of(figure: Image | Matrix) -> FloatArray:
    """The points [n, 2] over a picture."""
    return np.frombuffer(figure.points, "<f4").astype(np.float64).reshape(-1, 2)


def map_points(image: Image) -> tuple[FloatArray, Labels]:
    """The points [n, 2] over maps of a plane that are finite numbers, and their classes."""
    places = places_of(image)
    good = np.isfinite(places).all(axis=1)
    return places[good], integers(image.point_classes)[good]


@dataclass(frozen=True, eq=False)
class Distribution:
    """Counts [classes, bins] between ``edges``; one row, of class -1, where the values have no classes."""

    edges: FloatArray
    counts: FloatArray
    classes: tuple[int, ...]


def distribution(histogram: Histogram) -> Distribution:
    """Returns how often values occur in each bin, class by class."""
    edges = np.frombuffer(histogram.edges, "<f8").astype(np.float64)
    if not histogram.classes:
        counts = np.frombuffer(histogram.counts, "<i8").astype(np.float64)
        return Distribution(edges, counts[np.newaxis, :], (-1,))
    values, classes = scores(histogram)
    known = tuple(int(one) for one in np.unique(classes))
    rows = [np.histogram(values[classes == one], edges)[0].astype(np.float64) for one in known]
    return Distribution(edges, np.array(rows).reshape(len(rows), len(edges) - 1), known)


def scores(histogram: Histogram) -> tuple[FloatArray, Labels]:
    """The values themselves that are finite, with their classes."""
    values = np.frombuffer(histogram.values, "<f4").astype(np.float64)
    classes = integers(histogram.classes) if histogram.classes else np.zeros(len(values), np.int32)
    good = np.isfinite(values)
    return values[good], classes[good]


@dataclass(frozen=True, eq=False)
class LayerSpread:
    """How the values of a layer spread over the steps: quantiles [steps, 7], NaN where none was finite."""

    name: str
    steps: FloatArray
    quantiles: FloatArray


def layer_spreads(spec: PictureSpec, figures: Sequence[Figure]) -> tuple[LayerSpread, ...]:
    """The spread of each layer in these pictures, as far as they have the same layers as the last one."""
    tables = [one for one in figures if isinstance(one, Matrix) and one.columns == len(QUANTILES) and one.rows]
    alike = [one for one in tables if (one.rows, one.row_labels) == (tables[-1].rows, tables[-1].row_labels)]
    if not alike:
        return ()
    _, names = table_names(spec, alike[-1])
    steps, values = np.array([one.step for one in alike], np.float64), np.stack([table(one) for one in alike])
    return tuple(LayerSpread(name, steps, values[:, k]) for k, name in enumerate(names))


# --- Threshold --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judgement:
    """Scores above a threshold are judged to be of class 1, all others of class 0: how many of each are right."""

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    @property
    def precision(self) -> float | None:
        """Returns the part of those judged to be of class 1 that are: TP / (TP + FP). None if there are none."""
        return _ratio(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float | None:
        """Returns the part of class 1 that is found: TP / (TP + FN). None if there are none."""
        return _ratio(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f_score(self) -> float | None:
        """The harmonic mean of both: 2 TP / (2 TP + FP + FN). None if there is nothing to find."""
        wrong = self.false_positives + self.false_negatives
        return _ratio(2 * self.true_positives, 2 * self.true_positives + wrong)


def deviations_at(threshold: float, own: float, mean: float, deviations: float) -> float | None:
    """Returns how many standard deviations above ``mean`` a threshold is, if ``own`` is so many ``deviations`` above
    it. None if that says nothing of their size."""
    size = (own - mean) / deviations if deviations else 0.0
    return (threshold - mean) / size if size > 0 and math.isfinite(size) else None


def confusion_at(values: FloatArray, classes: Labels, threshold: float) -> Judgement:
    """Judges ``values`` [n], whose true ``classes`` [n] are 0, or 1 and above, by a threshold."""
    above, true = values > threshold, classes > 0
    return Judgement(
        true_positives=int(np.count_nonzero(above & true)),
        false_positives=int(np.count_nonzero(above & ~true)),
        false_negatives=int(np.count_nonzero(~above & true)),
        true_negatives=int(np.count_nonzero(~above & ~true)),
    )


@dataclass(frozen=True, eq=False)
class ThresholdCurves:
    """What every threshold makes of scores, from the highest one, above which nothing is, to the lowest.

    ``false_alarms`` is the part of class 0 that is judged to be of class 1, ``recall`` the part of class 1 that is
    found, ``precision`` the part of those judged to be of class 1 that are (1 where there are none).
    """

    false_alarms: FloatArray
    recall: FloatArray
    precision: FloatArray

    @property
    def roc_area(self) -> float:
        """The area under recall against false alarms: how probable it is that a score of class 1 is above one of class
        0."""
        return float((np.diff(self.false_alarms) * (self.recall[1:] + self.recall[:-1])).sum() / 2)

    @property
    def precision_area(self) -> float:
        """The area under precision against recall, as steps: the average precision."""
        return float((np.diff(self.recall) * self.precision[1:]).sum())


def threshold_curves(values: FloatArray, classes: Labels) -> ThresholdCurves | None:
    """The curves of ``values`` [n] whose true ``classes`` [n] are 0, or 1 and above; None where a class has none."""
    order = np.argsort(-values, kind="stable")
    ordered, true = values[order], (classes > 0)[order]
    positives = int(true.sum())
    if not 0 < positives < len(true):
        return None
    ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)  # equal scores are on one side of a threshold
    found = np.cumsum(true)[ends].astype(np.float64)
    judged = ends + 1.0
    recall = np.append(0.0, found / positives)
    false_alarms = np.append(0.0, (judged - found) / (len(true) - positives))
    return ThresholdCurves(false_alarms, recall, np.append(1.0, found / judged))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


# --- Layout -----------------------------------------------------------------------------------------------------------


def tile_columns(count: int, width: float, height: float, aspect: float = 1.35) -> int:
    """Returns the number of columns in which ``count`` tiles come nearest to ``aspect`` (width by height)."""
    width, height = max(width, 1.0), max(height, 1.0)

    def distance(columns: int) -> float:
        rows = -(-count // columns)
        return abs(float(np.log(width / columns / (height / rows) / aspect)))

    return min(range(1, count + 1), key=distance, default=1)


def grid_columns(count: int, size: tuple[float, float], room: tuple[float, float], below: float = 0.0) -> int:
    """Returns the number of columns in which ``count`` images of ``size`` (width, height), each with ``below`` pixels
    for words under it, are largest in ``room``."""

    def scale(columns: int) -> float:
        rows = -(-count // columns)
        return min(room[0] / (columns * size[0]), (room[1] - rows * below) / (rows * size[1]))

    return max(range(1, count + 1), key=scale, default=1)


# --- Table ------------------------------------------------------------------------------------------------------------


_COLOURS: Final = {1: ("grey",), 3: ("red", "green", "blue")}


def write_pictures(path: Path, run: str, pictures: Iterable[TakenPicture]) -> None:
    """Writes the contents of a run's pictures as a table. Raises OSError; there is never half a file."""
    with replacing_whole(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = numbers_writer(file)
        writer.writerow(("run", "step", "picture", "index", "name", "x", "y", "value"))
        for block in (block for one in pictures for block in picture_rows(run, one)):
            writer.writerows(block)


def picture_rows(run: str, taken: TakenPicture) -> Iterator[list[tuple[str, ...]]]:
    """Yields the contents of a picture as rows of that table, in blocks.

    Images have a row for each pixel and colour (x to the right, y down, from 0 to 255), histograms one for each value,
    or for each bin (from x to y) where only these are known.
    """
    figure, spec = taken.figure, taken.spec
    if figure is None:
        return
    for block in _cells(spec, figure):
        yield [(run, str(figure.step), spec.id, *map(str, cells)) for cells in block]


def _cells(spec: PictureSpec, figure: Figure) -> Iterator[list[tuple[Any, ...]]]:
    match figure:
        case Image():
            judged = answered(spec, figure)
            for k, image in enumerate(pixels(figure)):
                name = " {} answered {}".format(*judged[k]) if judged else ""
                yield [
                    (k, colour + name, x, y, int(image[y, x, c]))
                    for c, colour in enumerate(_COLOURS[figure.channels])
                    for y in range(figure.height)
                    for x in range(figure.width)
                ]
            if figure.points:
                yield _point_cells(*map_points(figure), class_labels(spec, figure))
        case Histogram() if figure.values:
            values, classes = scores(figure)
            named = bool(figure.classes)
            yield [
                (k, class_name(spec.labels, int(one)) if named else "", "", "", repr(float(value)))
                for k, (value, one) in enumerate(zip(values, classes, strict=True))
            ]
        case Histogram():
            found = distribution(figure)
            yield [
                (k, "", repr(float(found.edges[k])), repr(float(found.edges[k + 1])), int(found.counts[0, k]))
                for k in range(found.counts.shape[1])
            ]
        case Matrix() if spec.form == "scatter":
            yield _point_cells(*points(figure), class_labels(spec, figure))
        case Matrix():
            values = table(figure)
            across, down = table_names(spec, figure)
            if spec.form == "bars":
                yield [(k, name, "", "", repr(float(values[0, k]))) for k, name in enumerate(across)]
            else:
                verb = " " if spec.form == "distributions" else " answered "
                cells = enumerate(np.ndenumerate(values))
                yield [(k, f"{down[y]}{verb}{across[x]}", x, y, repr(float(value))) for k, ((y, x), value) in cells]


def _point_cells(places: FloatArray, classes: Labels, labels: Sequence[str]) -> list[tuple[Any, ...]]:
    return [
        (k, class_name(labels, int(one)), repr(float(x)), repr(float(y)), "")
        for k, ((x, y), one) in enumerate(zip(places, classes, strict=True))
    ]


def table_names(spec: PictureSpec, matrix: Matrix) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the columns and of the rows: those that were recorded, else the card's, else numbers."""
    across = matrix.column_labels or tuple(class_name(spec.labels, k) for k in range(matrix.columns))
    down = matrix.row_labels or tuple(class_name(spec.labels, k) for k in range(matrix.rows))
    return across, down


def answered(spec: PictureSpec, image: Image) -> list[tuple[str, str]]:
    """The names of the class and of the answer of each image, without answers twice the class; none without classes."""
    if not image.classes:
        return []
    labels, both = class_labels(spec, image), (image.classes, image.answers or image.classes)
    return list(zip(*([class_name(labels, one) for one in integers(data).tolist()] for data in both), strict=True))


def class_labels(spec: PictureSpec, figure: Image | Matrix) -> tuple[str, ...]:
    """The names of the classes in a gallery or a scatter plot: those that were recorded, else the card's."""
    return figure.class_labels or spec.labels


def class_name(labels: Sequence[str], number: int) -> str:
    """The label of a class, or its number."""
    return labels[number] if 0 <= number < len(labels) else str(number)
