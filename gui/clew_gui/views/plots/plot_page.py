"""What every kind of plot in the *Run* tab is: a chart of runs that knows when it has something new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from clew_gui.charts.curves.model import RunStyle, View
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import ExerciseCard


class PlotPage(ChartView):
    """A page of plots. A kind lays out its chart, and says here what else it has; see ``pages.py``."""

    name = ""
    """What it is called for people who cannot see it."""
    takes_keys = True
    units = False
    """Whether it has the controls of the x axis and the smoothing."""
    has_log = False
    """Whether it has logarithmic axes where the card asks for them."""
    every_step = False
    """Whether the slider shows it as it was at any step; else at its own ``steps``."""
    switches: tuple[tuple[str, str], ...] = ()
    """The entries of its menu that switch something: their text, and the name of a field of the view."""
    reset_text = ""
    """The entry of its menu that shows everything as it is now."""
    stretch = 11
    """Its share of the width beside another page."""
    steps_changed = Signal()
    """It can be shown at other steps, or of another run."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance, self.name, keys=self.takes_keys)
        self.runs: tuple[RunStyle, ...] = ()
        """The runs shown."""
        self.view = View()
        """How they are shown."""
        self.extras: QWidget | None = None
        """Controls for the foot of the plots."""
        self.first: QWidget = self
        """What gets the keyboard."""
        self._asked: object = None

    def show_card(self, card: ExerciseCard) -> None:
        """Show the plots of an exercise."""
        raise NotImplementedError

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show these runs."""
        self.runs = tuple(runs)
        self.touch()

    def touch(self) -> None:
        """Ask for a new frame if there is something new to show."""
        now = self._news()
        if now is None or now != self._asked:
            self._asked = now
            super().touch()

    def _news(self) -> object:
        """What the page shows of its runs, to see whether it is new; None: it always is."""
        return None

    def set_view(self, view: View) -> None:
        """Show the runs in another way."""
        before, self.view = self.view, view
        if (view.until, view.log_y) != (before.until, before.log_y):  # the rest is about curves alone
            self.redraw()

    def stand_beside(self, on: bool) -> None:
        """Whether it is beside the curves, which name the runs."""

    def reset_zoom(self) -> None:
        """Show everything."""

    @property
    def steps(self) -> Sequence[int]:
        """The steps at which it has something of its own to show."""
        return ()

    @property
    def metrics(self) -> Sequence[str]:
        """The metrics that it shows."""
        return ()

    def table(self) -> Callable[[Path], None] | None:
        """A function that writes the values that are shown now; None: those of the ``metrics``."""
        return None
