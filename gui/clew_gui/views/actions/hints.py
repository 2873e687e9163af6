"""What few people find by themselves: a list of it, and each once in a quiet line where it is useful."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.plots.pictures import PicturesView
from clew_gui.views.window.window import MainWindow
from clew_shared.journal.lifecycle import TERMINAL

APART_S = 60.0
"""The least seconds between two lines, and before the first one."""
_LONG_S = 30.0


class Feature(NamedTuple):
    """Something that Clew can do: its icon and name, how it is used, and when it is useful for the selected run."""

    glyph: str
    name: str
    text: str
    useful: Callable[[MainWindow, RunModel], object]


def _pictures(window: MainWindow) -> PicturesView | None:
    """The page of pictures, while it shows some."""
    shown = (one for one in window.run_view.plots.shown_kinds if isinstance(one, PicturesView) and one.run is not None)
    return next(shown, None)


FEATURES = (
    Feature("play", "Play", "Play beside Run trains a small exercise again at once after each change, also while you"
            " move a slider.", lambda window, _run: window.next_run.play.isVisible()),
    Feature("rate", "Compare settings", "Compare settings below Run starts a sweep over many values, a race of"
            " optimizers, or a test of learning rates.", lambda window, _run: window.bottom.model.rowCount() > 2),
    Feature("up", "All of y", "All of y below the curves shows the values that are cut off.",
            lambda window, _run: window.run_view.controls.whole.isVisible()),
    Feature("right", "The slider over the steps", "The slider below the curves shows a run as it was at any step, and"
            " replays it.", lambda window, run: window.run_view.plots.replay.isVisible() and run.fold.step),
    Feature("search", "Pictures", "A double click on a picture enlarges it.", lambda window, _run: _pictures(window)),
    Feature("eye", "Beside", "Beside, below the pictures, shows those of another ticked run at the same step.",
            lambda window, _run: (view := _pictures(window)) is not None and view.others.isVisible()),
    Feature("pencil", "Try it", "Try it on the run's card asks the trained network about a digit that you draw, or lets"
            " you move the numbers of a code.", lambda window, _run: window.actions_["try"].isEnabled()),
    Feature("slow", "Trace", "Run > Trace 20 steps shows in Details which operations take the time of a step.",
            lambda _window, run: run.state not in TERMINAL and run.fold.seconds > _LONG_S),
    Feature("chip", "By hand", "By hand, above the plots, computes a training step number by number.",
            lambda window, _run: window.run_view.controls.pages.button("by_hand").isVisible()),
    Feature("script", "Recordings", "Cluster > Show a recording plays runs that come with Clew.",
            lambda _window, _run: False),
)  # fmt: skip


class Hints:
    """Offers what is useful now in a line that goes by itself, one a minute at most, none twice."""

    def __init__(self, controller: WindowController, clock: Callable[[], float] = time.monotonic) -> None:
        self._controller, self._clock = controller, clock
        self._next = clock() + APART_S
        controller.second.connect(self.offer)

    def offer(self) -> None:
        """Shows the first line that is useful and was not shown before, in place of the one before it."""
        window, model = self._controller.window, self._controller.model
        run, told = model.run(), model.state.told
        if run is None or self._clock() < self._next or not window.next_run.isVisible():
            return
        found = next((one for one in FEATURES if one.name not in told and one.useful(window, run)), None)
        window.next_run.show_hint(found.text if found is not None else "")
        if found is not None:
            told.add(found.name)
            self._next = self._clock() + APART_S
