"""The chart of a loss surface: map, paths, marks, axes, the list of runs, the scale of colours, the read-out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clew_gui.base.tokens import FontKind, Theme, mixed
from clew_gui.charts.axes import LEFT, draw_foot
from clew_gui.charts.chart import Chart
from clew_gui.charts.drawing import RUN_WIDTH, SELECTED_WIDTH, Drawing, Stroke, TextSizes
from clew_gui.charts.gutter import draw_swatch, gutter_width
from clew_gui.charts.readbox import draw_lines
from clew_gui.plotting.axes.clip import clip_lines
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.numbers import count_text, value_text
from clew_gui.plotting.axes.ticks import Span, linear_ticks
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.curves.readout import prominent
from clew_gui.plotting.loss_surface import Colour, Heights, Inks
from clew_gui.plotting.surface_path import Paths

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
_REACH: Final = 200.0
"""Pixels around the map as far as which paths are painted."""
_NEAR: Final = 16.0
_SPOKEN: Final = 4
_CLOSEST: Final = 1e-5  # of the grid's extent: closer, float32 heights would show their steps
_FARTHEST: Final = 12.0


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


def _path_strokes(run: RunStyle, theme: Theme, length: float) -> tuple[Stroke, Stroke]:
    """How a path's halo looks, which keeps it apart from the map and from others, and the path itself."""
    style, width = theme.curve(run.index), SELECTED_WIDTH if run.selected else RUN_WIDTH
    return Stroke(theme.surface, width + _HALO, opacity=0.75), Stroke(style.colour, width, style.dash, dashed=length)


@dataclass(frozen=True)
class SurfaceLook:
    """How a surface is looked at: the ``zoom`` along both axes (None: the whole map), the step up to which paths are
    drawn, whether runs are ``listed`` beside the map, and its pixels for each logical one."""

    zoom: tuple[Span, Span] | None = None
    until: int | None = None
    listed: bool = True
    scale: float = 1.0


class SurfaceChart(Chart):
    """The paths of ``runs`` over a map. ``labels`` are the metrics' names for people. Map and paths are the ground, to
    which is added what the runs have walked on."""

    draws_reading = True

    def __init__(
        self,
        heights: Heights,
        labels: Mapping[str, str],
        runs: Sequence[RunStyle],
        paths: Paths,
        look: SurfaceLook,
        box: Box,
        _sizes: TextSizes,
    ) -> None:
        self.heights, self._runs, self._paths, self._look = heights, runs, paths, look
        self.paper = sheet(box.width, box.height, look.listed)
        self.frame = whole_map(heights, self.paper.box)
        if look.zoom is not None:
            self.frame = Frame(self.paper.box, *look.zoom)
        paths.follow(self.frame, runs, look.until)
        x, y, loss = (labels.get(name, name) for name in (*heights.spec.metrics, heights.spec.metric))
        self._names = (x, y, loss)
        self.rows: list[tuple[Box, str]] = []
        """The place of each run in the list beside the map."""

    @property
    def ground_key(self) -> object:
        """The map, and which paths there are."""
        return self.heights, self.frame, self._look, self._paths.begun

    def moved(self, columns: float, rows: float) -> Frame:
        """Another part of the surface."""
        return self.frame.moved(columns, rows)

    def zoomed(self, factor: float, at: tuple[float, float] | None = None) -> Frame:
        """More or less of the surface, between the limits."""
        wanted = self.frame.zoomed(factor, self.frame.place(*(at or self.frame.box.centre)))
        return wanted if _CLOSEST <= wanted.x.size / self.heights.x.size <= _FARTHEST else self.frame

    def pick(self, x: float, y: float) -> str:
        """The run whose line in the list is at this pixel."""
        return next((run for box, run in self.rows if box.holds(x, y)), "")

    # ------------------------------------------------------------ drawing
    def draw(self, drawing: Drawing) -> None:
        """Add everything but the read-out."""
        self.draw_ground(drawing)
        self.draw_top(drawing)

    def draw_ground(self, drawing: Drawing) -> None:
        """Add map and paths."""
        pixels = map_pixels(self.heights, self.frame, drawing.theme, self._look.scale)
        drawing.image(self.frame.box, pixels, smooth=True)
        for walk in self._paths.walks.values():
            walk.drawn, walk.length = 0, 0.0
        self.draw_growth(drawing)

    def draw_growth(self, drawing: Drawing) -> None:
        """Add what the runs have walked on; halos are below all of it, and the selected run is over the others."""
        runs = sorted((run for run in self._runs if run.run_id in self._paths.walks), key=lambda run: run.selected)
        found = [(run, walk, walk.news()) for run in runs for walk in (self._paths.walks[run.run_id],)]
        near = self.frame.box.inset(-_REACH, -_REACH, -_REACH, -_REACH)
        if any(len(points) > 1 for _, _, points in found):
            with drawing.clipped(self.frame.box):
                for which in (0, 1):
                    for run, walk, points in found:
                        stroke = _path_strokes(run, drawing.theme, walk.length)[which]
                        for x, y in clip_lines(points[:, 0], points[:, 1], near):
                            drawing.path(x, y, stroke)
        for _, walk, points in found:
            walk.length += float(np.nansum(np.hypot(*np.diff(points, axis=0).T)))

    def draw_top(self, drawing: Drawing) -> None:
        """Add marks, axes, the list of runs."""
        heads, starts = self.heads(), [self._head(run, 0) for run in self._runs]
        start = next(((head.x, head.y) for head in starts if head is not None), None)
        self._draw_marks(drawing, start, sorted(heads, key=lambda head: (head.run.selected, head.run.live)))
        self._draw_axes(drawing)
        self._draw_gutter(drawing, heads)
        if not heads:
            self._draw_middle(drawing, "The paths appear here with the runs' first values.")
        if note := self.note():
            room, row = self.paper.width - LEFT - 8, self.paper.height - 0.5 * NOTE - 1
            drawing.text(LEFT, row, note, drawing.theme.warn, room=room)

    # ------------------------------------------------------------ marks
    def _draw_marks(self, drawing: Drawing, start: tuple[float, float] | None, heads: Sequence[PathHead]) -> None:
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
    def _draw_axes(self, drawing: Drawing) -> None:
        """Adds the numbers at both axes, their names, the frame; without a list of runs the title above."""
        labels, title = self._names, self.heights.spec.title
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

    def _draw_middle(self, drawing: Drawing, text: str) -> None:
        """Adds a sentence in the middle of the map."""
        (x, y), wide = self.frame.box.centre, drawing.width(text) + 20
        drawing.rect(Box(x - 0.5 * wide, y - 13, wide, 26), drawing.theme.surface, 0.85, radius=6)
        drawing.text(x, y, text, drawing.theme.text2, across="middle")

    # ------------------------------------------------------------ gutter
    def _draw_gutter(self, drawing: Drawing, heads: Sequence[PathHead]) -> None:
        """Adds the title, the runs with the loss at their last step, and what the colours mean."""
        if not self.paper.gutter:
            return
        box, theme, runs = self.frame.box, drawing.theme, self._runs
        title, label = self.heights.spec.title, self._names[2]
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

    # ------------------------------------------------------------ in words
    def heads(self) -> tuple[PathHead, ...]:
        """Where each run is now."""
        return tuple(head for run in self._runs if (head := self._head(run)) is not None)

    def _head(self, run: RunStyle, index: int | None = None) -> PathHead | None:
        """Where a run was at one of its values, by default at the last one that is drawn."""
        walk = self._paths.walks.get(run.run_id)
        if walk is None or not walk.size:
            return None
        (x, y), at = walk.pair, walk.size - 1 if index is None else index
        step = float(x.steps[at])
        losses = run.history.pyramid(self.heights.spec.metric)
        sample = losses.at(step) if losses is not None else None
        loss = sample.value if sample is not None and sample.step == step else None
        return PathHead(run, step, float(x.values[at]), float(y.values[at]), loss)

    def note(self) -> str:
        """A sentence about runs that leave the whole map; empty when none does, or while it is zoomed."""
        walks = [(run, self._paths.walks.get(run.run_id)) for run in self._runs if self._look.zoom is None]
        left = [
            (run, float(walk.pair[0].steps[walk.trail.outside]))
            for run, walk in walks
            if walk is not None and walk.trail.outside is not None
        ]
        if not left:
            return ""
        run, step = left[0]
        more = f" So {'does' if len(left) == 2 else 'do'} {len(left) - 1} more." if len(left) > 1 else ""
        return f"{run.label} leaves the map at step {count_text(step)}; zoom out to follow.{more}"

    def words(self) -> str:
        """Where the most important runs are."""
        heads = {head.run.run_id: head for head in self.heads()}
        if not heads:
            return "No run has values yet."
        shown = [heads[run.run_id] for run in prominent(self._runs, _SPOKEN) if run.run_id in heads]
        parts = [
            f"{head.run.label} at step {count_text(head.step)}: {self._place(head.x, head.y)}{self._loss(head)}."
            for head in shown
        ]
        return " ".join([*parts, self.note()]).strip()

    def _place(self, x: float, y: float) -> str:
        return f"{self._names[0]} {value_text(x)}, {self._names[1]} {value_text(y)}"

    def _loss(self, head: PathHead) -> str:
        return f", {self._names[2].lower()} {value_text(head.loss)}" if head.loss is not None else ""

    def reading(self, x: float, y: float) -> tuple[RunStyle | None, tuple[float, float], tuple[str, ...]]:
        """The run whose path is nearest to a pixel, the point and what is said about it; or else the surface itself;
        no lines beside the map."""
        if not self.frame.box.holds(x, y):
            return None, (x, y), ()
        walks = [(run, self._paths.walks[run.run_id]) for run in self._runs if run.run_id in self._paths.walks]
        near = [(found, run) for run, walk in walks if (found := walk.trail.nearest(x, y)) and found[0] <= _NEAR]
        if near:
            (_, index), run = min(near, key=lambda item: (item[0][0], not item[1].selected))
            head = self._head(run, index)
            if head is not None:
                lines = run.label, f"Step {count_text(head.step)}{self._loss(head)}", self._place(head.x, head.y)
                return run, self.frame.at(head.x, head.y), lines
        place = self.frame.place(x, y)
        height = self.heights.at(*place)
        value = value_text(height) if height is not None else "is not on the map here"
        return None, (x, y), (f"{self._names[2]} {value}", self._place(*place))

    def read(self, x: float, y: float) -> str:
        """The point of a path, or the height of the surface at a pixel."""
        return ". ".join(self.reading(x, y)[2])

    def places(self) -> list[tuple[float, float]]:
        """The points of the selected run's path, as far as they can be told apart."""
        chosen = next((run.run_id for run in self._runs if run.selected), "")
        walk = self._paths.walks.get(chosen)
        return [(x, y) for x, y in walk.trail.points.tolist() if self.frame.box.holds(x, y)] if walk is not None else []

    def draw_reading(self, drawing: Drawing, x: float, y: float) -> None:
        """Adds a box beside a pixel; of a run it begins with the run's colour."""
        run, (x, y), lines = self.reading(x, y)
        area = self.frame.box

        def corner(width: float, height: float) -> tuple[float, float]:
            left = x + 14 if x + 18 + width < area.right else x - 14 - width
            return left, min(max(y - height - 10, area.y + 4), area.bottom - height - 4)

        if lines:
            draw_lines(drawing, lines, corner, run.index if run is not None else -1)


def _draw_cross(drawing: Drawing, column: float, row: float) -> None:
    for stroke in (Stroke(drawing.theme.surface, 4.0), Stroke(drawing.theme.text, 1.6)):
        drawing.line(column - 7, row, column + 7, row, stroke)
        drawing.line(column, row - 7, column, row + 7, stroke)
