"""What the selected run's machines do: one quiet line below the curves, which unfolds to charts on their x axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from PySide6.QtWidgets import QSizePolicy

from clew_gui.charts.curves.chart import CurvesChart
from clew_gui.charts.curves.layout import CurvesLayout
from clew_gui.charts.curves.model import RunStyle
from clew_gui.charts.kit.axes import LEFT
from clew_gui.charts.kit.drawing import TextSizes
from clew_gui.charts.kit.gutter import gutter_width
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Span, XUnit, x_ticks
from clew_gui.charts.pulse import GAP, PulseChart, PulseRow, height_of, is_placed, places_of, pulse_rows, seconds_of
from clew_gui.study.usage import usage_now, usage_words
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.curves import CurvesView
from clew_gui.views.theme.parts import Appearance, FoldingSection

_TITLE: Final = "Machine"
_AROUND: Final = 104
"""Pixels of the controls above the curves, of this section's heading and of the borders."""
_LEAST: Final = 80.0
_SHARE: Final = 0.42
"""The part of the plots' height that the charts take at most."""


class PulseSection(FoldingSection):
    """Follows the ``canvas`` of curves: the selected run, and the part of x that is shown.

    Hidden where no shown run was sampled. It does not come and go with the selection: the plots would be drawn anew.
    """

    def __init__(self, appearance: Appearance, canvas: CurvesView) -> None:
        self._chart = ChartView(appearance, "What the run's machines do")
        self._chart.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        super().__init__(appearance, _TITLE, self._chart)
        self._canvas = canvas
        self._seen: object = None
        self.button.setToolTip("Processor, memory, devices and power of the selected run")
        self.hide()
        self.toggled.connect(self.follow)
        canvas.framed.connect(self.follow)

    @property
    def run(self) -> RunStyle | None:
        """The selected run, if it was sampled."""
        chosen = next((run for run in self._canvas.runs if run.selected), None)
        return chosen if chosen is not None and len(chosen.history.pulse) else None

    def follow(self) -> None:
        """Show the selected run as it is now."""
        run = self.run
        self.setVisible(any(len(one.history.pulse) for one in self._canvas.runs))
        if run is None:
            self._seen = None
            self.say("")
            self._chart.show_chart(None)
            return
        history, live = run.history, run.live
        seen = run.run_id, live, len(history.pulse), history.fold.step, live or history.trained_since
        if seen != self._seen:
            self._seen = seen
            now = usage_now(history.pulse) if live else usage_words(history.pulse_summary())
            self.say(now)
            self.button.setAccessibleDescription(now)
        if self.button.isChecked():
            self._draw(run)

    def _draw(self, run: RunStyle) -> None:
        rows = pulse_rows(run.history)
        placed = not self._canvas.isHidden() and is_placed(run.history, self._canvas.view.unit)
        self._chart.setFixedHeight(round(min(height_of(len(rows), foot=not placed), self._room())))
        beside = partial(self._beside_curves, run, rows, lambda: self._canvas.chart)
        self._chart.show_chart(beside if placed else partial(self._alone, run, rows))

    def for_file(self, curves: CurvesChart, width: float, top: float) -> tuple[PulseChart, float] | None:
        """The charts below other curves in a file, from the row ``top`` on, with their height; None while they are
        folded."""
        run = self.run
        if run is None or not self.button.isChecked() or not is_placed(run.history, self._canvas.view.unit):
            return None
        rows = pulse_rows(run.history)
        height = height_of(len(rows), foot=False)
        return self._beside_curves(run, rows, lambda: curves, Box(0, top, width, height), SIZES), height + GAP

    def _room(self) -> float:
        """The height that the charts may take: at most their share, and the curves can still be read."""
        parent = self.parentWidget()
        high = parent.height() if parent is not None else self.height()
        curves = 0 if self._canvas.isHidden() else self._canvas.minimumSizeHint().height()
        return max(min(_SHARE * high, high - curves - _AROUND), _LEAST)

    def _beside_curves(
        self,
        run: RunStyle,
        rows: tuple[PulseRow, ...],
        curves: Callable[[], CurvesLayout],
        box: Box,
        sizes: TextSizes,
    ) -> PulseChart:
        """The rows between the borders of the curves above them, as these are now."""
        view, chart = self._canvas.view, curves()
        area = chart.stack.area
        place = places_of(run.history, view.unit, view.log_x)
        gutter = chart.stack.gutter or gutter_width(chart.stack.width)
        right = min(area.right, chart.stack.width - gutter)
        sides = area.x, right, right + gutter
        return PulseChart(rows, place, chart.scene.grid.span, sides, box, sizes, index=run.index)

    def _alone(self, run: RunStyle, rows: tuple[PulseRow, ...], box: Box, sizes: TextSizes) -> PulseChart:
        """The rows over the seconds since the first sample, where no curves are shown."""
        place = partial(seconds_of, run.history)
        last = max((float(place(line.x)[-1]) for row in rows for line in row.lines), default=1.0)
        span = Span(0.0, max(last, 1.0))
        right = box.right - gutter_width(box.width)
        ticks = x_ticks(span, max(int((right - LEFT) // 80), 2), XUnit.SECONDS, log=False)
        sides = box.x + LEFT, right, box.right
        return PulseChart(rows, place, span, sides, box, sizes, index=run.index, ticks=ticks, title="Time")
