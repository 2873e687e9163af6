"""The plots as a page for a file, with units and labels, larger than the window where that is small."""

from __future__ import annotations

from typing import Final

from clew_gui.charts.axes import value_room
from clew_gui.charts.chart import ChartPage
from clew_gui.charts.curves.chart import CurvesChart
from clew_gui.charts.curves.layout import stack
from clew_gui.charts.drawing import Drawing, Group
from clew_gui.charts.gutter import gutter_for
from clew_gui.plotting.axes.ticks import XUnit
from clew_gui.plotting.curves.scene import Room, SceneBuilder
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.curves.canvas import PlotCanvas
from clew_gui.views.plots.kinds import DrawnPlot
from clew_gui.views.theme.theme import Theme

_LEAST: Final = (860, 480)
_LEAST_OTHER: Final = (560, 420)
_MOST: Final = (1600, 1200)
_UNITS: Final = {XUnit.STEP: "Step", XUnit.EPOCH: "Epoch", XUnit.IMAGES: "Images", XUnit.SECONDS: "Training time"}
_SHARPNESS: Final = 2.0
"""Pixels of a map for each logical one."""


def plots_page(canvas: PlotCanvas, theme: Theme, beside: DrawnPlot | None = None) -> ChartPage:
    """The canvas as a page, with another kind of plot ``beside`` it, or instead of a hidden canvas."""
    drawing, width, height = Drawing(theme, SIZES), 0.0, 0.0
    words = canvas.accessibleDescription()
    if beside is None or not canvas.isHidden():
        width, height = max(canvas.width(), _LEAST[0]), max(canvas.height(), _LEAST[1])
        _curves_chart(canvas, theme, width, height).draw(drawing)
    elif beside is not None:
        words = beside.accessibleDescription()
    if beside is not None:
        size = beside.size()
        wide = min(max(size.width(), _LEAST_OTHER[0]), _MOST[0])
        height = max(height, min(max(size.height(), _LEAST_OTHER[1]), _MOST[1]))
        other = Drawing(theme, SIZES)
        beside.draw_to(other, wide, height, _SHARPNESS)
        drawing.items.append(Group(tuple(other.items), shift=(width, 0.0)))
        width += wide
    return ChartPage(width, height, drawing.items, "Convergence plots", words, theme.surface)


def _curves_chart(canvas: PlotCanvas, theme: Theme, width: float, height: float) -> CurvesChart:
    view, setups, empty = canvas.view, canvas.drawn_setups, canvas.scene.empty
    builder, left, foot = SceneBuilder(), 46.0, 24.0
    builder.params = canvas.params
    gutter = 0.0 if empty else gutter_for(canvas.runs, width, SIZES)
    for _ in range(2):  # the width of the value axis is known once its numbers are
        boxes = stack(width, height, len(setups), left, gutter, empty, foot)
        room = Room(round(boxes.area.width), tuple(round(box.height) for box in boxes.plots))
        scene = builder.build(setups, canvas.runs, view, room)
        foot = 42.0 if scene.notes or scene.legend else 24.0
        left = value_room(SIZES, [tick for plot in scene.plots for tick in plot.ticks], 46.0)
    label = _UNITS[view.unit] + (", log scale" if view.log_x else "")
    return CurvesChart(scene, boxes, theme, SIZES, unit_label=label)
