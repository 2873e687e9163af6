"""How the window was left: plain data that settings keep."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

ThemeChoice = Literal["system", "light", "dark"]


class WindowState(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in logical pixels; 0 and empty mean "as on the first day".

    ``folds`` holds what a person folded or unfolded by hand, as "panel:size=folded" with size small or large: a small
    window folds panels by itself unless somebody said otherwise for small windows.
    """

    width: int = 0
    height: int = 0
    maximized: bool = False
    lab_width: int = 0
    form_width: int = 0
    runs_height: int = 0
    folds: dict[str, bool] = {}
    exercise: str = ""
    tab: int = 1
    theme: ThemeChoice = "system"
    log_axes: bool = True
    smoothing: float = 0.6
    told_runs_go_on: bool = False


class Memory(Protocol):
    """Keeps a window state between two days."""

    def load_window(self) -> WindowState:
        """What was kept; the first day's state when there is none or it cannot be read."""

    def save_window(self, state: WindowState) -> None:
        """Keep it. Never raises: a window that cannot remember still closes."""


class NoMemory:
    """Forgets; for pictures and tests."""

    def __init__(self, state: WindowState | None = None) -> None:
        self.state = state or WindowState()

    def load_window(self) -> WindowState:
        """What was saved in this process."""
        return self.state

    def save_window(self, state: WindowState) -> None:
        """Until the process ends."""
        self.state = state
