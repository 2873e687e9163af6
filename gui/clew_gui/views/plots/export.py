"""The plots as a page for a file, with units and labels, larger than the window where that is small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from clew_gui.charts.chart import Chart, ChartPage
from clew_gui.charts.curves.chart import CurvesChart
from clew_gui.charts.curves.page import curves_chart
from clew_gui.charts.drawing import Drawing, Group
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.curves import CurvesView
from clew_gui.views.plots.kinds import DrawnPlot
from clew_gui.views.theme.theme import Theme

_LEAST: Final = (860, 480)
_LEAST_OTHER: Final = (560, 420)
_MOST: Final = (1600, 1200)
_SHARPNESS: Final = 2.0
"""Pixels of a map for each logical one."""


Below = Callable[[CurvesChart, float, float], tuple[Chart, float] | None]
"""Makes the chart below curves, of their width and from a row on, with its height; None for none."""


def plots_page(
    canvas: CurvesView, theme: Theme, beside: DrawnPlot | None = None, below: Below | None = None
) -> ChartPage:
    """The canvas as a page, with what is ``below`` it, and with another kind of plot ``beside`` it, or instead of a
    hidden canvas."""
    drawing, width, height = Drawing(theme, SIZES), 0.0, 0.0
    words = canvas.accessibleDescription()
    if beside is None or not canvas.isHidden():
        width, height = max(canvas.width(), _LEAST[0]), max(canvas.height(), _LEAST[1])
        shown = canvas.drawn_setups, canvas.runs, canvas.view
        curves = curves_chart(*shown, (width, height), theme, SIZES, canvas.params)
        curves.draw(drawing)
        lower = below(curves, width, height) if below is not None else None
        if lower is not None:
            lower[0].draw(drawing)
            height += lower[1]
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
