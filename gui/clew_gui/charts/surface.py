"""The chart of a loss surface: marks on the map, axes, the list of runs, the scale of colours, the read-out.

The map and the paths are drawn below it: ``map_pixels`` works the map out, ``path_strokes`` says how a path looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clew_gui.base.tokens import FontKind, Theme, mixed
from clew_gui.charts.axes import LEFT, draw_foot
from clew_gui.charts.drawing import RUN_WIDTH, SELECTED_WIDTH, Drawing, Stroke
from clew_gui.charts.gutter import draw_swatch, gutter_width
from clew_gui.charts.readbox import draw_lines
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.numbers import value_text
from clew_gui.plotting.axes.ticks import Span, linear_ticks
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.curves.readout import prominent
from clew_gui.plotting.loss_surface import Colour, Heights, Inks

TOP: Final = 24.0
FOOT: Final = 26.0
NOTE: Final = 18.0
ROW: Final = 18.0
_DENSE: Final = 12.5
"""The least height of a row where many runs are listed."""
ROOMY: Final = 540
"""The width from which on the list of runs is beside the map."""
_HALO: Final = 2.4
_SCALE: Final = 54.0
_DOT: Final = 10.0


@dataclass(frozen=True)
class Sheet:
    """The division of a picture: the map's box, and the gutter right of it (0: none)."""

    width: float
    height: float
    box: Box
    gutter: float


def sheet(width: float, height: float, listed: bool = True) -> Sheet:
    """Divide a picture; a line at the foot is left for a note, because the map must not jump when one comes.

    Without ``listed`` the list of runs is left out: the curves beside it have one.
    """
    gutter = gutter_width(width) if listed and width >= ROOMY else 0.0
    across = max(width - LEFT - (gutter or 14.0), 40.0)
    high = max(height - TOP - FOOT - NOTE, 40.0)
    return Sheet(width, height, Box(LEFT, TOP, across, high), gutter)


def whole_map(heights: Heights, box: Box) -> Frame:
    """The frame that shows the whole grid."""
    return Frame(box, Span(heights.x.low, heights.x.high), Span(heights.y.low, heights.y.high))


@dataclass(frozen=True)
class PathHead:
    """A run's present point on the surface: its values at its last step, and the loss there (None: not known)."""

    run: RunStyle
    step: float
    x: float
    y: float
    loss: float | None


def inks(theme: Theme) -> Inks:
    """The map's colours: quiet ones, that the paths stand out from; light or dark as the ground of all plots."""
    strong = 0.42 if theme.dark else 0.34
    return Inks(
        low=_rgb(theme.surface),
        high=_rgb(mixed(theme.surface, theme.accent, strong)),
        line=_rgb(mixed(theme.surface, theme.accent, strong + 0.16)),
        beyond=_rgb(theme.sunken),
    )


def _rgb(colour: str) -> Colour:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def map_pixels(heights: Heights, frame: Frame, theme: Theme, scale: float) -> npt.NDArray[np.uint8]:
    """The map as bytes [rows, columns, 3], with ``scale`` pixels for each logical one."""
    width, height = max(round(frame.box.width * scale), 2), max(round(frame.box.height * scale), 2)
    x = frame.x.low + (np.arange(width) + 0.5) / width * frame.x.size
    y = frame.y.high - (np.arange(height) + 0.5) / height * frame.y.size
    words = np.ascontiguousarray(heights.picture(x, y, inks(theme)).astype(">u4"))
    return words.view(np.uint8).reshape(height, width, 4)[:, :, 1:]


def path_strokes(run: RunStyle, theme: Theme) -> tuple[Stroke, Stroke]:
    """How a path's halo looks, which keeps it apart from the map and from others, and the path itself."""
    style, width = theme.curve(run.index), SELECTED_WIDTH if run.selected else RUN_WIDTH
    return Stroke(theme.surface, width + _HALO, opacity=0.75), Stroke(style.colour, width, style.dash)


class SurfaceChart:
    """Draws everything but map and paths, which are kept as pixels while nothing but the runs changes."""

    def __init__(self, heights: Heights, frame: Frame, paper: Sheet) -> None:
        self.heights, self.frame, self.paper = heights, frame, paper
        self.rows: list[tuple[Box, str]] = []
        """The place of each run in the list beside the map."""

    def run_at(self, x: float, y: float) -> str:
        """The run whose line in the list is at this pixel."""
        return next((run for box, run in self.rows if box.holds(x, y)), "")

    # ------------------------------------------------------------ marks
    def draw_marks(self, drawing: Drawing, start: tuple[float, float] | None, heads: Sequence[PathHead]) -> None:
        """Adds the minimum, the start, and where each run is."""
        theme, minimum = drawing.theme, self.heights.spec.minimum
        with drawing.clipped(self.frame.box.inset(-6, -6, -6, -6)):
            if minimum is not None:
                _draw_cross(drawing, *self.frame.at(*minimum))
            if start is not None:
                x, y = self.frame.at(*start)
                for stroke in (Stroke(theme.surface, 4.5), Stroke(theme.text, 1.8)):
                    drawing.marks([x], [y], "", _DOT, edge=stroke)
            for head in heads:
                self._draw_head(drawing, head)
        for words, place in (("Start", start), ("Minimum", minimum)):
            if place is not None:
                self._draw_name(drawing, words, *self.frame.at(*place))

    def _draw_head(self, drawing: Drawing, head: PathHead) -> None:
        (x, y), colour = self.frame.at(head.x, head.y), drawing.theme.curve(head.run.index).colour
        ground = Stroke(drawing.theme.surface, 1.6)
        if head.run.stale:
            drawing.marks([x], [y], drawing.theme.surface, _DOT + 2, edge=ground)
            drawing.marks([x], [y], "", _DOT, edge=Stroke(colour, 1.8))
        else:
            drawing.marks([x], [y], colour, _DOT + (3 if head.run.live else 1), edge=ground)

    def _draw_name(self, drawing: Drawing, words: str, column: float, row: float) -> None:
        wide = drawing.width(words) + 8
        left = column + 10 if column + 14 + wide < self.frame.box.right else column - 10 - wide
        box = Box(left, row - 20, wide, 16)
        if box.inside(self.frame.box):
            drawing.rect(box, drawing.theme.surface, 0.8, radius=4)
            drawing.text(*box.centre, words, drawing.theme.text2, across="middle")

    # ------------------------------------------------------------ axes
    def draw_axes(self, drawing: Drawing, labels: tuple[str, str], title: str) -> None:
        """Adds the numbers at both axes, their names, the frame; without a list of runs the title above."""
        theme, box, stroke = drawing.theme, self.frame.box, Stroke(drawing.theme.border, crisp=True)
        drawing.rect(box, "", edge=stroke, smooth=False)
        name = drawing.width(labels[0], "captionStrong") + 12
        x_ticks = linear_ticks(self.frame.x, max(int(box.width // 80), 2))
        room = box.right - name
        draw_foot(drawing, self.frame, [tick for tick in x_ticks if self.frame.column(tick.at) + 20 < room])
        for tick in linear_ticks(self.frame.y, max(int(box.height // 44), 2)):
            row = self.frame.row(tick.at)
            drawing.line(box.x - 4, row, box.x, row, stroke)
            drawing.text(box.x - 7, row, tick.text, across="right")
        above = 0.5 * (TOP - 6)
        drawing.text(box.right, box.bottom + 14, labels[0], theme.text2, "captionStrong", across="right")
        drawing.text(box.x - 7, above, labels[1], theme.text2, "captionStrong", across="right")
        if not self.paper.gutter:
            drawing.text(box.x, above, title, theme.text, "captionStrong", room=box.width)
            self._draw_small_scale(drawing, drawing.width(title, "captionStrong") + 24)

    def draw_note(self, drawing: Drawing, text: str) -> None:
        """Adds a sentence at the foot."""
        room, row = self.paper.width - LEFT - 8, self.paper.height - 0.5 * NOTE - 1
        drawing.text(LEFT, row, text, drawing.theme.warn, room=room)

    def draw_middle(self, drawing: Drawing, text: str) -> None:
        """Adds a sentence in the middle of the map."""
        (x, y), wide = self.frame.box.centre, drawing.width(text) + 20
        drawing.rect(Box(x - 0.5 * wide, y - 13, wide, 26), drawing.theme.surface, 0.85, radius=6)
        drawing.text(x, y, text, drawing.theme.text2, across="middle")

    # ------------------------------------------------------------ gutter
    def draw_gutter(
        self, drawing: Drawing, title: str, label: str, heads: Sequence[PathHead], runs: Sequence[RunStyle]
    ) -> None:
        """Adds the title, the runs with the loss at their last step, and what the colours mean."""
        if not self.paper.gutter:
            return
        box, theme = self.frame.box, drawing.theme
        left, wide = box.right + 16, self.paper.gutter - 20
        drawing.text(left, TOP - 11, title, theme.text, "captionStrong", room=wide)
        drawing.text(left, TOP + 7, f"{label} at the shown step", room=wide)
        known = {head.run.run_id: head for head in heads}
        free = box.height - 24 - _SCALE
        high = ROW if len(runs) * ROW <= free else max(free / max(len(runs), 1), _DENSE)
        room = max(int(free // high), 1)
        shown = prominent(runs, room if len(runs) <= room else max(room - 1, 1))
        y = TOP + 20
        for run in shown:
            self._draw_run(drawing, Box(left, y, wide, high), run, known.get(run.run_id))
            y += high
        if len(shown) < len(runs):
            drawing.text(left + 22, y + 0.5 * high, f"and {len(runs) - len(shown)} more")
        self._draw_colours(drawing, Box(left, box.bottom - _SCALE + 14, wide, _SCALE - 14), label)

    def _draw_run(self, drawing: Drawing, box: Box, run: RunStyle, head: PathHead | None) -> None:
        self.rows.append((box, run.run_id))
        draw_swatch(drawing, box.x, box.middle, run.index, 16)
        value = "–" if head is None or head.loss is None else value_text(head.loss)
        ink = drawing.theme.text if run.selected else drawing.theme.text2
        kind: FontKind = "captionStrong" if run.selected else "caption"
        drawing.text(box.right, box.middle, value, ink, kind, across="right")
        room = box.width - 30 - drawing.width(value, kind)
        drawing.text(box.x + 22, box.middle, run.label, ink, kind, room=room)

    def _draw_small_scale(self, drawing: Drawing, left: float) -> None:
        """The colours between the lowest and the highest contour's value, at the right of the title."""
        levels = [tick.text for tick in self.heights.levels if tick.text]
        if not levels:
            return
        low, high = (drawing.width(text) + 6 for text in (levels[0], levels[-1]))
        box, above = self.frame.box, 0.5 * (TOP - 6)
        strip = min(box.width - left - low - high, 120.0)
        if strip >= 40:
            drawing.text(box.right, above, levels[-1], across="right")
            self._draw_strip(drawing, Box(box.right - high - strip, 4, strip, 10))
            drawing.text(box.right - high - strip - 4, above, levels[0], across="right")

    def _draw_strip(self, drawing: Drawing, box: Box) -> None:
        theme, count = drawing.theme, len(self.heights.levels) + 1
        high = mixed(theme.surface, theme.accent, 0.42 if theme.dark else 0.34)
        for k in range(count):
            left, right = (round(box.x + box.width * part / count) for part in (k, k + 1))
            ink = mixed(theme.surface, high, k / (count - 1))
            drawing.rect(Box(left, box.y, right - left, box.height), ink, smooth=False)
        edge = Stroke(theme.border, crisp=True)
        drawing.rect(Box(round(box.x), box.y, round(box.width), box.height), "", edge=edge, smooth=False)

    def _draw_colours(self, drawing: Drawing, box: Box, label: str) -> None:
        """A strip of the map's colours from low to high, with a few of the contours' values."""
        levels, count = self.heights.levels, len(self.heights.levels) + 1
        self._draw_strip(drawing, Box(box.x, box.y, box.width, 10))
        used, stroke = -1e9, Stroke(drawing.theme.border, crisp=True)
        for k, tick in enumerate(levels):
            at = box.x + box.width * (k + 1) / count
            half = 0.5 * drawing.width(tick.text)
            decade = not self.heights.log or math.isclose(tick.at, round(tick.at), abs_tol=1e-9)
            if decade and tick.text and at - half > used + 8 and at + half < box.right + 8:
                used = at + half
                drawing.line(at, box.y + 10, at, box.y + 13, stroke)
                drawing.text(at, box.y + 20, tick.text, across="middle")
        drawing.text(box.x, box.y - 10, f"{label} on the map", room=box.width)

    # ------------------------------------------------------------ read-out
    def draw_reading(
        self, drawing: Drawing, at: tuple[float, float], lines: Sequence[str], run: RunStyle | None
    ) -> None:
        """Adds a box beside a pixel; of a run it begins with the run's colour."""
        (x, y), area = at, self.frame.box

        def corner(width: float, height: float) -> tuple[float, float]:
            left = x + 14 if x + 18 + width < area.right else x - 14 - width
            return left, min(max(y - height - 10, area.y + 4), area.bottom - height - 4)

        draw_lines(drawing, lines, corner, run.index if run is not None else -1)


def _draw_cross(drawing: Drawing, column: float, row: float) -> None:
    for stroke in (Stroke(drawing.theme.surface, 4.0), Stroke(drawing.theme.text, 1.6)):
        drawing.line(column - 7, row, column + 7, row, stroke)
        drawing.line(column, row - 7, column, row + 7, stroke)
