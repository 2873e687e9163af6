"""What goes on at sites: the lines above Run (logins that are needed, nodes that are held), and the dialog of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from clew_gui.jobs.job import JobStage
from clew_gui.session.job_links import JobModel
from clew_gui.views.presentation.job_words import held_words, is_idle, job_lines, locked_words
from clew_gui.views.sites.services import ServiceStatus
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import (
    Appearance,
    Button,
    Glyph,
    IconButton,
    Panel,
    column,
    label,
    native_keys,
    row,
    scrolling,
)
from clew_shared.base.harmless import for_tooltip

Row = TypeVar("Row", bound=QWidget)
_NOT_YET = "The node is not available yet"
_INDENT = 20
_TIPS = {
    "jupyter": "Start Jupyter on this node and show it in the browser here (Ctrl+J)",
    "terminal": "A terminal on this node, in its own window (Ctrl+Shift+T)",
}
_GLYPHS = {"wait": ("clock", "warn"), "open": ("link", "ok"), "over": ("unlink", "text3"), "bad": ("warn", "bad")}


def _small(*buttons: IconButton) -> tuple[IconButton, ...]:
    """Buttons that leave the room to the text beside them."""
    for button in buttons:
        button.setFixedSize(24, 24)
    return buttons


def match_rows(rows: dict[str, Row], wanted: Collection[str], make: Callable[[str], Row]) -> None:
    """Takes away the rows that nobody wants any more, and makes those that are new."""
    for gone in rows.keys() - set(wanted):
        rows.pop(gone).deleteLater()
    rows.update({name: make(name) for name in wanted if name not in rows})


class LoginRow(QWidget):
    """One site on which a person has to log in."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.text = label("", "caption", "2", wrap=True)
        self.log_in = Button(appearance, "Log in", "primarySmall", "key")
        sign = Glyph(appearance, "key", "warn", 14)
        row(sign, self.text, self.log_in, gap=6, grows=self.text, parent=self)

    def show_jobs(self, jobs: Sequence[JobModel]) -> None:
        """The jobs there that nobody follows meanwhile; why is in the tooltip."""
        self.text.setText(locked_words(jobs))
        found = next((job.locked for job in jobs if job.locked is not None), None)
        self.log_in.setToolTip(native_keys(f"{found.text} (Ctrl+I)") if found is not None else "")
        self.log_in.setAccessibleName(f"Log in to {jobs[0].title}")


class ServiceRow(QWidget):
    """Jupyter on a node: what state it is in, its address, the button to close it."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._glyph = Glyph(appearance, "clock", "warn", 14)
        self.text = label("", "caption", "2", wrap=True)
        self.show_again = IconButton(appearance, "eye", "Show Jupyter in the browser", size=14)
        tip = "Copy its address: anyone who has it can log in"
        self.copy = IconButton(appearance, "copy", "Copy the address of Jupyter", tip)
        self.close_it = IconButton(appearance, "cross", "Close Jupyter", "Close it here", size=14)
        items = (self._glyph, self.text, *_small(self.show_again, self.copy, self.close_it))
        row(*items, gap=4, margins=(_INDENT, 0, 0, 0), grows=self.text, parent=self)

    def show_status(self, status: ServiceStatus) -> None:
        """Bring it up to date."""
        state = "open" if status.url else "bad" if status.trouble is not None else "over" if status.over else "wait"
        self._glyph.set_glyph(*_GLYPHS[state])
        self.text.setText(status.text)
        self.text.setToolTip(for_tooltip(str(status.trouble)) if status.trouble is not None else "")
        self.show_again.setVisible(bool(status.url))
        self.copy.setVisible(bool(status.url))


class CommandRow(QWidget):
    """A command to type in a terminal of one's own, if none could be opened."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.text = label("No terminal opened: paste the command into one.", "caption", "2", wrap=True)
        self.copy = IconButton(appearance, "copy", "Copy the command", size=14)
        self.command = ""
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.command))
        self.close_it = IconButton(appearance, "cross", "Hide the command", size=14)
        items = (Glyph(appearance, "info", "text2", 14), self.text, *_small(self.copy, self.close_it))
        row(*items, gap=4, margins=(_INDENT, 0, 0, 0), grows=self.text, parent=self)


Ask = Callable[[str], object]
"""Asks for something about an allocation."""


class NodeRow(QWidget):
    """One allocation: where, until when, what it has cost, what can be opened on it, and the button to give it back.
    ``ask`` is called with "jupyter" or "terminal" to open it, with "copy" or "close" for Jupyter, or "let go"."""

    def __init__(self, appearance: Appearance, ask: Ask) -> None:
        super().__init__()
        self.text = label("", "caption", "2", wrap=True)
        self.let_go = Button(appearance, "Let go", "quiet", "", "Give this allocation back; what runs on it ends")
        self.let_go.clicked.connect(lambda: ask("let go"))
        line = row(Glyph(appearance, "server", "warn", 14), self.text, self.let_go, gap=6, grows=self.text)
        self.buttons = {kind: Button(appearance, kind.capitalize(), "quiet", "", tip) for kind, tip in _TIPS.items()}
        self.jupyter = ServiceRow(appearance)
        asked = {**self.buttons, "copy": self.jupyter.copy, "close": self.jupyter.close_it}
        for what, button in asked.items():
            button.clicked.connect(lambda _on=False, what=what: ask(what))
        self.jupyter.show_again.clicked.connect(self.buttons["jupyter"].click)
        self._openers = QWidget()
        row(*self.buttons.values(), None, gap=0, margins=(_INDENT - 10, 0, 0, 0), parent=self._openers)
        self.command = CommandRow(appearance)
        self.command.hide()
        self.command.close_it.clicked.connect(self.command.hide)
        column(line, self._openers, self.command, self.jupyter, gap=0, parent=self)

    def show_job(self, job: JobModel, status: ServiceStatus | None, now: float) -> None:
        """Bring it up to date."""
        self.text.setText(held_words(job, now))
        running = job.news.stage is JobStage.RUNNING
        self.let_go.setVisible((job.order.hold or is_idle(job)) and not job.news.over)
        self._openers.setVisible(not job.news.over)
        for button in self.buttons.values():
            button.allow(running, _NOT_YET)
        self.jupyter.setVisible(status is not None)
        if status is not None:
            self.jupyter.show_status(status)

    def show_command(self, text: str) -> None:
        """A command that a person types instead."""
        self.command.command = text
        self.command.text.setToolTip(text)
        self.command.copy.setToolTip(f"Copy: {text}")
        self.command.show()


class SiteBar(QWidget):
    """The lines about logins, held nodes and open services; hidden while there are none."""

    asked = Signal(str, str)
    """Asks for what ``NodeRow`` asks, of which job; or to "log in", on which site."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self.logins: dict[str, LoginRow] = {}
        """The lines of sites that need a login."""
        self.rows: dict[str, NodeRow] = {}
        """The lines of allocations, by job."""
        self._login_box = column(gap=2)
        self._node_box = column(gap=2)
        column(self._login_box, self._node_box, gap=4, margins=(0, 0, 0, 6), parent=self)
        self.hide()

    def show_logins(self, locked: Mapping[str, Sequence[JobModel]]) -> None:
        """The sites where nobody is logged in, with the jobs there."""
        match_rows(self.logins, locked, self._login_row)
        for site, jobs in locked.items():
            self.logins[site].show_jobs(jobs)
        self._appear()

    def _login_row(self, site: str) -> LoginRow:
        line = LoginRow(self._appearance)
        line.log_in.clicked.connect(lambda: self.asked.emit("log in", site))
        self._login_box.addWidget(line)
        return line

    def show_jobs(self, jobs: Sequence[JobModel], status: Mapping[str, ServiceStatus], now: float) -> None:
        """Bring the allocations up to date, with what is open on them."""
        match_rows(self.rows, [job.id for job in jobs], self._node_row)
        for job in jobs:
            self.rows[job.id].show_job(job, status.get(job.id), now)
        self._appear()

    def _node_row(self, job: str) -> NodeRow:
        line = NodeRow(self._appearance, lambda what: self.asked.emit(what, job))
        self._node_box.addWidget(line)
        return line

    def _appear(self) -> None:
        self.setVisible(bool(self.rows or self.logins))


# --- All jobs ---------------------------------------------------------------------------------------------------------


MOST_JOBS = 20
"""The number of jobs that are listed: those that are not over, and the latest others."""
_NO_JOBS = "No job was sent to a site yet. Choose one under Run on."


class JobRow(QWidget):
    """One job: which, how far it is, on which node and for how long; and *Cancel* while it is not over."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._glyph = Glyph(appearance, "server", "text3", 16)
        self.title = label("", "strong", wrap=True)
        self.text = label("", "caption", "2", wrap=True)
        self.end = Button(appearance, "Cancel", "quiet", "", "End it with all its runs, or take it from the queue")
        words = column(self.title, self.text, gap=1)
        row(self._glyph, words, self.end, gap=10, margins=(0, 5, 0, 5), grows=words, parent=self)

    def show_job(self, job: JobModel, runs: Sequence[int], now: float) -> None:
        """Brings it up to date; ``runs`` are the job's by number."""
        title, text, tone = job_lines(job, runs, now)
        self._glyph.set_glyph("server", tone)
        self.title.setText(title)
        self.text.setText(text)
        self.end.set_words("Let go" if job.order.hold else "Cancel")
        self.end.setVisible(not job.news.over)
        self.end.setAccessibleName(f"{self.end.text().strip()} {title}")
        self.setAccessibleName(f"{title}. {text}")


class JobsDialog(Dialog):
    """Lists the jobs; it is updated while it is open."""

    end_asked = Signal(str)

    def __init__(self, parent: QWidget, appearance: Appearance) -> None:
        super().__init__(parent, "Jobs on sites")
        self._appearance = appearance
        self.rows: dict[str, JobRow] = {}
        self.count = label("", "body", "2", wrap=True)
        self.add(self.count)
        inner = Panel()
        self._lines = column(None, gap=0, margins=(0, 0, 10, 0), parent=inner)
        area = scrolling(inner)
        self.add(area, 1)
        self.login = label("", "caption", "2", wrap=True)
        self.add(self.login)
        self.log_out = Button(appearance, "Log out", "", "key", "End the logins to all sites; jobs go on")
        self.log_out.setAutoDefault(False)
        close = self.close_button(appearance)
        self.finish(self.log_out, None, close)
        close.setFocus()
        self.resize(560, 440)

    def show_jobs(self, jobs: Sequence[JobModel], numbers: Mapping[str, Sequence[int]], now: float) -> None:
        """Brings the list up to date; the oldest of ``jobs`` is the first, ``numbers`` are those of each job's runs."""
        newest = list(reversed(jobs))
        begun = [job for job in newest if not job.news.over]
        shown = (begun + [job for job in newest if job.news.over])[: max(MOST_JOBS, len(begun))]
        match_rows(self.rows, [job.id for job in shown], self._row)
        for place, job in enumerate(shown):
            line = self.rows[job.id]
            if self._lines.indexOf(line) != place:
                self._lines.insertWidget(place, line)
            line.show_job(job, numbers.get(job.id, ()), now)
        older = len(jobs) - len(shown)
        left = f"; {older} older ones are not shown" if older else ""
        self.count.setText(f"{len(begun)} under way, {len(jobs) - len(begun)} over{left}." if jobs else _NO_JOBS)

    def _row(self, job: str) -> JobRow:
        line = JobRow(self._appearance)
        line.end.clicked.connect(lambda: self.end_asked.emit(job))
        return line

    def show_login(self, sentence: str) -> None:
        """Says where a person is logged in, and for how long."""
        self.login.setText(sentence)
