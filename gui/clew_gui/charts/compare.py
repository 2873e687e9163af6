"""The charts of the Compare tab: curves with bands, a scatter plot, parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from clew_gui.base.tokens import FontKind, Theme, mixed
from clew_gui.charts.axes import FOOT, draw_foot, draw_grid
from clew_gui.charts.chart import Chart, ChartPage
from clew_gui.charts.drawing import Drawing, Shape, Stroke, TextSizes
from clew_gui.charts.readbox import draw_lines
from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box, spread
from clew_gui.plotting.axes.ticks import Span
from clew_gui.plotting.compare import CompareAxis, CompareGroup, CompareScene, Ink
from clew_shared.base.number_words import quantity

Form = Literal["curves", "scatter", "parallel"]
EMPTY: Final = "Runs that are ticked, or listed below, are compared here. Start two runs that differ in one setting."
ALIKE: Final = "There is an axis for each setting in which the runs differ, and these differ in none."
_VIRIDIS: Final = ("#440154", "#414487", "#2A788E", "#22A884", "#7AD151", "#FDE725")
_SIZE: Final = (1000.0, 560.0)
_FOOT: Final = FOOT + 18.0
_TOP: Final = 26.0
_GUTTER: Final = 236.0
_ROW: Final = 18.0
_TOLD: Final = 36.0
"""The height of two lines below the parallel axes: what Optuna says of them."""
_NEAR: Final = 14.0
_MANY: Final = 40
"""The number of lines from which on they are drawn thin."""


def ink_stroke(ink: Ink, theme: Theme, width: float) -> Stroke:
    """Returns the stroke for a group: a place on the scale, or a curve style whose dash tells repeated hues apart."""
    style = theme.curve(ink.style)
    if ink.place is not None:
        return Stroke(scale_colour(ink.place, theme), width)
    return Stroke(style.colour, width, style.dash)


def scale_colour(place: float, theme: Theme) -> str:
    """A colour of viridis, without the end that would not be seen on the theme's ground. Source: Smith and van der
    Walt, matplotlib 2.0; its lightness rises evenly, also for the colour-blind."""
    low, high = (0.28, 1.0) if theme.dark else (0.0, 0.82)
    at = (low + (high - low) * min(max(place, 0.0), 1.0)) * (len(_VIRIDIS) - 1)
    first = min(int(at), len(_VIRIDIS) - 2)
    return mixed(_VIRIDIS[first], _VIRIDIS[first + 1], at - first)


_DOT = 9.2
"""The size of a point, in pixels."""


class CompareChart(Chart):
    """One form of a scene in a box."""

    def __init__(self, scene: CompareScene, form: Form, box: Box, sizes: TextSizes) -> None:
        self._scene, self._form, self._box, self._sizes = scene, form, box, sizes
        left = 58.0 if form != "parallel" else 64.0
        named = form == "curves" or (form == "scatter" and not scene.legend)
        gutter = min(_GUTTER, box.width * 0.36) if named else 64.0 if form == "parallel" else 150.0
        self._area = box.inset(left, _TOP, gutter, _FOOT if form != "parallel" else _FOOT + _TOLD)
        self._axes = (scene.x, scene.y) if form == "curves" else scene.scatter
        self._frame = Frame(self._area, self._axes[0].span, self._axes[1].span)

    # --- Geometry -----------------------------------------------------------------------------------------------------

    def line(self, number: int) -> FloatArray:
        """The pixels of a group's line, n rows of x and y; none in a scatter."""
        if self._form == "parallel":
            return self._path(number)
        group = self._scene.groups[number]
        return self._pixels(group.x, group.y)

    def _pixels(self, x: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            heights = np.log10(y) if self._scene.y.log else y
        good = np.isfinite(heights)
        return np.column_stack([self._frame.px(x[good]), self._frame.py(heights[good])])

    def _path(self, number: int) -> FloatArray:
        spots = [
            (self._column(k), self._height(axis, float(value)))
            for k, (axis, value) in enumerate(zip(self._scene.parallel, self._scene.paths[number], strict=True))
            if math.isfinite(value)
        ]
        return np.array(spots, np.float64).reshape(-1, 2)

    def spot(self, x: float, y: float) -> tuple[float, float]:
        """The pixel of a point of the scatter plot."""
        return self._frame.column(x), self._frame.row(y)

    def _column(self, number: int) -> float:
        """The pixel column of a parallel axis."""
        return self._area.x + self._area.width * number / max(len(self._scene.parallel) - 1, 1)

    def _height(self, axis: CompareAxis, value: float) -> float:
        return Frame(self._area, Span(0.0, 1.0), axis.span).row(value)

    def pick(self, x: float, y: float) -> str:
        """The number of the group that is nearest to a pixel; empty if none is near."""
        away = [(_distance(spots, x, y), number) for number, spots in self._spots() if spots.size]
        best, found = min(away, default=(_NEAR, -1))
        return str(found) if best < _NEAR else ""

    @property
    def _alike(self) -> bool:
        """Whether there is no axis to draw but that of the result."""
        return self._form == "parallel" and len(self._scene.parallel) < 2

    def _spots(self) -> list[tuple[int, FloatArray]]:
        if self._alike:
            return []
        if self._form == "scatter":
            return [(one.group, np.array([self.spot(one.x, one.y)])) for one in self._scene.places]
        return [(number, self.line(number)) for number in range(len(self._scene.groups))]

    # --- Drawing ------------------------------------------------------------------------------------------------------

    def draw(self, drawing: Drawing) -> None:
        """Add everything but the group that stands out."""
        if self._alike or not self._scene.groups:
            high = drawing.sizes.height("body") + 1
            room = Box(self._box.x + 24, self._box.middle - high, self._box.width - 48, 2 * high)
            text = ALIKE if self._scene.groups else EMPTY
            drawing.paragraph(room, text, drawing.theme.text2, across="middle")
            return
        if self._form == "parallel":
            self._draw_parallel_axes(drawing)
        else:
            self._draw_axes(drawing)
        numbers = range(len(self._scene.groups))
        for number in sorted(numbers, key=lambda k: self._scene.groups[k].baseline):
            self._draw_group(drawing, number, 0.8 if len(numbers) > _MANY else 1.7)
        if self._form == "curves" or (self._form == "scatter" and not self._scene.legend):
            self._draw_names(drawing)
        elif self._form == "parallel":
            self._draw_parallel_ticks(drawing)
        self._draw_legend(drawing)

    def draw_lifted(self, drawing: Drawing, name: str) -> None:
        """Add the group that stands out, over a veil."""
        number = int(name)
        if number >= len(self._scene.groups):
            return
        drawing.rect(self._area.inset(-4, -4, -4, -4), drawing.theme.surface, 0.55)
        self._draw_group(drawing, number, 3.0)
        area = self._area
        draw_lines(drawing, self.words_of(number), lambda width, _height: (area.right - width - 6, area.y + 6))

    def _draw_group(self, drawing: Drawing, number: int, width: float) -> None:
        group = self._scene.groups[number]
        stroke = ink_stroke(group.ink, drawing.theme, width + (0.9 if group.baseline else 0.0))
        if self._form == "scatter":
            self._draw_dots(drawing, number, stroke.colour, width)
            return
        with drawing.clipped(self._area.inset(-3, -3, -3, -3)):
            if group.band is not None and self._form == "curves":
                self._draw_band(drawing, group, group.band.deviation, stroke.colour)
            line = self.line(number)
            drawing.path(line[:, 0], line[:, 1], stroke)

    def _draw_band(self, drawing: Drawing, group: CompareGroup, deviation: FloatArray, colour: str) -> None:
        floor = 10.0**self._scene.y.span.low if self._scene.y.log else -math.inf
        low = self._pixels(group.x, np.maximum(group.y - deviation, floor))
        high = self._pixels(group.x, group.y + deviation)
        both = np.concatenate([low, high[::-1]])
        drawing.area(both[:, 0], both[:, 1], colour, 0.18)

    def _draw_dots(self, drawing: Drawing, number: int, colour: str, width: float) -> None:
        group, area = self._scene.groups[number], self._area
        size = _DOT if width < 2.5 else 14.0
        for one in self._scene.places:
            if one.group != number:
                continue
            x, y = self._frame.column(one.x), self._frame.row(one.y)
            if group.outcome.deviation and not self._axes[1].log:
                ends = [self._frame.row(one.y + side * group.outcome.deviation) for side in (-1, 1)]
                ends = [min(max(end, area.y), area.bottom) for end in ends]
                drawing.line(x, ends[0], x, ends[1], Stroke(colour, 1.4))
            self._draw_dot(drawing, group, x, y, size)

    def _draw_dot(self, drawing: Drawing, group: CompareGroup, x: float, y: float, size: float) -> None:
        """A point of a group; hollow where its line would be dashed, since another group has the same colour."""
        stroke, ground = ink_stroke(group.ink, drawing.theme, 2.0), drawing.theme.surface
        fill, edge = (ground, Stroke(stroke.colour, 2.0)) if stroke.dash else (stroke.colour, Stroke(ground, 1.2))
        shape: Shape = "square" if group.baseline else "dot"
        drawing.marks([x], [y], fill, size, shape=shape, edge=edge)

    def _draw_axes(self, drawing: Drawing) -> None:
        x, y = self._axes
        draw_grid(drawing, self._frame, y.ticks)
        draw_foot(drawing, self._frame, x.ticks, x.title + (", log scale" if x.log else ""))
        title = y.title + (", log scale" if y.log else "")
        drawing.text(self._box.x + 8, self._box.y + 10, title, drawing.theme.text, "strong")

    def _draw_parallel_axes(self, drawing: Drawing) -> None:
        axes = self._scene.parallel
        wide = self._area.width / max(len(axes) - 1, 1)
        for number, axis in enumerate(axes):
            column, stroke = self._column(number), Stroke(drawing.theme.border, crisp=True)
            drawing.line(column, self._area.y, column, self._area.bottom, stroke)
            at = column, self._box.y + 11
            drawing.text(*at, axis.title, drawing.theme.text, "captionStrong", across="middle", room=wide)
            share = self._scene.shares.get(axis.name, "")
            drawing.text(column, self._area.bottom + 12, share, drawing.theme.text, "captionStrong", across="middle")
        room = Box(self._box.x + 8, self._area.bottom + 22, self._box.width - 16, _TOLD)
        drawing.paragraph(room, self._scene.told, drawing.theme.text2, "caption")

    def _draw_parallel_ticks(self, drawing: Drawing) -> None:
        """Draws the tick labels over the lines on their own background, because all lines of a value go through its
        label."""
        theme = drawing.theme
        for number, axis in enumerate(self._scene.parallel):
            for tick in axis.ticks:
                wide = min(drawing.width(tick.text), 57.0)
                box = Box(self._column(number) - 5 - wide, self._height(axis, tick.at) - 8, wide, 16)
                drawing.rect(box.inset(-2, 0, -2, 0), theme.surface, 0.85)
                drawing.text(box.x, box.middle, tick.text, theme.text2, room=wide + 2)

    def _draw_names(self, drawing: Drawing) -> None:
        """Writes the names of as many lines or points as there is room for, the baseline and the best first; the table
        has all."""
        theme, area, right = drawing.theme, self._area, self._box.right - 6
        room = int(area.height // _ROW)
        order = self._by_merit()
        shown = order if len(order) <= room else order[: max(room - 1, 0)]
        if self._form == "scatter":
            ends = {number: area.y + place * _ROW for place, number in enumerate(shown)}
        else:
            lines = {number: self.line(number) for number in shown}
            ends = {number: float(line[-1, 1]) for number, line in lines.items() if line.size}
        rows = spread(list(ends.values()), _ROW, area.y, area.bottom - _ROW / 2)
        start = area.right + 12
        for number, row in zip(ends, rows, strict=True):
            group = self._scene.groups[number]
            if self._form == "scatter":
                self._draw_dot(drawing, group, start + 8, row, _DOT)
            else:
                drawing.line(start, row, start + 16, row, ink_stroke(group.ink, theme, 2.0))
            value = "" if group.outcome.best is None else quantity(group.outcome.best, self._scene.metric.format)
            drawing.text(right, row, value, theme.text2, across="right")
            wide = right - start - 28 - drawing.width(value)
            kind: FontKind = "captionStrong" if group.baseline else "caption"
            drawing.text(start + 22, row, group.title, theme.text, kind, room=wide)
        if len(shown) < len(order):
            drawing.text(start, area.bottom + 11, f"{len(order) - len(shown)} more in the table")

    def _by_merit(self) -> list[int]:
        """The groups, the baseline first, then by their best value."""
        sign = -1.0 if self._scene.metric.better == "higher" else 1.0

        def order(number: int) -> tuple[bool, float]:
            group = self._scene.groups[number]
            best = group.outcome.best
            return not group.baseline, sign * best if best is not None else math.inf

        drawn = [number for number, spots in self._spots() if spots.size]
        return sorted(drawn, key=order)

    def _draw_legend(self, drawing: Drawing) -> None:
        """Draws the legend of the colours, in a line at the top; in a scatter plot beside it."""
        scene, box, beside = self._scene, self._box, self._form == "scatter"
        if not scene.legend:
            return
        texts = [scene.coloured_by, *(text for _, text in scene.legend)]
        wide = sum(drawing.width(text) + 32 for text in texts) - 20
        x = self._area.right + 14 if beside else box.right - 6 - wide
        y = self._area.y if beside else box.y + (10 if self._form == "curves" else box.height - 12)
        for ink, text in ((None, scene.coloured_by), *scene.legend):
            if ink is not None:
                drawing.line(x, y, x + 14, y, ink_stroke(ink, drawing.theme, 3.0))
            at = x + (20 if ink is not None else 0)
            drawing.text(at, y, text, drawing.theme.text2)
            x, y = (x, y + 18) if beside else (at + drawing.width(text) + 12, y)

    # --- In words -----------------------------------------------------------------------------------------------------

    def words_of(self, number: int) -> list[str]:
        """The lines of the box about a group."""
        heads, cells = self._scene.table[0], self._scene.table[number + 1]
        pairs = (f"{head}: {cell}" for head, cell in zip(heads[1:], cells[1:], strict=True) if cell)
        return [f"Run {self._scene.groups[number].title}", *pairs]

    def words(self) -> str:
        """The number of groups, and the first ones."""
        rows = "; ".join(", ".join(row) for row in self._scene.table[1:8])
        told = f" {self._scene.told}" if self._form == "parallel" else ""
        return f"{len(self._scene.groups)} groups of runs. {rows}{told}"


def _distance(spots: FloatArray, x: float, y: float) -> float:
    """Returns the distance from a pixel to a polyline, or to a single point."""
    start, end = spots[:-1], spots[1:]
    if not start.size:
        return float(np.hypot(spots[0, 0] - x, spots[0, 1] - y))
    along = end - start
    length = np.maximum((along**2).sum(axis=1), 1e-12)
    part = np.clip(((x - start[:, 0]) * along[:, 0] + (y - start[:, 1]) * along[:, 1]) / length, 0, 1)
    gap = np.hypot(start[:, 0] + part * along[:, 0] - x, start[:, 1] + part * along[:, 1] - y)
    return float(gap.min())


def compare_page(scene: CompareScene, form: Form, title: str, theme: Theme, sizes: TextSizes) -> ChartPage:
    """The chart below its title."""
    drawing, (width, height) = Drawing(theme, sizes), _SIZE
    drawing.text(16, 20, title, theme.text, "subtitle", room=width - 32)
    CompareChart(scene, form, Box(8, 40, width - 16, height - 48), sizes).draw(drawing)
    return ChartPage(width, height, drawing.items, title, table_text(scene.table, "; "), theme.surface)


def table_text(table: Sequence[Sequence[str]], between: str) -> str:
    """The table as lines."""
    return "\n".join(between.join(row) for row in table)
