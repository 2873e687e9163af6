"""Work that may wait for a network or a disk is done in a thread of its own; its answers come back as events."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Qt, Signal

from clew_shared.base.problem import Problem, ProblemError

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
_END = object()
Failed = Callable[[tuple[Problem, ...]], None]


class BackgroundWork(QObject, Generic[T]):
    """Runs one thread that makes values one after the other. All callbacks are called in the window's thread.

    ``values`` gets an event that is set when nobody wants more values. ``each`` gets every value, ``failed`` the
    problems that ended it, ``ended`` is called last. After ``stop`` nothing is called any more; the thread ends at its
    next value, and the program does not wait for it.
    """

    _due = Signal(object)
    """Something to call in the window's thread, unless nobody wants more."""
    _ended = Signal()

    def __init__(
        self,
        parent: QObject,
        name: str,
        values: Callable[[threading.Event], Iterator[T]],
        each: Callable[[T], None],
        failed: Failed,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(parent)
        self._values, self._each, self._failed, self._over = values, each, failed, ended
        self._stopped = threading.Event()
        queued = Qt.ConnectionType.QueuedConnection
        self._due.connect(self._call, queued)
        self._ended.connect(self.deleteLater, queued)
        self.thread_ = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread_.start()

    def stop(self) -> None:
        """Stops the work; nothing is called any more."""
        self._stopped.set()

    # --- In the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        values = self._all()
        with suppress(RuntimeError):  # the window is gone: nobody wants to know
            while (value := self._next(values)) is not _END and not self._stopped.is_set():
                self._due.emit(partial(self._each, value))  # type: ignore[arg-type]  # it is no _END
            self._due.emit(self._over)
            self._ended.emit()

    def _all(self) -> Iterator[T]:
        """Yields all values. It starts with the first one, so that a failure to start is reported as well."""
        yield from self._values(self._stopped)

    def _next(self, values: Iterator[T]) -> T | object:
        """The next value; none after a failure, which is reported."""
        try:
            return next(values, _END)
        except ProblemError as error:
            self._due.emit(partial(self._failed, error.problems))
        except Exception as error:  # noqa: BLE001  # the thread's border: the window shows it and stays usable
            _LOG.exception("%s", self.thread_.name)
            hint = "Clew goes on. Please copy this message and report it; the log has details."
            problems = (Problem("window.unexpected", f"{type(error).__name__}: {error}", hint),)
            self._due.emit(partial(self._failed, problems))
        return _END

    # --- In the window's thread ---------------------------------------------------------------------------------------

    def _call(self, what: Callable[[], None]) -> None:
        if not self._stopped.is_set():
            what()


def call_elsewhere(
    parent: QObject, name: str, call: Callable[[], T], then: Callable[[T], None], failed: Failed
) -> BackgroundWork[T]:
    """Call ``call`` in a thread; its value goes to ``then``, its ``ProblemError`` to ``failed``."""

    def once(_stop: threading.Event) -> Iterator[T]:
        yield call()

    return BackgroundWork(parent, name, once, then, failed)
