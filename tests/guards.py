"""Fixtures that act on every test: a separate home folder, and failures for what a test leaves behind.

A test fails if it ends with threads, processes, TCP or UDP sockets or running Qt timers that were not there before,
or if it logged a WARNING or worse that it did not announce with ``expect_logs``. Modal dialogs raise an error instead
of waiting for ever.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakSet

import psutil
import pytest

__all__ = [
    "expect_logs",
    "home",
    "no_leaked_processes",
    "no_leaked_sockets",
    "no_leaked_threads",
    "no_leaked_timers",
    "no_modal_dialogs",
    "no_unexpected_logs",
]

TOKEN = "CLEW_TEST_TOKEN"
GRACE_S = 10.0
"""Bound on the wait for what is already ending; a test that leaves nothing does not wait at all."""


def fail_if_left(kind: str, find: Callable[[], list[str]]) -> None:
    """Fail the test unless ``find`` returns nothing within the grace time."""
    deadline = time.monotonic() + GRACE_S
    while left := find():
        if time.monotonic() > deadline:
            pytest.fail(f"the test left {kind} behind: {'; '.join(left)}", pytrace=False)
        time.sleep(0.02)


# --- A separate home --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Iterator[Path]:
    """The folder that CLEW_HOME names during this test, so that no test touches the user's own folders."""
    folder = tmp_path / "clew-home"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_HOME", str(folder))
        yield folder


# --- Nothing left behind ----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_leaked_threads(home: Path) -> Iterator[None]:
    """Python threads must have ended. Threads that libraries started in C show up as dummies and do not count."""
    before = set(threading.enumerate())
    yield

    def left() -> list[str]:
        new = (thread for thread in threading.enumerate() if thread not in before)
        return [thread.name for thread in new if not isinstance(thread, threading._DummyThread)]

    fail_if_left("threads", left)


def _describe(process: psutil.Process) -> str:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return f"{process.pid} (a zombie: it ended, but was not waited for)"
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return str(process.pid)


def _started_by_test(pid: int, token: str) -> psutil.Process | None:
    """The process, if it is our child or has this test's token, detached or not; otherwise None."""
    try:
        process = psutil.Process(pid)
        ours = process.ppid() == os.getpid() or process.environ().get(TOKEN) == token
        if ours and process.status() != psutil.STATUS_ZOMBIE and _kept_by_others(process):
            return None
    except psutil.Error:
        return None
    return process if ours else None


def _kept_by_others(process: psutil.Process) -> bool:
    """Whether the standard library keeps this process until the interpreter ends, or Windows keeps it as the server of
    a console, a while longer than the console's last program."""
    return process.name() == "conhost.exe" or "multiprocessing.resource_tracker" in " ".join(process.cmdline())


@pytest.fixture(autouse=True)
def no_leaked_processes(home: Path) -> Iterator[None]:
    """Processes must have ended and been waited for, even those that started their own sessions."""
    before = set(psutil.pids())
    token = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN, token)
        yield

    def left() -> list[psutil.Process]:
        new = (_started_by_test(pid, token) for pid in set(psutil.pids()) - before)
        return [process for process in new if process is not None]

    try:
        fail_if_left("processes", lambda: [_describe(process) for process in left()])
    finally:
        for process in left():
            _end(process)


def _end(process: psutil.Process) -> None:
    """Kill what a failed test left, so that it does not disturb later tests or the machine."""
    try:
        process.kill()
        process.wait(GRACE_S)
    except psutil.Error:
        return


@pytest.fixture(autouse=True)
def no_leaked_sockets(home: Path) -> Iterator[None]:
    """TCP and UDP sockets of the test process must be closed, no matter who opened them (Python, ZeroMQ, Qt, …)."""

    def sockets() -> dict[tuple[object, ...], str]:
        connections = psutil.Process().net_connections("inet")
        return {(c.fd, c.laddr, c.raddr): f"{c.laddr} to {c.raddr} {c.status}" for c in connections}

    before = sockets()
    yield
    fail_if_left("sockets", lambda: [text for key, text in sockets().items() if key not in before])


@pytest.fixture(autouse=True)
def no_leaked_timers(home: Path) -> Iterator[None]:
    """QTimers that were made during the test must have been stopped or deleted."""
    core: Any = sys.modules.get("PySide6.QtCore")
    if core is None:
        yield
        return
    made: WeakSet[Any] = WeakSet()
    original = core.QTimer.__init__

    def remember(timer: Any, *args: Any, **options: Any) -> None:
        original(timer, *args, **options)
        made.add(timer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core.QTimer, "__init__", remember)
        yield
    fail_if_left("Qt timers", lambda: _running(core, made))


def _running(core: Any, timers: WeakSet[Any]) -> list[str]:
    from shiboken6 import isValid

    application = core.QCoreApplication.instance()
    if application is not None:  # widgets that were closed wait for this to be deleted, with their timers
        core.QCoreApplication.sendPostedEvents(None, core.QEvent.Type.DeferredDelete)
    running = (timer for timer in list(timers) if isValid(timer) and timer.isActive())
    return [f"{timer.interval()} ms, name '{timer.objectName()}', parent {timer.parent()}" for timer in running]


# --- No unexpected logs -----------------------------------------------------------------------------------------------


_ALWAYS_ON_WINDOWS = "TensorFlow GPU support is not available on native Windows"


class LogBook(logging.Handler):
    """Collects records of WARNING and worse, and the patterns that a test expects among them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []
        self._expected: list[re.Pattern[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record."""
        if not record.getMessage().startswith(_ALWAYS_ON_WINDOWS):
            self.records.append(record)

    def __call__(self, *patterns: str) -> None:
        """Announce that the test logs at least one record matching each of these regular expressions."""
        self._expected += [re.compile(pattern) for pattern in patterns]

    def complaints(self) -> list[str]:
        """Records that nobody announced, and announcements that nothing matched."""
        texts = [(f"{r.levelname} {r.name}: {r.getMessage()}", r.getMessage()) for r in self.records]
        unexpected = [line for line, text in texts if not any(p.search(text) for p in self._expected)]
        unseen = [p.pattern for p in self._expected if not any(p.search(text) for _, text in texts)]
        return [f"unexpected log record: {line}" for line in unexpected] + [f"expected log: {p}" for p in unseen]


@pytest.fixture(autouse=True)
def no_unexpected_logs(home: Path) -> Iterator[LogBook]:
    """Records of WARNING and worse must have been announced."""
    book = LogBook()
    root = logging.getLogger()
    root.addHandler(book)
    yield book
    root.removeHandler(book)
    if complaints := book.complaints():
        pytest.fail("\n".join(complaints), pytrace=False)


@pytest.fixture
def expect_logs(no_unexpected_logs: LogBook) -> LogBook:
    """Call it with regular expressions: the test may log what they match, and fails when one matches nothing."""
    return no_unexpected_logs


# --- No dialog that waits for a person --------------------------------------------------------------------------------

_MODAL_CALLS = {
    "QDialog": ("exec",),
    "QMessageBox": ("exec", "about", "aboutQt", "critical", "information", "question", "warning"),
    "QFileDialog": ("exec", "getExistingDirectory", "getOpenFileName", "getOpenFileNames", "getSaveFileName"),
    "QInputDialog": ("exec", "getDouble", "getInt", "getItem", "getMultiLineText", "getText"),
    "QColorDialog": ("exec", "getColor"),
    "QFontDialog": ("exec", "getFont"),
    "QProgressDialog": ("exec",),
    "QErrorMessage": ("exec",),
    "QWizard": ("exec",),
}


@pytest.fixture(autouse=True)
def no_modal_dialogs(home: Path) -> Iterator[None]:
    """A modal dialog raises an error, because it would wait for ever. Use ``dialog.open()`` and ``finished``."""
    widgets: Any = sys.modules.get("PySide6.QtWidgets")
    with pytest.MonkeyPatch.context() as patch:
        if widgets is not None:
            for class_name, methods in _MODAL_CALLS.items():
                for method in methods:
                    patch.setattr(getattr(widgets, class_name), method, _refuse(f"{class_name}.{method}"))
        yield


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise AssertionError(f"{name} would wait for a person for ever; use open() and the finished signal")

    return refuse
