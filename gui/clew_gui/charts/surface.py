"""A loss surface: its heights, the paths of runs over it, and its chart with map, axes, list of runs and read-out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clew_gui.base.tokens import FontKind, Theme, mixed
from clew_gui.charts.curves.model import RunStyle
from clew_gui.charts.curves.readout import prominent
from clew_gui.charts.kit.axes import LEFT, draw_foot
from clew_gui.charts.kit.clip import clip_lines
from clew_gui.charts.kit.drawing import RUN_WIDTH, SELECTED_WIDTH, Chart, Drawing, Stroke, TextSizes, rgb
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.gutter import draw_swatch, gutter_width
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.readbox import draw_lines
from clew_gui.charts.kit.ticks import Span, Tick, count_text, linear_ticks, log_ticks, value_text
from clew_shared.cards import SurfaceSpec
from clew_shared.journal.buffer import Buffer
from clew_shared.journal.pyramid import Pyramid, index_of
from clew_shared.surface import heights_of

LEVELS: Final = 14
"""The approximate largest number of contours."""
_DECADES: Final = 5.0
"""A logarithmic scale reaches so far below the highest place; what lies deeper has the lowest colour."""
_FLAT: Final = 1e-6
_SHADES: Final = 16
"""The number of shades between ground and contour that makes an edge smooth."""


class Heights:
    """The surface of a card. Between the grid's points it is cubic (Catmull and Rom 1974), exact for a parabola."""

    def __init__(self, spec: SurfaceSpec) -> None:
        self.spec = spec
        self.x, self.y = Span(*spec.x), Span(*spec.y)
        grid = heights_of(spec)
        finite = grid[np.isfinite(grid)]
        top = float(finite.max()) if finite.size else 1.0
        self._grid = _padded(_padded(np.where(np.isfinite(grid), grid, top)).T).T
        positive = finite[finite > 0]
        self.log = bool(positive.size) and bool(finite.min() >= 0)
        low = float(positive.min()) if self.log else float(finite.min()) if finite.size else 0.0
        self.scale = self._scale(low, top)
        ticks = log_ticks(self.scale, LEVELS) if self.log else linear_ticks(self.scale, LEVELS)
        self.levels: tuple[Tick, ...] = (
            ticks if len(ticks) > 1 else (Tick(self.scale.low, ""), Tick(self.scale.high, ""))
        )

    def _scale(self, low: float, top: float) -> Span:
        """Returns the range of the colours, in log10 of the loss with ``log``."""
        if self.log:
            high = math.log10(top)
            return Span(min(max(math.log10(low), high - _DECADES), high - 0.1), high)
        return Span(low, top if top > low else low + 1.0)

    def sample(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """The loss [len(y), len(x)] at each pair; NaN beyond the grid."""
        rows = _weights(y, self.y, self.spec.rows)
        columns = _weights(x, self.x, self.spec.columns)
        found: FloatArray = rows @ self._grid @ columns.T
        return found

    def at(self, x: float, y: float) -> float | None:
        """The loss at one place; None beyond the grid."""
        value = float(self.sample(np.array([x]), np.array([y]))[0, 0])
        return None if math.isnan(value) else max(value, 0.0) if self.log else value

    def picture(self, x: FloatArray, y: FloatArray, inks: Sequence[FloatArray]) -> npt.NDArray[np.uint8]:
        """The map at these places, bytes [len(y), len(x), 3]: even ground between contours that are a pixel wide.
        ``inks`` are the colours of the lowest and highest ground, of contours, and beyond the grid."""
        heights = self.sample(x, y).astype(np.float32)
        beyond = np.isnan(heights)
        if self.log:
            heights = np.log10(np.maximum(heights, np.float32(10.0 ** (self.scale.low - 1))))
        marks = np.array([tick.at for tick in self.levels])
        steps = np.concatenate(([-0.5], np.arange(marks.size), [marks.size - 0.5]))  # below the first, above the last
        ends = np.concatenate(([marks[0] - 1e-9], marks, [marks[-1] + 1e-9]))
        place = np.interp(heights, ends, steps).astype(np.float32)
        place[beyond] = -0.5
        ground = np.ceil(place).astype(np.int32)
        index = ground * (_SHADES + 1) + np.round(_line(place) * _SHADES).astype(np.int32)
        index[beyond] = (marks.size + 1) * (_SHADES + 1)
        return _table(inks, marks.size + 1)[index]


def _line(place: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Returns how much of a contour covers each pixel: its distance from the nearest whole number, by the slope
    there."""
    if min(place.shape) < 2:
        return np.zeros_like(place)
    down, right = np.gradient(place)
    slope = np.hypot(down, right)
    away = np.abs(place - np.round(place)) / np.maximum(slope, np.float32(_FLAT))
    cover: npt.NDArray[np.float32] = np.clip(1 - away, 0, 1)
    return cover


def _table(inks: Sequence[FloatArray], grounds: int) -> npt.NDArray[np.uint8]:
    """Colours by ground and share of a contour over it; the last one is that beyond the grid."""
    low, high, line, beyond = inks
    ground = low + np.linspace(0.0, 1.0, grounds)[:, None] * (high - low)
    share = np.linspace(0.0, 1.0, _SHADES + 1)[None, :, None]
    colours = np.concatenate([(ground[:, None] * (1 - share) + line * share).reshape(-1, 3), [beyond]])
    return colours.round().astype(np.uint8)


def _padded(grid: FloatArray) -> FloatArray:
    """Adds one row at both ends, on the parabola through the last three."""
    if grid.shape[0] < 3:
        return np.concatenate([grid[:1], grid, grid[-1:]])
    before, behind = 3 * grid[0] - 3 * grid[1] + grid[2], 3 * grid[-1] - 3 * grid[-2] + grid[-3]
    return np.concatenate([before[None], grid, behind[None]])


def _weights(at: FloatArray, span: Span, points: int) -> FloatArray:
    """The share [len(at), points + 2] of each padded grid point in the value at each place; NaN beyond the grid."""
    place = (at - span.low) / span.size * (points - 1)
    inside = (place >= -1e-9) & (place <= points - 1 + 1e-9)
    first = np.clip(np.floor(np.where(inside, place, 0.0)), 0, max(points - 2, 0)).astype(np.intp)
    t = np.where(inside, place, 0.0) - first
    shares = (
        0.5 * (-t + 2 * t**2 - t**3),
        0.5 * (2 - 5 * t**2 + 3 * t**3),
        0.5 * (t + 4 * t**2 - 3 * t**3),
        0.5 * (-(t**2) + t**3),
    )
    weights = np.zeros((at.size, points + 2))
    for offset, share in enumerate(shares):
        weights[np.arange(at.size), np.minimum(first + offset, points + 1)] += share
    weights[~inside] = np.nan
    return weights


Floats = npt.NDArray[np.floating[Any]]
Pair = tuple[Pyramid, Pyramid]
"""The curves of a run's two parameters."""
_CELLS: Final = 2.0
"""The cells per pixel, of half a pixel each: a point in the same cell as the one before it would not be seen."""
_FAR: Final = 1e6
"""The limit in pixels: a line to a point farther away is left out, because those of a run that diverged would cross
everything."""
_AWAY: Final = 1e12  # the cell of all such points


class Trail:
    """One run's path in one frame. ``extend`` is called with all values so far and costs what is new."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._columns, self._rows = Buffer(np.float64), Buffer(np.float64)
        self._index = Buffer(np.int64)
        self._cell: FloatArray = np.array([[np.nan, np.nan]])
        self.taken = 0
        self.ended = False
        """Whether a value was not finite: the path ends before it."""
        self._drawn = 0
        self.length = 0.0
        """How many pixels of it are drawn."""
        self.outside: int | None = None
        """Index of the first point beyond the frame."""

    def extend(self, x: Floats, y: Floats) -> None:
        """Take what lies after the points already taken."""
        size = min(x.size, y.size)
        if self.ended or size <= self.taken:
            return
        new_x, new_y = x[self.taken : size].astype(np.float64), y[self.taken : size].astype(np.float64)
        bad = np.flatnonzero(~(np.isfinite(new_x) & np.isfinite(new_y)))
        if bad.size:
            self.ended = True
            new_x, new_y = new_x[: bad[0]], new_y[: bad[0]]
        with np.errstate(over="ignore"):
            points = np.column_stack((self._frame.px(new_x, np.inf), self._frame.py(new_y, np.inf)))
        if len(points):
            self._keep(points)
        self.taken += new_x.size

    def _keep(self, points: FloatArray) -> None:
        self._note_outside(points)
        far = np.abs(points).max(axis=1) > _FAR
        points[far] = np.nan
        cells = np.where(far[:, None], _AWAY, np.floor(points * _CELLS))
        kept = np.flatnonzero((cells != np.concatenate((self._cell, cells[:-1]))).any(axis=1))
        self._cell = cells[-1:]
        self._columns.extend(points[kept, 0])
        self._rows.extend(points[kept, 1])
        self._index.extend(self.taken + kept.astype(np.int64))

    def _note_outside(self, points: FloatArray) -> None:
        box = self._frame.box
        if self.outside is None:
            column, row = points[:, 0], points[:, 1]
            out = (column < box.x) | (column > box.right) | (row < box.y) | (row > box.bottom)
            self.outside = self.taken + int(np.argmax(out)) if out.any() else None

    @property
    def points(self) -> FloatArray:
        """Returns all that was kept [n, 2], in pixels; NaN for what is far away."""
        return np.column_stack((self._columns.view, self._rows.view))

    def news(self, anew: bool = False) -> FloatArray:
        """What is not drawn yet, from the last point that is; all of it if the ground is drawn ``anew``."""
        if anew:
            self._drawn, self.length = 0, 0.0
        points = self.points
        found = points[max(self._drawn - 1, 0) :]
        self._drawn = len(points)
        return found

    def nearest(self, column: float, row: float) -> tuple[float, int] | None:
        """The kept point nearest to a pixel: its distance, and which of the values taken it is."""
        away = np.nan_to_num(np.hypot(self._columns.view - column, self._rows.view - row), nan=np.inf)
        best = int(np.argmin(away)) if away.size else -1
        return (float(away[best]), int(self._index.view[best])) if away.size and np.isfinite(away[best]) else None


class RunPath(NamedTuple):
    """One run's trail, its curves, and which cuts of them it knows."""

    trail: Trail
    pair: Pair
    cuts: tuple[int, int]

    @property
    def size(self) -> int:
        """The number of values that the trail has."""
        return min(self.trail.taken, len(self.pair[0]), len(self.pair[1]))


class PathLayer:
    """The trails of runs over the metrics ``x`` and ``y``. They grow while the frame and the choice of runs stay."""

    def __init__(self, x: str, y: str) -> None:
        self._metrics = x, y
        self._key: object = None
        self.walks: dict[str, RunPath] = {}
        self.begun = 0
        """The number of times that all trails began anew."""

    def follow(self, frame: Frame, runs: Sequence[RunStyle], until: int | None) -> None:
        """Extends all trails, up to the step ``until``; None: as far as they go."""
        pairs = {run.run_id: pair for run in runs if (pair := self._pair(run)) is not None}
        key = frame, [(run.run_id, run.index, run.selected) for run in runs], until
        known = self.walks.items()
        if key != self._key or any((walk.pair, walk.cuts) != (pairs.get(run), _cuts(walk.pair)) for run, walk in known):
            self.walks, self._key, self.begun = {}, key, self.begun + 1
        for run, pair in pairs.items():
            size = None if until is None else max(int(index_of(pair[0].steps, np.array([until + 0.5]))[0]), 1)
            walk = self.walks.setdefault(run, RunPath(Trail(frame), pair, _cuts(pair)))
            walk.trail.extend(pair[0].values[:size], pair[1].values[:size])

    def _pair(self, run: RunStyle) -> Pair | None:
        x, y = (run.history.pyramid(name) for name in self._metrics)
        return (x, y) if x is not None and y is not None else None


def _cuts(pair: Pair) -> tuple[int, int]:
    return pair[0].cuts, pair[1].cuts


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
class PathHead:
    """A run's present point on the surface: its values at its last step, and the loss there (None: not known)."""

    run: RunStyle
    step: float
    x: float
    y: float
    loss: float | None


def _highest(theme: Theme) -> str:
    """The colour of the highest ground: a quiet one, that the paths stand out from."""
    return mixed(theme.surface, theme.accent, 0.42 if theme.dark else 0.34)


def map_pixels(heights: Heights, frame: Frame, theme: Theme, scale: float) -> npt.NDArray[np.uint8]:
    """The map as bytes [rows, columns, 3], with ``scale`` pixels for each logical one."""
    width, height = max(round(frame.box.width * scale), 2), max(round(frame.box.height * scale), 2)
    x = frame.x.low + (np.arange(width) + 0.5) / width * frame.x.size
    y = frame.y.high - (np.arange(height) + 0.5) / height * frame.y.size
    line = mixed(theme.surface, theme.accent, 0.58 if theme.dark else 0.5)
    return heights.picture(x, y, [rgb(one) for one in (theme.surface, _highest(theme), line, theme.sunken)])


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
        paths: PathLayer,
        look: SurfaceLook,
        box: Box,
        _sizes: TextSizes,
    ) -> None:
        self.heights, self._runs, self._paths, self._look = heights, runs, paths, look
        self._box, self._gutter = box, gutter_width(box.width) if look.listed and box.width >= ROOMY else 0.0
        high = max(box.height - TOP - FOOT - NOTE, 40.0)  # also without a note: the map must not jump when one comes
        area = Box(LEFT, TOP, max(box.width - LEFT - (self._gutter or 14.0), 40.0), high)
        self.frame = Frame(area, *(look.zoom or (heights.x, heights.y)))
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
        self.draw_growth(drawing, anew=True)

    def draw_growth(self, drawing: Drawing, anew: bool = False) -> None:
        """Add what the runs have walked on; halos are below all of it, and the selected run is over the others."""
        runs = sorted((run for run in self._runs if run.run_id in self._paths.walks), key=lambda run: run.selected)
        trails = [(run, self._paths.walks[run.run_id].trail) for run in runs]
        found = [(run, trail, trail.news(anew)) for run, trail in trails]
        near = self.frame.box.inset(-_REACH, -_REACH, -_REACH, -_REACH)
        if any(len(points) > 1 for _, _, points in found):
            with drawing.clipped(self.frame.box):
                for which in (0, 1):
                    for run, trail, points in found:
                        stroke = _path_strokes(run, drawing.theme, trail.length)[which]
                        for x, y in clip_lines(points[:, 0], points[:, 1], near):
                            drawing.path(x, y, stroke)
        for _, trail, points in found:
            trail.length += float(np.nansum(np.hypot(*np.diff(points, axis=0).T)))

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
            room, row = self._box.width - LEFT - 8, self._box.height - 0.5 * NOTE - 1
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
        if not self._gutter:
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
        if not self._gutter:
            return
        box, theme, runs = self.frame.box, drawing.theme, self._runs
        title, label = self.heights.spec.title, self._names[2]
        left, wide = box.right + 16, self._gutter - 20
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
        for k in range(count):
            left, right = (round(box.x + box.width * part / count) for part in (k, k + 1))
            ink = mixed(theme.surface, _highest(theme), k / (count - 1))
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

    def description(self) -> str:
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
