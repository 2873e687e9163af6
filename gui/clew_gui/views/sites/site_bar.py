"""The lines about sites above Run: logins that are needed, the nodes that are held, and what is open on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from clew_gui.jobs.job import JobStage
from clew_gui.session.job_links import JobModel
from clew_gui.views.presentation.job_words import held_words, is_idle, locked_words
from clew_gui.views.sites.services import TITLES, ServiceStatus
from clew_gui.views.theme.parts import Appearance, Button, Glyph, IconButton, column, label, native_keys, row
from clew_shared.base.harmless import for_tooltip

_NOT_YET = "The node is not available yet"
_INDENT = 20
_TIPS = {
    "jupyter": "Start Jupyter on this node and show it in the browser here (Ctrl+J)",
    "tensorboard": "Start TensorBoard on this node and show it in the browser here (Ctrl+Shift+B)",
}
_GLYPHS = {"wait": ("clock", "warn"), "open": ("link", "ok"), "over": ("unlink", "text3"), "bad": ("warn", "bad")}


def _small(*buttons: IconButton) -> tuple[IconButton, ...]:
    """Buttons that leave the room to the text beside them."""
    for button in buttons:
        button.setFixedSize(24, 24)
    return buttons


class LoginRow(QWidget):
    """One site on which a person has to log in."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.text = label("", "caption", "2", wrap=True)
        self.log_in = Button(appearance, "Log in", "primarySmall", "key")
        row(Glyph(appearance, "key", "warn", 14), self.text, self.log_in, gap=6, parent=self).setStretch(1, 1)

    def show_jobs(self, jobs: Sequence[JobModel]) -> None:
        """The jobs there that nobody follows meanwhile; why is in the tooltip."""
        self.text.setText(locked_words(jobs))
        found = next((job.locked for job in jobs if job.locked is not None), None)
        self.log_in.setToolTip(native_keys(f"{found.text} (Ctrl+I)") if found is not None else "")
        self.log_in.setAccessibleName(f"Log in to {jobs[0].title}")


class ServiceRow(QWidget):
    """One service on a node: what state it is in, its address, the button to close it."""

    def __init__(self, appearance: Appearance, kind: str) -> None:
        super().__init__()
        title = TITLES[kind]
        self._glyph = Glyph(appearance, "clock", "warn", 14)
        self.text = label("", "caption", "2", wrap=True)
        self.show_again = IconButton(appearance, "eye", f"Show {title} in the browser", size=14)
        self.copy = IconButton(
            appearance, "copy", f"Copy the address of {title}", "Copy its address: anyone who has it can log in"
        )
        self.close_it = IconButton(appearance, "cross", f"Close {title}", "Close it here", size=14)
        items = (self._glyph, self.text, *_small(self.show_again, self.copy, self.close_it))
        row(*items, gap=4, margins=(_INDENT, 0, 0, 0), parent=self).setStretch(1, 1)

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
        row(*items, gap=4, margins=(_INDENT, 0, 0, 0), parent=self).setStretch(1, 1)


class NodeRow(QWidget):
    """One allocation: where, until when, what it has cost, what can be opened on it, and the button to give it back."""

    opened = Signal(str)
    """Asks for Jupyter, TensorBoard or ``terminal``."""
    shown = Signal(str)
    copied = Signal(str)
    closed = Signal(str)

    def __init__(self, appearance: Appearance, job: str) -> None:
        super().__init__()
        self._appearance = appearance
        self.job = job
        self.text = label("", "caption", "2", wrap=True)
        self.let_go = Button(appearance, "Let go", "quiet", "", "Give this allocation back; what runs on it ends")
        line = row(Glyph(appearance, "server", "warn", 14), self.text, self.let_go, gap=6)
        line.setStretch(1, 1)
        self.buttons = {kind: Button(appearance, title, "quiet", "", _TIPS[kind]) for kind, title in TITLES.items()}
        tip = "A terminal on this node, in its own window (Ctrl+Shift+T)"
        self.buttons["terminal"] = Button(appearance, "Terminal", "quiet", "", tip)
        for kind, button in self.buttons.items():
            button.clicked.connect(lambda _on=False, kind=kind: self.opened.emit(kind))
        self._doors = QWidget()
        row(*self.buttons.values(), None, gap=0, margins=(_INDENT - 10, 0, 0, 0), parent=self._doors)
        self.command = CommandRow(appearance)
        self.command.hide()
        self.command.close_it.clicked.connect(self.command.hide)
        self._services: dict[str, ServiceRow] = {}
        self._box = column(line, self._doors, self.command, gap=0, parent=self)

    def show_job(self, job: JobModel, status: Sequence[ServiceStatus], now: float) -> None:
        """Bring it up to date."""
        self.text.setText(held_words(job, now))
        running = job.news.stage is JobStage.RUNNING
        self.let_go.setVisible((job.order.hold or is_idle(job)) and not job.news.over)
        self._doors.setVisible(not job.news.over)
        for button in self.buttons.values():
            button.allow(running, _NOT_YET)
        wanted = {one.kind: one for one in status}
        for kind in [known for known in self._services if known not in wanted]:
            self._services.pop(kind).deleteLater()
        for kind, one in wanted.items():
            if kind not in self._services:
                self._services[kind] = self._service_row(kind)
            self._services[kind].show_status(one)

    def show_command(self, text: str) -> None:
        """A command that a person types instead."""
        self.command.command = text
        self.command.text.setToolTip(text)
        self.command.copy.setToolTip(f"Copy: {text}")
        self.command.show()

    def service(self, kind: str) -> ServiceRow:
        """The line of one service."""
        return self._services[kind]

    def _service_row(self, kind: str) -> ServiceRow:
        line = ServiceRow(self._appearance, kind)
        line.show_again.clicked.connect(lambda: self.shown.emit(kind))
        line.copy.clicked.connect(lambda: self.copied.emit(kind))
        line.close_it.clicked.connect(lambda: self.closed.emit(kind))
        self._box.addWidget(line)
        return line


class SiteBar(QWidget):
    """The lines about logins, held nodes and open services; hidden while there are none."""

    log_in_asked = Signal(str)
    let_go_asked = Signal(str)
    opened = Signal(str, str)
    shown = Signal(str, str)
    copied = Signal(str, str)
    closed = Signal(str, str)

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self._logins: dict[str, LoginRow] = {}
        self._rows: dict[str, NodeRow] = {}
        self._login_box = column(gap=2)
        self._node_box = column(gap=2)
        column(self._login_box, self._node_box, gap=4, margins=(0, 0, 0, 6), parent=self)
        self.hide()

    def show_logins(self, locked: Mapping[str, Sequence[JobModel]]) -> None:
        """The sites where nobody is logged in, with the jobs there."""
        for site in [known for known in self._logins if known not in locked]:
            self._logins.pop(site).deleteLater()
        for site, jobs in locked.items():
            if site not in self._logins:
                self._logins[site] = line = LoginRow(self._appearance)
                line.log_in.clicked.connect(lambda _on=False, site=site: self.log_in_asked.emit(site))
                self._login_box.addWidget(line)
            self._logins[site].show_jobs(jobs)
        self._appear()

    def show_jobs(self, jobs: Sequence[JobModel], status: Mapping[str, Sequence[ServiceStatus]], now: float) -> None:
        """Bring the allocations up to date, with what is open on them."""
        wanted = {job.id: job for job in jobs}
        for job in [known for known in self._rows if known not in wanted]:
            self._rows.pop(job).deleteLater()
        for job, model in wanted.items():
            if job not in self._rows:
                self._rows[job] = self._node_row(job)
            self._rows[job].show_job(model, status.get(job, ()), now)
        self._appear()

    def _node_row(self, job: str) -> NodeRow:
        line = NodeRow(self._appearance, job)
        line.let_go.clicked.connect(lambda: self.let_go_asked.emit(job))
        for name in ("opened", "shown", "copied", "closed"):
            getattr(line, name).connect(lambda kind, name=name: getattr(self, name).emit(job, kind))
        self._node_box.addWidget(line)
        return line

    def _appear(self) -> None:
        self.setVisible(bool(self._rows or self._logins))

    def rows(self) -> list[NodeRow]:
        """The lines of allocations."""
        return list(self._rows.values())

    def logins(self) -> dict[str, LoginRow]:
        """The lines of sites that need a login."""
        return dict(self._logins)
