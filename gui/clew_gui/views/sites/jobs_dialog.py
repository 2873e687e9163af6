"""The jobs on all sites with the way to end them, and the logins that stay with the way to log out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from clew_gui.session.job_links import JobModel
from clew_gui.views.presentation.job_words import job_lines
from clew_gui.views.sites.site_bar import match_rows
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Appearance, Button, Glyph, column, label, panel, row, scrolling

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
        box = row(self._glyph, words, self.end, gap=10, margins=(0, 5, 0, 5), parent=self)
        box.setStretch(1, 1)

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
    log_out_asked = Signal()

    def __init__(self, parent: QWidget, appearance: Appearance) -> None:
        super().__init__(parent, "Jobs on sites")
        self._appearance = appearance
        self.rows: dict[str, JobRow] = {}
        self.count = label("", "body", "2", wrap=True)
        self.add(self.count)
        inner = panel()
        self._lines = column(None, gap=0, margins=(0, 0, 10, 0), parent=inner)
        area = scrolling(inner)
        self.add(area, 1)
        self.login = label("", "caption", "2", wrap=True)
        self.add(self.login)
        self.log_out = Button(appearance, "Log out", "", "key", "End the logins to all sites; jobs go on")
        self.log_out.setAutoDefault(False)
        self.log_out.clicked.connect(self.log_out_asked)
        close = Button(appearance, "Close", "primarySmall")
        close.setDefault(True)
        close.clicked.connect(self.accept)
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
