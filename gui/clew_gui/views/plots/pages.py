"""The pages of plots in the *Run* tab. A new kind of plot is a module with a ``PlotPage``, and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clew_gui.charts.kit.drawing import TextSizes
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.measured import MeasuredChart, MeasuredRun, measured_plots
from clew_gui.views.plots.by_hand import ByHandView
from clew_gui.views.plots.curves import CurvesView
from clew_gui.views.plots.pictures import PicturesView
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.plots.surface import SurfaceView
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


@dataclass(frozen=True)
class Page:
    """One page: the exercises that have it, and its widget. One that goes ``beside`` the curves is offered so too."""

    name: str
    title: str
    offered: Callable[[ExerciseCard], bool]
    kind: type[PlotPage]
    beside: bool = False


BOTH: Final = "both"
"""The name of the page that shows the curves and what is beside them."""
PAGES: Final = (
    Page("curves", "Curves", lambda card: card.kind != "measurement", CurvesView),
    Page("measured", "Measured", lambda card: card.kind == "measurement", MeasuredView),
    Page("surface", "Surface", lambda card: bool(card.surfaces), SurfaceView, beside=True),
    Page("pictures", "Pictures", lambda card: bool(card.pictures), PicturesView, beside=True),
    Page("by_hand", "By hand", lambda card: card.by_hand is not None, ByHandView),
)


def offered(card: ExerciseCard | None) -> tuple[Page, ...]:
    """The pages of an exercise."""
    return tuple(page for page in PAGES if card is not None and page.offered(card))


def kinds_of(page: str, pages: tuple[Page, ...]) -> tuple[str, ...]:
    """The kinds of plots that a page shows, if an exercise has these ``pages``."""
    return ("curves", *[one.name for one in pages if one.beside][:1]) if page == BOTH else (page,)
