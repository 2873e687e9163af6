"""What the tabs of a window have in common: when they are filled, and how their contents become files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.files import ask_and_write
from clew_gui.views.window.window import MainWindow

V = TypeVar("V", bound=QWidget)


class Tab(QObject, Generic[V]):
    """Fills one tab. Its widgets are made when it is first shown, and nothing is computed while it is out of sight.

    A tab gives ``NUMBER``, its place; ``EXPORT``, the title of the dialog and the name of the file; ``FILES``, the
    kinds of files by suffix; ``make_view``, ``refresh`` and ``write``, or an ``export`` of its own.
    """

    NUMBER: ClassVar[int]
    EXPORT: ClassVar[tuple[str, str]]
    FILES: ClassVar[dict[str, str]] = {"png": "Picture (*.png)", "svg": "Drawing (*.svg)", "csv": "Values (*.csv)"}

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self._view: V | None = None
        self._shown: object = None
        """What the widgets were last filled from."""
        window.head.tab_chosen.connect(lambda _tab: self.refresh())
        controller.curves_changed.connect(self.show_other_runs)
        controller.ticked_slowly.connect(self.refresh)

    def make_view(self) -> V:
        """Makes the tab's widgets."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Fill the widgets; cheap if nothing changed, and nothing while out of sight."""
        raise NotImplementedError

    def show_other_runs(self) -> None:
        """Called when other runs are drawn."""
        self.refresh()

    def write(self, kind: str, path: Path) -> None:
        """Write a kind of ``FILES``. Raises ``OSError`` or ``ProblemError`` where the file cannot be written."""
        raise NotImplementedError

    @property
    def view(self) -> V:
        """The tab's widgets."""
        if self._view is None:
            self._view = self.make_view()
            self._window.put_view(self.NUMBER, self._view)
        return self._view

    def in_sight(self) -> bool:
        """Whether the tab is the one that is shown."""
        return self._window.pages.currentIndex() == self.NUMBER

    def is_new(self, state: object) -> bool:
        """Whether the widgets were last filled from another state than this one, which counts as shown from now on."""
        before, self._shown = self._shown, state
        return before != state

    def export(self, kind: str, path: Path | None = None) -> None:
        """Write a kind of ``FILES``; asks for the place when ``path`` is None."""
        title, name = self.EXPORT
        ask_and_write(self._window, title, f"{name}.{kind}", self.FILES[kind], partial(self.write, kind), path)
