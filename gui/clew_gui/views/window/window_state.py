"""The state in which the window was left: plain data that settings keep."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import msgspec
import tomli_w

from clew_gui.views.compare.compare_state import CompareState
from clew_shared.base.foreign import from_toml
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem
from clew_shared.params import Value

_LOG = logging.getLogger(__name__)

ThemeChoice = Literal["system", "light", "dark"]
Size = Annotated[int, msgspec.Meta(ge=0, le=16_777_215)]
"""A size in logical pixels, up to Qt's ``QWIDGETSIZE_MAX``: with a number that is no C int the window would not
open."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Choices(msgspec.Struct, kw_only=True):
    """A person's choices about the runs of one exercise. Beside the ticked runs (``shown``), the selected one and the
    baseline are drawn.

    ``by_hand`` says that a person selected the run; until then the newest is. ``recent`` are the runs that this window
    started, and those they were started beside, oldest first. ``report`` are the runs in the report, and
    ``report_by_hand`` says that a person ticked them there.
    """

    selected: str = ""
    by_hand: bool = False
    shown: set[str] = set()
    hidden: set[str] = set()
    recent: list[str] = []
    report: set[str] = set()
    report_by_hand: bool = False


class WindowState(msgspec.Struct, kw_only=True):
    """Sizes in logical pixels; 0 and empty mean "as on the first day".

    ``folds`` holds what a person folded or unfolded by hand, as "panel:size=folded" with size small or large: a small
    window folds panels by itself unless someone said otherwise for small windows. ``pinned`` holds the run that was
    pinned by hand as baseline, or "none", by exercise. ``place`` is where the last run went (empty: this computer), and
    ``asked`` what was asked of a site's scheduler instead of the usual values, by site or ``site/exercise``. ``data``
    is the lab's data set or file (empty: what each exercise takes first, as far as it is there), ``data_folder`` where
    a file was chosen last, ``data_files`` the last ones of one's own; ``runs`` are the runs that were selected and
    drawn and ``forms`` what the form said (tables of run specs), by exercise; ``sort`` is the column of the runs table
    and whether it is sorted downwards. ``columns`` are the columns of the runs table that were shown or hidden by hand.
    """

    width: Size = 0
    height: Size = 0
    maximized: bool = False
    lab_width: Size = 0
    form_width: Size = 0
    runs_height: Size = 0
    folds: dict[str, bool] = {}
    exercise: str = ""
    tab: Annotated[int, msgspec.Meta(ge=0, le=99)] = 1
    theme: ThemeChoice = "system"
    log_axes: bool = True
    smoothing: Share = 0.6
    told_runs_go_on: bool = False
    pinned: dict[str, str] = {}
    place: str = ""
    asked: dict[str, dict[str, Value]] = {}
    columns: dict[str, bool] = {}
    data: str = ""
    data_folder: str = ""
    data_files: tuple[str, ...] = ()
    runs: dict[str, Choices] = {}
    forms: dict[str, dict[str, Any]] = {}
    sort: tuple[str, bool] = ("run", True)
    log_shown: bool = False
    unit: str = "step"
    page: str = ""
    compare: CompareState = CompareState()


class Memory(Protocol):
    """Keeps a window state between two days."""

    def load_window(self) -> WindowState:
        """Returns the saved state; that of the first start if there is none or it cannot be read."""

    def save_window(self, state: WindowState) -> None:
        """Keep it. Never raises: a window that cannot remember still closes."""


class NoMemory:
    """Forgets; for pictures and tests."""

    def __init__(self, state: WindowState | None = None) -> None:
        self.state = state or WindowState()

    def load_window(self) -> WindowState:
        """Returns what was saved in this process."""
        return self.state

    def save_window(self, state: WindowState) -> None:
        """Keeps the state until the process ends."""
        self.state = state


class FileMemory:
    """Keeps it as TOML. ``problem`` says why the last load gave the first day's state although there was a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.problem: Problem | None = None

    def load_window(self) -> WindowState:
        """Reads the state from the file; fields that this version does not know are ignored."""
        try:
            return _read(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return WindowState()
        except (OSError, ValueError, RecursionError) as error:  # ValueError: TOML, Unicode and msgspec's own
            text = f"The window's last layout cannot be read from {self._path}: {error}."
            self.problem = Problem("window.state", text, "It opens with the original layout.", str(self._path))
            return WindowState()

    def save_window(self, state: WindowState) -> None:
        """Replace the file in one go."""
        try:
            make_private(self._path.parent)
            write_private(self._path, _written(state).encode())
        except OSError as error:
            _LOG.info("the window's layout cannot be written to %s: %s", self._path, error)


def _read(text: str) -> WindowState:
    return msgspec.convert(from_toml(text), WindowState)


def _written(state: WindowState) -> str:
    return tomli_w.dumps(msgspec.to_builtins(state))
