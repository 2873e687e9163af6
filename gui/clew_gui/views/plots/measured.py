"""The page of measured relations."""

from __future__ import annotations

from collections.abc import Sequence

from clew_gui.charts.drawing import TextSizes
from clew_gui.charts.measured import MeasuredChart, MeasuredRun
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.measured import measured_plots
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import SeriesPlot


class MeasuredView(ChartView):
    """Shows what the runs measured, as the plots of the exercise's card."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance, "Measurements", keys=True)
        self._specs: tuple[SeriesPlot, ...] = ()
        self._runs: tuple[RunStyle, ...] = ()
        self._asked: object = None
        """What the runs had measured when a frame was asked for."""
        self.log = True
        """Whether axes that the card makes logarithmic are so now."""
        self.show_chart(self._lay_out)

    def _lay_out(self, box: Box, sizes: TextSizes) -> MeasuredChart:
        taken = ((run, run.history.series) for run in self._runs if run.history.series)
        runs = [MeasuredRun(run, measured_plots(self._specs, series)) for run, series in taken]
        return MeasuredChart(runs, box, sizes, self.log)

    def set_plots(self, specs: Sequence[SeriesPlot]) -> None:
        """Show these plots of a card; without any, one for each measured quantity."""
        self._specs = tuple(specs)
        self.redraw()

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show these runs."""
        self._runs = tuple(runs)
        self.touch()

    def touch(self) -> None:
        """Asks for a new frame if the runs are others or have measured more."""
        now = [(run, [(name, len(one.x), one.last) for name, one in run.history.series.items()]) for run in self._runs]
        if now != self._asked:
            self._asked = now
            super().touch()

    def set_log(self, on: bool) -> None:
        """Makes axes logarithmic if the card asks for that."""
        self.log = on
        self.redraw()

    def reset_zoom(self) -> None:
        """Does nothing, because all points are always in sight."""
