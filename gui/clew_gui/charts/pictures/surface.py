"""The form "surface": a loss over two weights as it is now, and the way that they have come."""

from __future__ import annotations

import numpy as np

from clew_gui.charts.kit.drawing import RUN_WIDTH, Drawing, Stroke
from clew_gui.charts.kit.numbers import value_text
from clew_gui.charts.kit.ticks import Span
from clew_gui.charts.pictures.taken import places_of, table
from clew_gui.charts.pictures.tile import PictureAxes, Tile
from clew_gui.charts.surface import Heights, map_pixels
from clew_shared.cards import SurfaceSpec
from clew_shared.journal.events import Matrix

_DOT = 11.0


class SurfacePicture:
    """The map of the loss with its contours. All other weights are as they are at that step, so the map itself changes;
    the way is that of all pictures so far."""

    def __init__(self, tile: Tile, matrix: Matrix) -> None:
        spec = tile.taken.spec
        self._heights = Heights(
            SurfaceSpec(
                id=spec.id,
                title=spec.title,
                metrics=("", ""),
                x=spec.x,
                y=spec.y,
                columns=matrix.columns,
                rows=matrix.rows,
                loss=table(matrix).astype("<f4").tobytes(),
            )
        )
        taken = [places_of(one) for one in (*tile.taken.earlier, matrix) if isinstance(one, Matrix)]
        way = np.concatenate(taken)
        self._way = way[np.isfinite(way).all(axis=1)]
        self._axes = PictureAxes(tile.room, (Span(*spec.x), Span(*spec.y)), tile.sizes, square=True)

    def draw(self, drawing: Drawing) -> None:
        """Add the map, the way, and where the weights are."""
        theme, frame = drawing.theme, self._axes.frame
        self._axes.draw(drawing)
        drawing.image(frame.box, map_pixels(self._heights, frame, theme, 1.0), smooth=True)
        drawing.rect(frame.box, "", edge=Stroke(theme.border, crisp=True), smooth=False)
        with drawing.clipped(frame.box):
            x, y = frame.px(self._way[:, 0]), frame.py(self._way[:, 1])
            for stroke in (
                Stroke(theme.surface, RUN_WIDTH + 2.4, opacity=0.75),
                Stroke(theme.curve(0).colour, RUN_WIDTH),
            ):
                drawing.path(x, y, stroke)
            drawing.marks(x[-1:], y[-1:], theme.curve(0).colour, _DOT, edge=Stroke(theme.surface, 1.6))

    def read(self, x: float, y: float) -> str:
        """Two weights, and the loss there."""
        frame = self._axes.frame
        if not frame.box.holds(x, y):
            return ""
        at = frame.place(x, y)
        loss = self._heights.at(*at)
        return f"{value_text(at[0])}, {value_text(at[1])}: {'' if loss is None else value_text(loss)}"

    def words(self) -> str:
        """Says where the two weights are and what the loss is there."""
        if not len(self._way):
            return "a loss over two weights"
        x, y = self._way[-1].tolist()
        loss = self._heights.at(x, y)
        return f"weights {value_text(x)} and {value_text(y)}, loss {'unknown' if loss is None else value_text(loss)}"
