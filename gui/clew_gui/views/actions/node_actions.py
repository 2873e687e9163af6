"""Opens services on a node, and logs in to a site that asks for a login."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject
from PySide6.QtGui import QGuiApplication

from clew_gui.base.terminal_program import open_terminal
from clew_gui.base.times import time_of_day
from clew_gui.jobs.job import JobStage
from clew_gui.jobs.manager import JobManager
from clew_gui.session.job_links import JobModel
from clew_gui.sites.logins import log_out, logins, stays_s
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.presentation.job_words import is_idle, login_words
from clew_gui.views.sites.background import call_elsewhere
from clew_gui.views.sites.jobs import JobsDialog, SiteBar
from clew_gui.views.sites.services import LocalTensorBoard, NodeServices
from clew_gui.views.theme.parts import native_keys
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem

_NO_NODE = "There is no node yet: hold one (Ctrl+H), or select a run that is training on a site."


class NodeActions(QObject):
    """Handles jobs and logins on sites for the window. ``manager`` None: this session talks to no sites. ``terminal``
    opens a window with one of Clew's commands in it."""

    def __init__(self, controller: WindowController, places: Places, bar: SiteBar, manager: JobManager | None) -> None:
        window = controller.window
        super().__init__(window)
        self._window, self._controller, self._bar, self._manager = window, controller, bar, manager
        self.services = NodeServices(self, places.private)
        self.services.changed.connect(self.show)
        self.services.failed.connect(window.messages.show_problems)
        self.board = LocalTensorBoard(self, places)
        self.board.failed.connect(window.messages.show_problems)
        self.terminal: Callable[[Sequence[str]], subprocess.Popen[bytes] | None] = open_terminal
        self._places = places
        self._list: JobsDialog | None = None
        self._terminals: list[subprocess.Popen[bytes]] = []
        bar.asked.connect(self._asked)
        window.run_view.card.log_in.clicked.connect(self.log_in_for_run)

    # --- In sight -----------------------------------------------------------------------------------------------------

    def jobs(self) -> list[JobModel]:
        """All jobs of this window."""
        session = self._controller.model.session
        return list(session.jobs.values())

    def held(self) -> list[JobModel]:
        """The allocations that are held, but for those whose time is up by this computer's clock."""
        now = time.time()
        return [job for job in self.jobs() if job.order.hold and not job.news.over and not job.news.is_past(now)]

    def locked(self) -> dict[str, list[JobModel]]:
        """The sites where nobody is logged in, with the jobs that wait for that."""
        found: dict[str, list[JobModel]] = {}
        for job in self.jobs():
            if job.locked is not None:
                found.setdefault(job.order.site, []).append(job)
        return found

    def show(self) -> None:
        """Bring the lines above Run up to date."""
        opened = self.services.statuses()
        jobs = [
            job for job in self.jobs() if job.id in opened or is_idle(job) or (job.order.hold and not job.news.over)
        ]
        self._bar.show_jobs(jobs, opened, time.time())
        self._show_list()
        locked = self.locked()
        self._bar.show_logins(locked)
        self._window.actions_["log_in"].setEnabled(bool(locked))

    def tick(self) -> None:
        """Updates the countdowns, once a second."""
        self._terminals = [one for one in self._terminals if one.poll() is None]
        if self._list is not None or not self._bar.isHidden() or any(map(is_idle, self.jobs())):
            self.show()

    def close(self) -> None:
        """The window closes: addresses here are closed, terminals stay. Waits some seconds at most."""
        self.services.close_all()
        self.board.close()
        for one in self._terminals:
            one.returncode = one.poll() or 0  # it outlives this program on purpose; no ResourceWarning for it

    def _asked(self, what: str, of: str) -> None:
        if what in ("jupyter", "terminal"):
            self.open(of, what)
        else:
            does = {"copy": self.copy_address, "close": self.services.close, "log in": self.log_in, "let go": self.end}
            does[what](of)

    # --- Opening something --------------------------------------------------------------------------------------------

    def open_here(self, kind: str) -> None:
        """Open it on the node that is chosen under Run on, else on that of the selected run, else on the one held."""
        chosen, run = self._window.next_run.where.choice().job, self._controller.model.run()
        mine = run.job.job if run is not None and run.job is not None else ""
        running = {job.id: job for job in self.jobs() if job.news.stage is JobStage.RUNNING}
        others = [job.id for job in self.held() if job.id in running]
        job = next((job for job in (chosen, mine, *others) if job in running), "")
        if job:
            self.open(job, kind)
        else:
            self._window.messages.show_note(native_keys(_NO_NODE))

    def open(self, job: str, kind: str) -> None:
        """Open Jupyter or a terminal on the node of a job."""
        model = next((one for one in self.jobs() if one.id == job), None)
        if model is None or self._manager is None:
            return
        if kind == "terminal":
            self._open_terminal(model)
            return
        if model.locked is not None:
            self.log_in(model.order.site)
        with self._controller.refusals():
            self.services.open(model, self._manager.target(job))

    def open_board(self) -> None:
        """Show TensorBoard on this computer in the browser."""
        with self._controller.refusals():
            self.board.open()
            self._window.messages.show_note("TensorBoard opens in the browser.")

    def copy_address(self, job: str) -> None:
        """Jupyter's address with its token, to the clipboard."""
        status = self.services.statuses().get(job)
        if status is not None and status.url:
            QGuiApplication.clipboard().setText(status.url)
            self._window.messages.show_note("Address copied. Anyone who has it can log in, on this computer only.")

    def _open_terminal(self, job: JobModel) -> None:
        beside = [one for one in self.jobs() if one.order.site == job.order.site and not one.news.over]
        words = ["shell", "--site", job.order.site, *(["--job", job.id] if len(beside) > 1 else [])]
        opener = self.terminal

        def opened(process: subprocess.Popen[bytes] | None) -> None:
            self._terminals += [process] if process is not None else []

        def failed(problems: tuple[Problem, ...]) -> None:
            command = shlex.join(["clew", *words])
            if job.id in self._bar.rows:
                self._bar.rows[job.id].show_command(command)
                return
            found, hint = problems[0], f"Run this in your own terminal: {command}"
            self._window.messages.show_problems((Problem(found.code, found.text, hint),))

        call_elsewhere(self, "terminal", lambda: opener(words), opened, failed)

    # --- Logging in ---------------------------------------------------------------------------------------------------

    def log_in(self, site: str) -> None:
        """Log in on a site; what it asks comes as dialogs."""
        if self._manager is not None:
            self._manager.log_in(site)

    def log_in_for_run(self) -> None:
        """Log in where the selected run is."""
        run, jobs = self._controller.model.run(), self._controller.model.session.jobs
        job = jobs.get(run.job.job) if run is not None and run.job is not None else None
        if job is not None:
            self.log_in(job.order.site)

    def log_in_everywhere(self) -> None:
        """Log in on all sites that ask for it."""
        for site in self.locked():
            self.log_in(site)

    def log_out(self) -> None:
        """End all logins, those of this window and those that stay; jobs go on."""
        manager, places = self._manager, self._places

        def end() -> bool:
            was = manager is not None and manager.log_out()
            return bool(log_out(places).ended) or was

        def ended(was: bool) -> None:
            if was:
                self._window.messages.show_note("Logged out of all sites.", "Jobs go on.")
            else:
                self._window.messages.show_note("You were not logged in to any site.")
            self._look_for_logins()

        call_elsewhere(self, "log out", end, ended, self._window.messages.show_problems)

    # --- The list of jobs ---------------------------------------------------------------------------------------------

    def show_jobs(self) -> JobsDialog:
        """Shows all jobs of this person's sites, and the logins that are kept."""
        dialog = self._list = JobsDialog(self._window, self._window.appearance)
        dialog.end_asked.connect(self.end)
        dialog.log_out.clicked.connect(self.log_out)
        dialog.finished.connect(lambda _code: self._forget_list(dialog))
        self._show_list()
        self._look_for_logins()
        dialog.open()
        return dialog

    def end(self, job: str) -> None:
        """Cancel a job, or give back an allocation."""
        session = self._controller.model.session
        nodes = session.jobs[job].news.nodes if job in session.jobs else ""
        with self._controller.refusals():
            session.cancel(job)
            if nodes:
                self._window.messages.lapse_about(nodes)

    def _show_list(self) -> None:
        session = self._controller.model.session
        if self._list is None:
            return
        numbers = {job.id: [session.runs[run].number for run in job.runs if run in session.runs] for job in self.jobs()}
        self._list.show_jobs(self.jobs(), numbers, time.time())

    def _look_for_logins(self) -> None:
        places = self._places

        def look() -> str:
            living, unknown = logins(places)
            known = login_words([(one.title, time_of_day(one.until)) for one in living], stays_s(places))
            return " ".join([known, *(one.text for one in unknown)])

        def found(sentence: str) -> None:
            if self._list is not None:
                self._list.show_login(sentence)

        call_elsewhere(self, "logins", look, found, self._window.messages.show_problems)

    def _forget_list(self, dialog: JobsDialog) -> None:
        if self._list is dialog:
            self._list = None
