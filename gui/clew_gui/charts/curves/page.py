"""Curves laid out for a picture of any size: for files, and for reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clew_gui.base.tokens import Theme
from clew_gui.charts.curves.chart import CurvesChart
from clew_gui.charts.curves.layout import stack
from clew_gui.charts.curves.model import PlotSetup, RunStyle, View
from clew_gui.charts.curves.scene import Room, SceneBuilder, has_values
from clew_gui.charts.kit.axes import LEFT, value_room
from clew_gui.charts.kit.drawing import TextSizes
from clew_gui.charts.kit.gutter import gutter_for
from clew_gui.charts.kit.ticks import XUnit
from clew_shared.params import ParamSpec

_UNITS: Final = {XUnit.STEP: "Step", XUnit.EPOCH: "Epoch", XUnit.IMAGES: "Images", XUnit.SECONDS: "Training time"}
_FOOT: Final = 24.0
_NOTED: Final = 42.0
"""Pixels below the x axis for its title, and for a note below that."""


def curves_chart(
    setups: Sequence[PlotSetup],
    runs: Sequence[RunStyle],
    view: View,
    size: tuple[float, float],
    theme: Theme,
    sizes: TextSizes,
    params: Sequence[ParamSpec] = (),
) -> CurvesChart:
    """The curves of ``runs`` in a picture of ``size``; ``params`` are those that a run may change while it trains."""
    builder, left, foot, empty = SceneBuilder(), LEFT, _FOOT, not has_values(setups, runs)
    builder.params = params
    gutter = 0.0 if empty else gutter_for(runs, size[0], sizes)
    for _ in range(2):  # the width of the value axis is known once its numbers are
        boxes = stack(*size, len(setups), left, gutter, empty, foot)
        room = Room(round(boxes.area.width), tuple(round(box.height) for box in boxes.plots))
        scene = builder.build(setups, runs, view, room)
        foot = _NOTED if scene.notes or scene.legend else _FOOT
        left = value_room(sizes, [tick for plot in scene.plots for tick in plot.ticks], LEFT)
    label = _UNITS[view.unit] + (", log scale" if view.log_x else "")
    return CurvesChart(scene, boxes, theme, sizes, unit_label=label)
