"""The program's log, and what the window says of errors that nobody expected."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from types import TracebackType

from clew_gui.views.window.window import MainWindow
from clew_shared.base.harmless import log_to
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem

_LOG = logging.getLogger(__name__)


def log_from_now(places: Places, window: MainWindow) -> None:
    """Keep a log in Clew's own folder; the window says so when that cannot be."""
    trouble = keep_log(places)
    if trouble is not None:
        window.messages.show_problems((trouble,))


def keep_log(places: Places) -> Problem | None:
    """Log into a file; the reason when Clew's own folder takes none, and then no run can be kept there either."""
    folder = places.home / "log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(folder / "clew.log", maxBytes=1 << 20, backupCount=2)
    except OSError as error:
        text = f"Clew stores everything in {places.home}, but cannot write there: {error.strerror}."
        return Problem(
            "home.write", text, "Set CLEW_HOME to a folder that you can write to, and start again.", str(places.home)
        )
    log_to(handler, logging.INFO, "%(asctime)s %(levelname)s %(name)s: %(message)s")
    return None


def show_surprises(window: MainWindow) -> None:
    """An exception in a slot does not end Qt's loop; it is logged and shown, wherever it came from."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _LOG.error("an unexpected error", exc_info=(kind, error, trace))
        hint = "Clew goes on. Please copy this message and report it; the log has details."
        window.messages.show_problems((Problem("window.unexpected", f"{kind.__name__}: {error}", hint),))

    sys.excepthook = hook
