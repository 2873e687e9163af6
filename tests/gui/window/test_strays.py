"""No part of the window is ever shown as a window of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QDialog, QMainWindow, QMenu, QWidget

from clew_gui.app import Program
from clew_gui.views.runs.study_bar import RaceEntry, StudyBar
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import choose, own_file, set_to
from clew_shared.catalogue import load_builtin
from tests.gui import fakes
from tests.gui.conftest import Opener

_WINDOWS = (QMainWindow, QDialog, QMenu)


class Strays(QObject):
    """Notes every widget that is shown as a window and is none of the kinds that are."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802  # Qt's own name
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            known = isinstance(watched, _WINDOWS) or watched.inherits("QComboBoxPrivateContainer")
            if not known and not watched.inherits("QTipLabel"):
                self.found.append(f"{type(watched).__name__} {watched.accessibleName()!r}")
        return False


@pytest.fixture
def strays(qapp: QApplication) -> Iterator[Strays]:
    filter_ = Strays()
    qapp.installEventFilter(filter_)
    yield filter_
    qapp.removeEventFilter(filter_)


def entries(count: int) -> list[RaceEntry]:
    return [RaceEntry(k + 1, str(k), k, f"SGD {k}", "step 67") for k in range(count)]


def test_the_chips_of_a_race_are_never_windows(strays: Strays, open_window: Opener) -> None:
    program = open_window()
    bar: StudyBar = program.window.run_view.study
    bar.show_study("Optimizers", "Adam leads.", entries(5))
    assert strays.found == []


def test_a_tour_of_all_tabs_messages_and_exercises_shows_no_stray_window(strays: Strays, open_window: Opener) -> None:
    program: Program = open_window(fakes.example_session(), catalogue=load_builtin())
    ways = (own_file("mnist"), set_to("data", "digits"), choose("data"))
    program.window.messages.show_problems((Problem("data.missing", "Not found.", "", "", ways),))
    for tab in (*range(program.window.pages.count()), 1):
        program.window.show_tab(tab)
    for exercise in ("linear-regression", "autoencoder", "vectorize", "ps-lab", "softmax"):
        program.controller.open_exercise(exercise)
        QApplication.processEvents()
    program.actions.studies.ask_sweep()
    assert strays.found == []
