"""Imports what takes long in a thread of its own, so that the window answers meanwhile."""

from __future__ import annotations

import importlib
import threading
import traceback
from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

_THREAD_END_S = 10.0
"""Bound on the wait for the importing thread when a window closes within its first second."""


class Loader(QObject):
    """Imports modules stage by stage, and says so on the GUI thread."""

    loaded = Signal(int)
    """This stage is there."""
    failed = Signal(str)
    """The traceback of what could not be imported; nothing comes after it."""

    def __init__(self, parent: QObject, stages: Sequence[Sequence[str]]) -> None:
        super().__init__(parent)
        self._stages = stages
        self._thread = threading.Thread(target=self._work, name="clew-imports", daemon=True)

    def start(self) -> None:
        """Begin; a second call changes nothing."""
        if self._thread.ident is None:
            self._thread.start()

    def _work(self) -> None:
        try:
            for number, names in enumerate(self._stages):
                for name in names:
                    importlib.import_module(name)
                self.loaded.emit(number)
        except Exception:  # noqa: BLE001  # the thread's border: the window shows it and stays usable
            self.failed.emit(traceback.format_exc())

    def wait(self) -> None:
        """Wait for the thread's end."""
        if self._thread.ident is not None:
            self._thread.join(_THREAD_END_S)
