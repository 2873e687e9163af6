"""The form "distributions": how the values of each layer spread, over the steps so far."""

from __future__ import annotations

from typing import Final

import numpy as np

from clew_gui.charts.kit.drawing import Drawing, Stroke
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.numbers import count_text, value_text
from clew_gui.charts.kit.ticks import Span
from clew_gui.charts.pictures.taken import LayerSpread, layer_spreads, tile_columns
from clew_gui.charts.pictures.tile import FOOT, PictureAxes, Tile
from clew_shared.journal.events import Matrix

_LEAST: Final = (110.0, 44.0)
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
        across, down = int(room.width // _LEAST[0]), int((room.height - _NAME - FOOT) // _LEAST[1])
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

    def words(self) -> str:
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
    columns = max(min(columns, int(room.width // _LEAST[0])), 1)
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
