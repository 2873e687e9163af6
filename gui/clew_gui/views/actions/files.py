"""Files that leave the window, which asks where, writes and reports it, and those that are dropped on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QDropEvent

from clew_gui.courses.course_file import SUFFIX as COURSE_SUFFIX
from clew_gui.reports.handin import SUFFIX
from clew_gui.views.presentation.menu_entries import RemedyButton
from clew_gui.views.theme.dialog import ask_place
from clew_gui.views.window.window import MainWindow
from clew_shared.base.problem import Problem, ProblemError

_PAINTED_MS = 50
"""The time in which a dialog goes and a note is painted."""


def ask_and_write(
    window: MainWindow, title: str, name: str, kinds: str, write: Callable[[Path], None], path: Path | None = None
) -> None:
    """Let a person choose where, and do ``write_and_report`` there when the dialog is gone and the window says so: a
    PDF takes seconds. At once, and without a dialog, if ``path`` says where."""
    if path is not None:
        write_and_report(window, path, write)
        return

    def chosen(path: Path) -> None:
        window.messages.show_note(f"Writing {path.name}…")
        QTimer.singleShot(_PAINTED_MS, window, lambda: write_and_report(window, path, write))

    ask_place(window, title, name, kinds, chosen)


def write_and_report(window: MainWindow, path: Path, write: Callable[[Path], None]) -> None:
    """Call ``write`` with the path; the window says that it is done, or why it could not be."""
    try:
        write(path)
    except ProblemError as error:
        window.messages.show_problems(error.problems)
    except OSError as error:
        text = f"{path} could not be written: {error.strerror or error}."
        hint = "Choose a folder that you can write to and that has free space."
        window.messages.show_problems((Problem("window.export", text, hint, str(path)),))
    else:
        show_written(window, path)


def show_written(window: MainWindow, path: Path) -> None:
    """Say where a file is, with buttons that open it and its folder."""
    ways = [
        RemedyButton(words, partial(QDesktopServices.openUrl, QUrl.fromLocalFile(str(place))))
        for words, place in (("Open", path), ("Show in folder", path.absolute().parent))
    ]
    window.messages.show_note(f"Written: {path}", buttons=ways)


class DroppedFiles(QObject):
    """Lets hand-ins, folders of runs, and files of exercises and training scripts be dropped on the window."""

    def __init__(self, window: MainWindow, open_file: Callable[[str], None]) -> None:
        super().__init__(window)
        self._open = open_file
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Takes what the window can open; one file at a time."""
        if not isinstance(event, QDropEvent):  # what is dragged over the window is one as well
            return super().eventFilter(watched, event)
        if path := _opened(event.mimeData()):
            event.acceptProposedAction()
            if event.type() == QEvent.Type.Drop:
                self._open(path)
        return True


def _opened(data: QMimeData) -> str:
    """The path of the one file or folder; empty if it is none that the window opens."""
    paths = [url.toLocalFile() for url in data.urls()]
    fits = len(paths) == 1 and (paths[0].endswith((".py", SUFFIX, COURSE_SUFFIX)) or Path(paths[0]).is_dir())
    return paths[0] if fits else ""
