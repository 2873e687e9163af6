"""The pages of plots in the *Run* tab. A new kind of plot is a ``PlotPage`` and its line in ``PAGES``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QPushButton, QWidget

from clew_gui.charts.by_hand import ByHandChart
from clew_gui.charts.curves.model import RunStyle, View
from clew_gui.charts.kit.drawing import Drawing, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.measured import MeasuredChart, MeasuredRun, measured_plots
from clew_gui.charts.surface import Heights, PathLayer, SurfaceChart, SurfaceLook
from clew_gui.study.by_hand import StepsByHand
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.curves import CurvesView
from clew_gui.views.plots.pictures import PicturesView
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.theme.parts import Appearance, row
from clew_shared.cards import ExerciseCard, SeriesPlot
from clew_shared.exporters.rows import series_of
from clew_shared.exporters.tables import write_series

_PIXELS: Final = 700_000
"""Most pixels that the map is worked out for; a finer screen gets them enlarged."""
_FINE_MS: Final = 150
"""A map that a hand moves is rough; it is worked out finely when the hand has rested so long."""


class SurfaceView(PlotPage):
    """Shows one surface. The map is worked out when what is visible changes, never because points arrive."""

    name = "Loss surface"
    reset_text = "Show the whole map\tHome"
    every_step = True
    stretch = 9

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._heights: Heights | None = None
        self._labels: dict[str, str] = {}
        self._paths = PathLayer("", "")
        self._look = SurfaceLook()
        self._moving = False
        self.zoomed.connect(self._show_frame)
        self.double_clicked.connect(self.reset_zoom)
        self.setMinimumSize(320, 150)  # in less no path can be followed

    def show_card(self, card: ExerciseCard) -> None:
        """Show the first surface of a card."""
        spec = next(iter(card.surfaces), None)
        self._heights = Heights(spec) if spec is not None else None
        self._labels = {metric.name: metric.label for metric in card.metrics}
        self._paths = PathLayer(*spec.metrics) if spec is not None else self._paths
        self._look = replace(self._look, zoom=None)
        self.setAccessibleName(spec.title if spec is not None else "Loss surface")
        self.show_chart(partial(self._lay_out, self._heights) if self._heights is not None else None)

    @property
    def metrics(self) -> Sequence[str]:
        """Those of its axes."""
        return self._heights.spec.metrics if self._heights is not None else ()

    def _lay_out(self, heights: Heights, box: Box, sizes: TextSizes) -> SurfaceChart:
        fine = min(self.devicePixelRatioF(), (_PIXELS / max(box.width * box.height, 1.0)) ** 0.5)
        look = replace(self._look, scale=0.5 * fine if self._moving else fine)
        return SurfaceChart(heights, self._labels, self.runs, self._paths, look, box, sizes)

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """A picture of this size for a file."""
        if self._heights is not None:
            paths, box = PathLayer(*self._heights.spec.metrics), Box(0, 0, width, height)
            look = replace(self._look, scale=scale)
            SurfaceChart(self._heights, self._labels, self.runs, paths, look, box, SIZES).draw(drawing)

    def stand_beside(self, on: bool) -> None:
        """Beside the curves no runs are listed."""
        self._look = replace(self._look, listed=not on)
        self.redraw()

    def set_view(self, view: View) -> None:
        """Draw all paths up to a step."""
        self._look = replace(self._look, until=view.until)
        super().set_view(view)

    def _show_frame(self, frame: Frame | None) -> None:
        self._look = replace(self._look, zoom=(frame.x, frame.y) if frame is not None else None)
        self._moving = frame is not None
        self.redraw()
        self._moving = False
        if frame is not None and self.isVisible():
            self._timer.start(_FINE_MS)

    def reset_zoom(self) -> None:
        """Show the whole map."""
        self._show_frame(None)


PLAY_MS: Final = 900
"""Time for each turn: long enough to read a line."""


class ByHandView(PlotPage):
    """The network and its numbers; ``extras`` are *Step*, *Back*, *All steps* and *Start again*."""

    name = "Backpropagation by hand"
    takes_keys = False
    reset_text = "Start again"

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._turns = 0
        self.step = _button("Step", "Compute what comes next", self._next)
        self.back = _button("Back", "Take the last numbers away", lambda: self._go(self._turns - 1))
        self.play = _button("All steps", "Compute one thing after the other", self._toggle)
        self.again = _button("Start again", "Begin with the first weights", self.reset_zoom)
        self.timer = QTimer(self)
        self.timer.setInterval(PLAY_MS)
        self.timer.timeout.connect(lambda: self._go(self._turns + 1))
        self.extras = QWidget(self)
        row(self.step, self.back, self.play, self.again, None, gap=8, margins=(6, 2, 6, 2), parent=self.extras)
        self.first = self.step

    def show_card(self, card: ExerciseCard) -> None:
        """The network of an exercise's card."""
        walk = StepsByHand(card.by_hand) if card.by_hand is not None else None
        self.show_chart(None if walk is None else lambda *room: ByHandChart(walk.at(self._turns), *room))
        self.reset_zoom()

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Does nothing, because it is of no run."""

    def reset_zoom(self) -> None:
        """Begins with the first weights."""
        self._stop()
        self._go(0)

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops playing, so that it does not go on unseen."""
        self._stop()
        super().hideEvent(event)

    def _go(self, turns: int) -> None:
        self._turns = max(turns, 0)
        self.redraw()
        self.back.setEnabled(turns > 0)

    def _next(self) -> None:
        self._stop()
        self._go(self._turns + 1)

    def _toggle(self) -> None:
        if self.timer.isActive():
            self._stop()
        else:
            self._go(self._turns + 1)
            self.timer.start()
            self.play.setText("Pause")

    def _stop(self) -> None:
        self.timer.stop()
        self.play.setText("All steps")


def _button(text: str, tip: str, act: Callable[[], None]) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    button.clicked.connect(lambda _checked=False: act())
    return button


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
