"""The page of measured relations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clew_gui.charts.kit.drawing import TextSizes
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.measured import MeasuredChart, MeasuredRun, measured_plots
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import ExerciseCard, SeriesPlot
from clew_shared.exporters.rows import series_of
from clew_shared.exporters.tables import write_series


class MeasuredView(PlotPage):
    """Shows what the runs measured, as the plots of the exercise's card; without any, one for each quantity."""

    name = "Measurements"
    has_log = True
    switches = (("Logarithmic axes", "log_y"),)

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._specs: tuple[SeriesPlot, ...] = ()
        self.show_chart(self._lay_out)

    def _lay_out(self, box: Box, sizes: TextSizes) -> MeasuredChart:
        taken = ((run, run.history.series) for run in self.runs if run.history.series)
        runs = [MeasuredRun(run, measured_plots(self._specs, series)) for run, series in taken]
        return MeasuredChart(runs, box, sizes, self.view.log_y)

    def show_card(self, card: ExerciseCard) -> None:
        """Show the plots of a card."""
        self._specs = card.measured
        self.redraw()

    def _news(self) -> object:
        return [(run, [(name, len(one.x), one.last) for name, one in run.history.series.items()]) for run in self.runs]

    def table(self) -> Callable[[Path], None]:
        """Writes all points of the shown runs."""
        found = [(run.run_id, rows) for run in self.runs for rows in series_of(run.history)]
        return lambda path: write_series(path, found)
