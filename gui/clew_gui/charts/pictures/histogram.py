"""How values spread: the form "histogram", with a threshold that can be moved, and "distributions", over the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from clew_gui.base.tokens import Theme, mixed
from clew_gui.charts.kit.axes import draw_key
from clew_gui.charts.kit.drawing import Drawing, Stroke, widest
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.ticks import Span, count_text, value_text
from clew_gui.charts.pictures.taken import (
    Judgement,
    LayerSpread,
    ThresholdCurves,
    class_name,
    confusion_at,
    distribution,
    layer_spreads,
    scores,
    threshold_curves,
    tile_columns,
)
from clew_gui.charts.pictures.tile import FOOT, PictureAxes, Tile
from clew_shared.journal.events import Histogram, Matrix

_ROW: Final = 16.0
_PANEL: Final = 196.0
"""The confusion matrix and what follows from it, right of a histogram."""
_GRIP: Final = 6.0
_LEAST: Final = 48.0
"""The least side of a curve over all thresholds that is worth drawing."""
_CORNERS: Final = 400
"""Points of such a curve: more could not be seen."""


class HistogramPicture:
    """Draws how often values occur, class by class; with a threshold also how it classifies them."""

    def __init__(self, tile: Tile, histogram: Histogram) -> None:
        self._tile = tile
        spec = tile.taken.spec
        self.found = distribution(histogram)
        self.judgement: Judgement | None = None
        self.curves: ThresholdCurves | None = None
        if tile.threshold is not None and histogram.values:
            self.judgement = confusion_at(*scores(histogram), tile.threshold)
            self.curves = threshold_curves(*scores(histogram))
        self._log_x = spec.log_x and bool((self.found.edges > 0).all())
        self._log_y = spec.log_y
        room = tile.room
        side = min(_PANEL, 0.44 * room.width) if self.judgement is not None else 0.0
        self._panel = Box(room.right - side, room.y, side, room.height)
        self._key = Box(room.right - 84, room.y + 6, 84, room.height)
        self._edges = np.log10(self.found.edges) if self._log_x else self.found.edges
        top = float(self.found.counts.max(initial=0.0)) or 1.0
        x = Span(float(self._edges[0]), float(self._edges[-1]))
        y = Span(-0.1, math.log10(top) + 0.1) if self._log_y else Span(0.0, 1.05 * top)
        self.axes = PictureAxes(room.inset(0, 0, side, 0), (x, y), tile.sizes, (self._log_x, self._log_y), counts=True)

    # ------------------------------------------------------------ threshold
    def column(self, value: float) -> float:
        """The pixel column of a value, inside of the axes."""
        frame = self.axes.frame
        place = (math.log10(value) if value > 0 else frame.x.low) if self._log_x else value
        return frame.column(min(max(place, frame.x.low), frame.x.high))

    def grips(self, x: float, y: float) -> bool:
        """Whether a pixel is on the threshold's line."""
        threshold, box = self._tile.threshold, self.axes.frame.box
        if threshold is None or self.judgement is None:
            return False
        return box.y - 4 <= y <= box.bottom and abs(x - self.column(threshold)) <= _GRIP

    def value_at(self, column: float) -> float:
        """The value of a pixel column, inside of the axes."""
        frame = self.axes.frame
        place = min(max(frame.x_at(column), frame.x.low), frame.x.high)
        return 10.0**place if self._log_x else place

    # ------------------------------------------------------------ drawing
    def draw(self, drawing: Drawing) -> None:
        """Classes over each other, each letting the others through."""
        self.axes.draw(drawing)
        opacity = 0.9 if len(self.found.classes) == 1 else 0.6
        for counts, one in zip(self.found.counts, self.found.classes, strict=True):
            self._draw_bars(drawing, counts, self._colour(one, drawing.theme), opacity)
        if self.judgement is None:
            named = [(self._colour(one, drawing.theme), self._name(one)) for one in self.found.classes if one >= 0]
            draw_key(drawing, self._key, named)
        elif self._tile.threshold is not None:
            self._draw_threshold(drawing, self._tile.threshold)
            self._draw_panel(drawing, self.judgement)

    def _colour(self, one: int, theme: Theme) -> str:
        return theme.accent if one < 0 else theme.class_colour(one)

    def _name(self, one: int) -> str:
        return class_name(self._tile.taken.spec.labels, one)

    def _draw_bars(self, drawing: Drawing, counts: FloatArray, colour: str, opacity: float) -> None:
        frame = self.axes.frame
        columns = np.rint(frame.px(self._edges)).tolist()
        for k, count in enumerate(counts.tolist()):
            if count > 0:
                top = frame.row(math.log10(count) if self._log_y else count)
                wide = max(columns[k + 1] - columns[k] - (1 if columns[k + 1] - columns[k] > 3 else 0), 1.0)
                box = Box(columns[k], top, wide, max(frame.box.bottom - top, 1.0))
                drawing.rect(box, colour, opacity, smooth=False)

    def _draw_threshold(self, drawing: Drawing, threshold: float) -> None:
        theme, column, area = drawing.theme, round(self.column(threshold)), self.axes.frame.box
        drawing.line(column, area.y, column, area.bottom, Stroke(theme.text, 1.5))
        drawing.rect(Box(column - 4, area.y - 4, 8, 14), theme.text, radius=3)
        text = value_text(threshold)
        wide = drawing.width(text, "captionStrong") + 10
        left = column + 8 if column + 8 + wide < area.right else column - 8 - wide
        box = Box(left, area.y - 2, wide, 17)
        drawing.rect(box, mixed(theme.surface, theme.sunken, 0.8))
        drawing.text(box.across, box.middle, text, theme.text, "captionStrong", across="middle")

    def _draw_panel(self, drawing: Drawing, found: Judgement) -> None:
        """The confusion matrix in the colours of the true classes, and what follows from it.

        Where the names of the classes do not fit beside it, they are below with their colours.
        """
        theme, room = drawing.theme, self._panel.inset(12, 2, 2, 0)
        fits = widest(drawing.sizes, [self._name(k) for k in (0, 1)]) <= 0.29 * room.width - 4
        label, high, top = 0.42 * room.width if fits else 16.0, 22.0, room.y
        cell = 0.5 * (room.width - label)
        drawing.text(room.x + label + cell, top + 0.5 * _ROW, "Answer", across="middle")
        for k in (0, 1):
            middle = room.x + label + (k + 0.5) * cell, top + 1.5 * _ROW
            if fits:
                drawing.text(*middle, self._name(k), theme.text2, across="middle")
            else:
                drawing.rect(Box(middle[0] - 6, middle[1] - 5, 10, 10), theme.class_colour(k), smooth=False)
        rows = ((found.true_negatives, found.false_positives), (found.false_negatives, found.true_positives))
        for k, cells in enumerate(rows):
            y = top + 2 * _ROW + k * high
            drawing.rect(Box(room.x, y + 6, 10, 10), theme.class_colour(k), smooth=False)
            if fits:
                drawing.text(room.x + 15, y + 0.5 * high, self._name(k), theme.text2)
            for place, count in enumerate(cells):
                box = Box(room.x + label + place * cell, y, cell - 2, high - 2)
                drawing.rect(box, theme.ok_soft if place == k else theme.bad_soft)
                drawing.text(box.across, box.middle, count_text(count), theme.text, "captionStrong", across="middle")
        y = top + 2 * _ROW + 2 * high + 6
        for name, value in self._measures(found):
            if y + _ROW > room.bottom:
                return
            drawing.text(room.x, y + 0.5 * _ROW, name, theme.text2)
            drawing.text(room.right - 2, y + 0.5 * _ROW, value, theme.text, "captionStrong", across="right")
            y += _ROW + 1
        if not fits:
            key = Box(room.x, y, room.width, room.bottom - y)
            draw_key(drawing, key, [(theme.class_colour(k), self._name(k)) for k in (0, 1)])
            y += 2 * _ROW
        if self.curves is not None:
            self._draw_curves(drawing, self.curves, found, Box(room.x, y + 4, room.width, room.bottom - y - 4))

    def _draw_curves(self, drawing: Drawing, curves: ThresholdCurves, found: Judgement, room: Box) -> None:
        """Recall against false alarms (ROC) and precision against recall (PR), with the threshold as a point.

        They are beside each other or one below the other, whichever makes them larger.
        """
        alarms = found.false_positives / max(found.false_positives + found.true_negatives, 1)
        plots = (
            ("ROC", curves.false_alarms, curves.recall, alarms, found.recall),
            ("PR", curves.recall, curves.precision, found.recall, found.precision),
        )
        beside = min(0.5 * (room.width - 10), room.height - _ROW)
        below = min(room.width, 0.5 * room.height - _ROW)
        side = max(beside, below)
        for place, (name, x, y, *point) in enumerate(plots if side >= _LEAST else ()):
            across, down = (place * (side + 10), 0.0) if beside >= below else (0.0, place * (side + _ROW))
            box = Box(room.x + across, room.y + down + _ROW, side, side - 2)
            self._draw_curve(drawing, box, name, (x, y), point)

    @staticmethod
    def _draw_curve(
        drawing: Drawing, box: Box, name: str, curve: tuple[FloatArray, FloatArray], point: Sequence[float | None]
    ) -> None:
        theme = drawing.theme
        drawing.text(box.x, box.y - 0.5 * _ROW, name, theme.text2, room=box.width)
        drawing.rect(box, theme.sunken, smooth=False)
        kept = np.unique(np.linspace(0, len(curve[0]) - 1, _CORNERS).astype(np.int64))
        drawing.path(box.x + curve[0][kept] * box.width, box.bottom - curve[1][kept] * box.height, Stroke(theme.accent))
        if point[0] is not None and point[1] is not None:
            at = box.x + point[0] * box.width, box.bottom - point[1] * box.height
            drawing.marks([at[0]], [at[1]], theme.text, 7)

    def _measures(self, found: Judgement) -> tuple[tuple[str, str], ...]:
        """Those of the threshold, and the areas under the curves over all thresholds."""
        values = [("Precision", found.precision), ("Recall", found.recall), ("F-score", found.f_score)]
        if self.curves is not None:
            values += [("ROC AUC", self.curves.roc_area), ("PR AUC", self.curves.precision_area)]
        return tuple((name, "–" if value is None else value_text(value, "percent")) for name, value in values)

    # ------------------------------------------------------------ read-out
    def read(self, x: float, y: float) -> str:
        """The bin under a pixel, with the count of each class."""
        frame = self.axes.frame
        if not frame.box.holds(x, y):
            return ""
        k = int(np.searchsorted(self._edges, frame.x_at(x), side="right")) - 1
        if not 0 <= k < self.found.counts.shape[1]:
            return ""
        between = f"{value_text(float(self.found.edges[k]))} to {value_text(float(self.found.edges[k + 1]))}"
        counted = [
            f"{self._name(one)} {count_text(float(row[k]))}" if one >= 0 else count_text(float(row[k]))
            for row, one in zip(self.found.counts, self.found.classes, strict=True)
        ]
        return f"{between}: {', '.join(counted)}"

    def description(self) -> str:
        """The range; with a threshold what it makes of the values."""
        low, high = (value_text(float(self.found.edges[k])) for k in (0, -1))
        text = f"{count_text(float(self.found.counts.sum()))} values from {low} to {high}"
        if self.judgement is None or self._tile.threshold is None:
            return text
        measures = ", ".join(f"{name} {value}" for name, value in self._measures(self.judgement))
        return f"{text}, threshold {value_text(self._tile.threshold)}: {measures}"


_SMALLEST: Final = (110.0, 44.0)
"""The least size of a layer's plot, with its name."""
_NAME: Final = 16.0
_GAP: Final = 8.0
_APART: Final = 18.0
_BANDS: Final = ((0, 6, 0.16), (1, 5, 0.26), (2, 4, 0.42))
"""From which quantile to which, and how opaque: all values, 95 % and 68 % of them."""
_KEY: Final = "Bands: 68 %, 95 % and all values. Line: median."


class DistributionsPicture:
    """A plot for each layer with bands that hold 68 %, 95 % and all of its values, and a line for the median. The axes
    are those of all pictures of the run. If there is no room for all layers, some between are left out."""

    def __init__(self, tile: Tile, matrix: Matrix) -> None:
        taken, room = tile.taken, tile.room
        layers = layer_spreads(taken.spec, [*taken.earlier, matrix])
        whole = layer_spreads(taken.spec, [*taken.earlier, matrix, *taken.later])
        spans = {one.name: _span(one) for one in (*layers, *whole)}
        last = max((float(one.steps[-1]) for one in (*layers, *whole)), default=1.0)
        across, down = int(room.width // _SMALLEST[0]), int((room.height - _NAME - FOOT) // _SMALLEST[1])
        fit = max(across, 1) * max(down, 1)
        kept = np.unique(np.linspace(0, len(layers) - 1, min(fit, len(layers))).astype(np.int64)) if layers else ()
        self._layers, self._count = [layers[k] for k in kept], len(layers)
        boxes, columns = _boxes(len(self._layers), room.inset(0, 0, 10, _NAME))
        self._foot = Box(room.x, room.bottom - _NAME, room.width, _NAME)
        lowest = len(boxes) - columns
        self._axes = [
            PictureAxes(
                box.inset(0, _NAME, 0, 0),
                (Span(0.0, last), spans[one.name]),
                tile.sizes,
                foot=k >= lowest,
                apart=_APART,
            )
            for k, (one, box) in enumerate(zip(self._layers, boxes, strict=True))
        ]

    def draw(self, drawing: Drawing) -> None:
        """Add the layers, and what the bands are."""
        theme = drawing.theme
        for one, axes in zip(self._layers, self._axes, strict=True):
            frame = axes.frame
            axes.draw(drawing)
            ends = " to ".join(value_text(float(one.quantiles[-1, k])) for k in (0, -1))
            ends = ends if drawing.width(f"{one.name}  {ends}") < frame.box.width else ""
            row = frame.box.y - 0.5 * _NAME
            drawing.text(frame.box.x, row, one.name, theme.text2, room=frame.box.width - drawing.width(ends) - 4)
            drawing.text(frame.box.right, row, ends, theme.text3, across="right")
            x, rows = frame.px(one.steps), [frame.py(row) for row in one.quantiles.T]
            with drawing.clipped(frame.box):
                for low, high, opacity in _BANDS:
                    drawing.band(x, rows[high], rows[low], theme.accent, opacity)
                drawing.path(x, rows[3], Stroke(theme.accent, 1.4))
            if len(x) == 1:  # no band yet
                drawing.line(x[0], rows[0][0], x[0], rows[6][0], Stroke(theme.accent, 2.0))
        left_out = self._count - len(self._layers)
        note = f"Without {count_text(left_out)} of {count_text(self._count)} layers. {_KEY}" if left_out else _KEY
        drawing.text(self._foot.x, self._foot.middle, note, theme.text3, room=self._foot.width)

    def read(self, x: float, y: float) -> str:
        """The layer under a pixel, with its median and ends at the picture before that step."""
        for one, axes in zip(self._layers, self._axes, strict=True):
            if axes.frame.box.holds(x, y):
                place = int(np.searchsorted(one.steps, axes.frame.x_at(x), side="right")) - 1
                return f"{one.name}, step {count_text(one.steps[max(place, 0)])}: {_words(one, max(place, 0))}"
        return ""

    def description(self) -> str:
        """Each layer's last values."""
        return ", ".join(f"{one.name} {_words(one, len(one.steps) - 1)}" for one in self._layers)


def _words(one: LayerSpread, place: int) -> str:
    low, middle, high = (float(one.quantiles[place, k]) for k in (0, 3, 6))
    return f"{value_text(low)} to {value_text(high)}, median {value_text(middle)}"


def _span(one: LayerSpread) -> Span:
    """All values of a layer. Ends that some values reached once do not flatten the rest: what is far beyond 95 % of the
    values goes out of the plot."""
    finite = one.quantiles[np.isfinite(one.quantiles).all(axis=1)]
    if not len(finite):
        return Span(-1.0, 1.0)
    low, high = float(finite[:, 1].min()), float(finite[:, 5].max())
    reach = high - low or max(abs(high), 1e-6)
    ends = max(float(finite[:, 0].min()), low - reach), min(float(finite[:, 6].max()), high + reach)
    return Span(ends[0] - 0.04 * reach, ends[1] + 0.04 * reach)


def _boxes(count: int, room: Box) -> tuple[list[Box], int]:
    """A box for each layer, in rows from the left, and how many are in a row. What has no other below it has room for
    the numbers of the steps."""
    columns = tile_columns(count, room.width, room.height, 1.6) if count else 1
    columns = max(min(columns, int(room.width // _SMALLEST[0])), 1)
    rows = -(-count // columns) if count else 1
    wide, high = (room.width - _GAP * (columns - 1)) / columns, (room.height - FOOT) / rows
    boxes = [
        Box(
            room.x + k % columns * (wide + _GAP), room.y + k // columns * high, wide,
            high + (FOOT if k + columns >= count else 0),
        )
        for k in range(count)
    ]  # fmt: skip
    return boxes, columns
