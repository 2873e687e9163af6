"""Jupyter that is open on nodes, and TensorBoard on this computer: started, shown in the browser, and closed. The
window never waits for them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, Qt, Signal

from clew_gui.base.terminal_program import own_command
from clew_gui.nodes.services import Node, OpenedService, RedirectPage, ServiceNews, show_in_browser
from clew_gui.reports.tensorboard import check_installed
from clew_gui.session.job_links import JobModel
from clew_gui.views.presentation import words
from clew_gui.views.sites.background import call_elsewhere
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, problem

_CLOSE_S = 6.0


class ServiceStatus(NamedTuple):
    """The state of Jupyter on a node, in words; ``url`` is its address with the token, empty while there is none.
    ``over``: it has ended; ``trouble`` says why, if it was refused."""

    text: str
    url: str = ""
    over: bool = False
    trouble: Problem | None = None


class _Open:
    """Jupyter of one job, and the page that led the browser there."""

    def __init__(self) -> None:
        self.status = ServiceStatus("Jupyter starts.")
        self.service: OpenedService | None = None
        self.page: RedirectPage | None = None
        self.wanted = True
        """Whether the browser is to show it as soon as there is an address."""


class NodeServices(QObject):
    """Manages each Jupyter that this window has opened, by job. ``changed`` says that there is news; ``failed`` brings
    the problems.

    ``browse`` opens an address (None: the user's browser). It is called from a thread.
    """

    changed = Signal()
    failed = Signal(tuple)
    _came = Signal(object, str, object)

    def __init__(self, parent: QObject, private: Path) -> None:
        super().__init__(parent)
        self.browse: Callable[[str], bool] | None = None
        self._private = private
        self._open: dict[str, _Open] = {}
        self._closing: list[threading.Thread] = []
        self._came.connect(self._take, Qt.ConnectionType.QueuedConnection)

    def statuses(self) -> dict[str, ServiceStatus]:
        """The state of each, by job."""
        return {job: one.status for job, one in self._open.items()}

    # --- What a person wants ------------------------------------------------------------------------------------------

    def open(self, job: JobModel, node: Node) -> None:
        """Start it on the job's node, or show it again if it is open there."""
        known = self._open.get(job.id)
        if known is not None and not known.status.over:
            known.wanted = True
            self._show(job.id, known)
            return
        self.close(job.id)
        one = self._open[job.id] = _Open()
        one.service = OpenedService(node, lambda: job.news.over, lambda news: self._came.emit(one, job.id, news))
        self.changed.emit()

    def close(self, job: str) -> None:
        """Close the address here; the program on the node ends with its agent."""
        one = self._open.pop(job, None)
        if one is not None:
            self._end(one)
            self.changed.emit()

    def close_all(self) -> None:
        """The window closes. Waits some seconds at most."""
        for one in self._open.values():
            self._end(one)
        self._open.clear()
        for thread in self._closing:
            thread.join(_CLOSE_S)

    def _end(self, one: _Open) -> None:
        if one.page is not None:
            one.page.close()
        if one.service is not None:  # its thread may be waiting for the network
            self._closing = [thread for thread in self._closing if thread.is_alive()]
            self._closing.append(threading.Thread(target=one.service.close, name="close service", daemon=True))
            self._closing[-1].start()

    # --- News ---------------------------------------------------------------------------------------------------------

    def _take(self, one: _Open, job: str, news: ServiceNews) -> None:
        if self._open.get(job) is not one:
            return  # closed meanwhile
        one.status = ServiceStatus(_words(news), news.url, news.over, news.problem)
        self.changed.emit()
        if news.over and one.page is not None:
            one.page.close()
        if news.problem is not None:
            self.failed.emit((news.problem,))
        self._show(job, one)

    def _show(self, job: str, one: _Open) -> None:
        """Open the browser, once for each request."""
        url = one.status.url
        if not url or not one.wanted:
            return
        one.wanted = False
        browse, private = self.browse, self._private

        def shown(page: RedirectPage | None) -> None:
            if self._open.get(job) is not one or one.status.over:
                if page is not None:
                    page.close()
            elif page is None:
                one.status = one.status._replace(text="Jupyter is open; no browser was found.")
                self.changed.emit()
            else:
                if one.page is not None:
                    one.page.close()
                one.page = page

        call_elsewhere(self, "browser", lambda: show_in_browser(url, private, browse), shown, self.failed.emit)


def _words(news: ServiceNews) -> str:
    if news.url:
        return "Jupyter is open."
    if news.problem is not None:
        return "Jupyter did not start."
    if news.over:
        return "Jupyter ended with the allocation."
    return f"Jupyter: {words.clause(news.text.removeprefix('jupyter').strip())}"


class LocalTensorBoard(QObject):
    """TensorBoard over the runs of which this computer has the journals: ``clew open tensorboard``, which ends with the
    window. ``failed`` brings the problems. ``browse`` is as in ``NodeServices``, ``command`` another one in tests."""

    failed = Signal(tuple)

    def __init__(self, parent: QObject, places: Places) -> None:
        super().__init__(parent)
        self.browse: Callable[[str], bool] | None = None
        self.command = own_command(["open", "tensorboard", "--no-browser"])
        self._places = places
        self._process: subprocess.Popen[bytes] | None = None
        self._pages: list[RedirectPage] = []
        self._url = ""
        self._asking = threading.Lock()

    def open(self) -> None:
        """Start it, or show it again if it is open. Raises ``ProblemError`` where it is not installed."""
        process = self._process
        if process is None or process.poll() is not None:
            self.close()
            check_installed()
            environment = {**os.environ, "CLEW_HOME": str(self._places.home)}
            quiet = subprocess.DEVNULL
            process = self._process = operating_system.start_session(
                self.command, ends_with_parent=True, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env=environment
            )
        call_elsewhere(self, "tensorboard", partial(self._show, process), self._pages.append, self.failed.emit)

    def close(self) -> None:
        """End it. Waits some seconds at most."""
        while self._pages:
            self._pages.pop().close()
        process, self._process, self._url = self._process, None, ""
        if process is None or process.stdout is None:
            return
        operating_system.pass_on(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSE_S)
        operating_system.kill_session(process)
        process.wait()
        process.stdout.close()

    def _show(self, process: subprocess.Popen[bytes]) -> RedirectPage:
        """Opens the browser at its address, which it prints as its only line."""
        with self._asking:  # a second click waits for the same line
            if not self._url and process.stdout is not None:
                self._url = process.stdout.readline().decode().strip()
        page = show_in_browser(self._url, self._places.private, self.browse) if self._url else None
        if page is None:
            text = "TensorBoard is open, but no browser was found." if self._url else "TensorBoard did not start."
            raise problem("tensorboard.start", text, "Type in a terminal: clew open tensorboard")
        return page
