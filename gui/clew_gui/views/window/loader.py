"""Imports what takes long once the window is painted, so that it answers meanwhile.

No class of Qt may be created outside the GUI's thread. Before Python 3.12 PySide keeps what it knows of its classes in
a table that Qt's own code reads at almost every event, without Python's lock; a class made in another thread at that
moment moves the table away under it, and the program breaks down. So a thread imports what knows nothing of Qt, and
everything else is imported here, a bit per event. That pyqtgraph asks for every class that Qt has would take too long
for one event, hence they are made one by one before it is imported.
"""

from __future__ import annotations

import gc
import importlib
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from itertools import chain

from PySide6.QtCore import QObject, Qt, QTimer, Signal

SESSION = (
    "clew_shared.journal.history",
    "clew_shared.goals",
    "clew_gui.session.session",
    "clew_gui.session.job_managers",
    "clew_gui.sites.store",
)
_PLOTS_NEED = (
    "numpy",
    "cProfile",
    "multiprocessing.connection",
    "pydoc",
    "xml.dom.minidom",
    "xml.etree.ElementTree",
    "clew_gui.plotting.loss_surface",
    "clew_gui.plotting.axes.layout",
    "clew_gui.plotting.curves.readout",
    "clew_gui.plotting.table",
    "clew_gui.plotting.measured",
    "clew_gui.plotting.surface_path",
    "clew_gui.plotting.axes.ticks",
    "clew_gui.sites.consent",
    "clew_gui.ssh.config",
    "clew_gui.base.terminal_program",
)
"""What pyqtgraph and our own parts with Qt import besides Qt; a name that is missing here costs a little time only."""
ASIDE = (SESSION, _PLOTS_NEED)
"""Imported in a thread, one after the other: the agent comes up while the rest is loaded. Nothing here knows Qt."""
HERE = (
    "clew_gui.views.sites.prompts",
    "pyqtgraph",
    "clew_gui.views.plots.panel",
    "clew_gui.views.plots.feed",
    "clew_gui.views.actions.site_actions",
)
"""Imported by the GUI's thread, bit by bit."""
_THREAD_END_S = 10.0
"""Bound on the wait for the importing thread when a window closes within its first second."""
_SLICE_S = 0.008
"""After so long the window has its turn again; one import or class that takes longer is not cut."""
_QT = ("PySide6.QtCore", "PySide6.QtGui", "PySide6.QtWidgets")


class Loader(QObject):
    """``aside`` are names of modules without Qt, stage by stage, for a thread; ``here`` those for the GUI's thread."""

    loaded = Signal(int)
    """This stage of the thread's is there."""
    complete = Signal()
    """All of it is there."""
    failed = Signal(str)
    """The traceback of what could not be imported; nothing comes after it."""
    _aside_done = Signal()

    def __init__(self, parent: QObject, aside: Sequence[Sequence[str]], here: Sequence[str]) -> None:
        super().__init__(parent)
        self._aside, self._here = aside, here
        self._thread = threading.Thread(target=self._work, name="clew-imports", daemon=True)
        self._steps: Iterator[None] = make_classes()
        self._aside_is_there = False
        self._ended = False
        self._aside_done.connect(self._import_here, Qt.ConnectionType.QueuedConnection)
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._slice)

    def start(self) -> None:
        """Begin; a second call changes nothing."""
        if self._thread.ident is None:
            self._thread.start()
            self._timer.start()

    def _work(self) -> None:
        try:
            for number, names in enumerate(self._aside):
                for name in names:
                    importlib.import_module(name)
                self.loaded.emit(number)
            self._aside_done.emit()
        except Exception:  # noqa: BLE001  # the thread's border: the window shows it and stays usable
            self.failed.emit(traceback.format_exc())

    def _import_here(self) -> None:
        self._aside_is_there = True
        self._steps = chain(self._steps, _import(self._here))
        if not self._ended:
            self._timer.start()

    def _slice(self) -> None:
        end = time.perf_counter() + _SLICE_S
        try:
            while time.perf_counter() < end:
                next(self._steps)
        except StopIteration:
            self._timer.stop()
            if self._aside_is_there:
                self.complete.emit()
        except Exception:  # noqa: BLE001  # the same border
            self._timer.stop()
            self.failed.emit(traceback.format_exc())

    def wait(self) -> None:
        """Import no more, and wait for the thread's end."""
        self._ended = True
        self._timer.stop()
        if self._thread.ident is not None:
            self._thread.join(_THREAD_END_S)


def make_classes() -> Iterator[None]:
    """Every class that Qt has, made by being asked for."""
    for name in _QT:
        module = importlib.import_module(name)
        for attribute in dir(module):
            getattr(module, attribute)
            yield


def _import(names: Sequence[str]) -> Iterator[None]:
    for name in names:
        importlib.import_module(name)
        yield


# --- Collector --------------------------------------------------------------------------------------------------------
# Garbage that goes in circles is collected by the GUI's thread alone.
#
# Python runs its collector in whichever thread happens to make the next object. Widgets, pixmaps and timers that go
# in circles then end in a thread in which Qt forbids that, and the program breaks down some time later, anywhere.
# With links, SSH and ZeroMQ there are always other threads.


_EVERY_MS = 1000


class Collector(QObject):
    """Puts Python's own collector to rest for as long as the process lives. ``begin`` does its work from then on, now
    and then, in the thread of the event loop."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.disable()
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(collect_due)

    def begin(self) -> None:
        """The window is complete: from now on there is something to collect."""
        self._timer.start()


def collect_due() -> None:
    """Collect the generations of which enough has been made since the last time, by Python's own thresholds."""
    for generation, (made, allowed) in enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True)):
        if made <= allowed:
            return
        gc.collect(generation)
