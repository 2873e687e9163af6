"""The paths of the shown runs over a surface, kept as pixels: what arrives is drawn onto what is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPen, QPixmap

from clew_gui.charts.drawing import Drawing
from clew_gui.charts.surface import path_strokes
from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.clip import clip_lines
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.surface_path import Floats, Trail
from clew_gui.views.charts.painter import pen_of, polygon
from clew_gui.views.theme.theme import Theme
from clew_shared.journal.pyramid import Pyramid, index_of

_REACH = 200.0
"""Pixels around the map as far as which paths are painted."""
Pair = tuple[Pyramid, Pyramid]


@dataclass
class Walk:
    """One run's trail, the curves and which cuts of them it knows, and how long it is in pixels so far."""

    trail: Trail
    pair: Pair
    cuts: tuple[int, int]
    drawn: float = 0.0


class Paths:
    """Draws two layers of pixels: the paths, and below them their halos. With a new frame, theme or choice of runs
    everything is drawn again."""

    def __init__(self) -> None:
        self._metrics = ("", "")
        self._walks: dict[str, Walk] = {}
        self._key: tuple[object, ...] = ()
        self.until: int | None = None
        """The step up to which paths are drawn; None: as far as they go."""
        self.halos, self.lines = QPixmap(), QPixmap()

    def set_metrics(self, metrics: tuple[str, str]) -> None:
        """Sets the metrics of x and y."""
        self._metrics = metrics
        self._walks.clear()
        self._key = ()

    def pair(self, run: RunStyle) -> Pair | None:
        """The two curves of a run; None while one of them has no value."""
        x, y = (run.history.pyramid(name) for name in self._metrics)
        return (x, y) if x is not None and y is not None else None

    def walk(self, run: str) -> Walk | None:
        """Returns how far a run has been drawn."""
        return self._walks.get(run)

    def show(self, frame: Frame, runs: Sequence[RunStyle], theme: Theme, size: QSize, ratio: float) -> None:
        """Draw what is new of each path, up to step ``until``; a logical pixel has ``ratio`` device pixels."""
        styles = tuple((run.run_id, run.index, run.selected) for run in runs)
        key = (frame, theme, ratio, styles, size, self.until)
        if key != self._key or any(self._was_cut(run) for run in runs):
            self._walks.clear()
            self.halos, self.lines, self._key = _blank(size, ratio), _blank(size, ratio), key
        halos, lines = QPainter(self.halos), QPainter(self.lines)
        for painter in (halos, lines):
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for run in on_top_last(runs):
            self._walk_on(run, frame, theme, halos, lines)
        halos.end()
        lines.end()

    def _was_cut(self, run: RunStyle) -> bool:
        """Whether values that were drawn are no longer there."""
        walk, pair = self._walks.get(run.run_id), self.pair(run)
        return walk is not None and (pair != walk.pair or walk.cuts != _cuts(pair))

    def _walk_on(self, run: RunStyle, frame: Frame, theme: Theme, halos: QPainter, lines: QPainter) -> None:
        pair = self.pair(run)
        if pair is None:
            return
        walk = self._walks.setdefault(run.run_id, Walk(Trail(frame), pair, _cuts(pair)))
        stretch = walk.trail.extend(*self._values(pair))
        if len(stretch) > 1:
            halo, line = map(pen_of, path_strokes(run, theme))
            if line.style() is Qt.PenStyle.CustomDashLine:
                line.setDashOffset(walk.drawn / line.widthF())  # so that dashes go on
            _paint_stretch(halos, stretch, frame, halo)
            _paint_stretch(lines, stretch, frame, line)
            walk.drawn += float(np.nansum(np.hypot(*np.diff(stretch, axis=0).T)))

    def _values(self, pair: Pair) -> tuple[Floats, Floats]:
        """The values of both curves as far as they are drawn, the first one at least."""
        x, y = pair[0].values, pair[1].values
        if self.until is None:
            return x, y
        size = max(int(index_of(pair[0].steps, np.array([self.until + 0.5]))[0]), 1)
        return x[:size], y[:size]

    def draw(self, drawing: Drawing, frame: Frame, runs: Sequence[RunStyle]) -> None:
        """Add all paths as lines, for a file; halos are below all of them."""
        whole = []
        for run in on_top_last(runs):
            pair = self.pair(run)
            if pair is not None:
                whole.append((Trail(frame).extend(*self._values(pair)), path_strokes(run, drawing.theme)))
        for which in (0, 1):
            for points, strokes in whole:
                drawing.path(points[:, 0], points[:, 1], strokes[which])


def _paint_stretch(painter: QPainter, stretch: FloatArray, frame: Frame, pen: QPen) -> None:
    """Paints a stretch of a path, as far as it is near the map."""
    painter.setPen(pen)
    for x, y in clip_lines(stretch[:, 0], stretch[:, 1], frame.box.inset(-_REACH, -_REACH, -_REACH, -_REACH)):
        painter.drawPolyline(polygon(x, y))


def on_top_last(runs: Sequence[RunStyle]) -> list[RunStyle]:
    """The run that is selected is drawn over the others."""
    return sorted(runs, key=lambda run: run.selected)


def _cuts(pair: Pair) -> tuple[int, int]:
    return pair[0].cuts, pair[1].cuts


def _blank(size: QSize, ratio: float) -> QPixmap:
    layer = QPixmap((size.toSizeF() * ratio).toSize())
    layer.setDevicePixelRatio(ratio)
    layer.fill(Qt.GlobalColor.transparent)
    return layer
