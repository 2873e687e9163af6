"""Refuses the one release of PySide6 that ends the program, before Qt is imported.

PySide6 6.12.0 loses a reference to None on every call of a Qt method that returns nothing. Before Python 3.12 None
could be freed, and the program aborts after some thousand calls (``none_dealloc``). The project file excludes that
release, but an environment can be changed by hand afterwards. No Qt is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec

from clew_shared.base.installation import WINDOW, how_to_install
from clew_shared.base.problem import Problem

_DISTRIBUTIONS = ("PySide6-Essentials", "PySide6")
_IMMORTAL_NONE = (3, 12)


def find_problem(python: tuple[int, ...], pyside: str, missing: Sequence[str] = ()) -> Problem | None:
    """Says what is wrong with this pair of a Python version and a PySide6 version, or with what is ``missing``, if
    anything."""
    if missing:
        return Problem(
            code="gui.qt_missing",
            text=f"The window needs {' and '.join(missing)}, which this Python does not have.",
            hint=f"{how_to_install(*WINDOW)}. Runs without a window work as they are: clew run softmax",
        )
    if python[:2] < _IMMORTAL_NONE and pyside.split(".")[:3] == ["6", "12", "0"]:
        return Problem(
            code="gui.qt_aborts",
            text=f"PySide6 {pyside} aborts on Python {python[0]}.{python[1]} within a minute of drawing.",
            hint=f"Install another release. {how_to_install(WINDOW[0])}. Or use Python 3.12.",
        )
    return None


def installed_pyside() -> str:
    """The installed PySide6's version, read from package metadata; empty if it is not known."""
    for name in _DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def check_qt() -> Problem | None:
    """Says what prevents importing Qt here, if anything. Call it before ``clew_gui.app`` is imported."""
    missing = [name for name in ("PySide6", "pyqtgraph") if find_spec(name) is None]
    return find_problem(sys.version_info[:3], installed_pyside(), missing)
