"""The state in which the window was left: plain data that settings keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from clew_gui.base.settings import SettingsFile
from clew_shared.params import Value

ThemeChoice = Literal["system", "light", "dark"]
Size = Annotated[int, msgspec.Meta(ge=0, le=16_777_215)]
"""A size in logical pixels, up to Qt's ``QWIDGETSIZE_MAX``: with a number that is no C int the window would not
open."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class CompareState(msgspec.Struct, frozen=True):
    """The state in which the Compare tab was left: the picture, which runs ("ticked" or "listed"), and the values of
    the fields; empty means as on the first start. ``scales`` are the metrics whose scale a person chose, as "exercise
    metric", and whether it is logarithmic."""

    page: str = ""
    runs: str = ""
    value: str = ""
    colour: str = ""
    x: str = ""
    target: str = ""
    group: bool = True
    scales: dict[str, bool] = {}


class Choices(msgspec.Struct, kw_only=True):
    """A person's choices about the runs of one exercise. Beside the ticked runs (``shown``), the selected one and the
    baseline are drawn.

    ``by_hand`` says that a person selected the run; until then the newest is. One that was selected in the window
    before counts as such, since it is waited for. ``recent`` are the runs that this window
    started, and those they were started beside, oldest first. ``report`` are the runs in the report, and
    ``report_by_hand`` says that a person ticked them there. ``styles`` are the curve styles of drawn runs.
    """

    selected: str = ""
    by_hand: bool = False
    shown: set[str] = set()
    hidden: set[str] = set()
    recent: list[str] = []
    report: set[str] = set()
    report_by_hand: bool = False
    styles: dict[str, Annotated[int, msgspec.Meta(ge=0, le=9999)]] = {}


class WindowState(msgspec.Struct, kw_only=True):
    """Sizes in logical pixels; 0 and empty mean "as on the first day".

    ``folds`` holds what a person folded or unfolded by hand, as "panel:size=folded" with size small or large: a small
    window folds panels by itself unless someone said otherwise for small windows. ``pinned`` holds the run that was
    pinned by hand as baseline, or "none", by exercise. ``place`` is where the last run went (empty: this computer), and
    ``asked`` what was asked of a site's scheduler instead of the usual values, by site or ``site/exercise``. ``data``
    is the lab's data set or file (empty: what each exercise takes first, as far as it is there), ``data_folder`` where
    a file was chosen last, ``data_files`` the last ones of one's own; ``runs`` are the runs that were selected and
    drawn and ``forms`` what the form said (tables of run specs), by exercise; ``sort`` is the column of the runs table
    and whether it is sorted downwards.
    ``more``: the form shows what the first labs never need; ``told`` are the features that were pointed out.
    ``columns`` are the columns of the runs table that were shown or hidden by hand.
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
    more: bool = False
    told: set[str] = set()
    unit: str = "step"
    page: str = ""
    compare: CompareState = CompareState()


class NoMemory(SettingsFile[WindowState]):
    """Forgets; for pictures and tests."""

    def __init__(self, state: WindowState | None = None) -> None:
        super().__init__(Path(), WindowState)
        self.state = state or WindowState()

    def load(self) -> WindowState:
        """Returns what was saved in this process."""
        return self.state

    def save(self, value: WindowState) -> None:
        """Keeps the state until the process ends."""
        self.state = value
