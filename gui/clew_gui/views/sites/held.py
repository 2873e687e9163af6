"""Allocations that are held for many runs: asked for with their cost, in sight until they end or are let go."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from clew_gui.remote.allocation import Allocation, node_hours, seconds_asked, summary
from clew_gui.views.parts import Button, Glyph, Look, column, frame, label, row
from clew_gui.views.sites.job_words import JobLike, held_words
from clew_gui.views.sites.prompt_dialogs import Snug


class HoldDialog(Snug):
    """Says what is asked for and what it counts; ``accepted`` when the person wants it."""

    def __init__(self, parent: QWidget, look: Look, title: str, asked: Allocation) -> None:
        super().__init__(parent, f"Hold a node of {title}?")
        sentence = "It waits in the queue once. Then run after run begins there at once, until its time is up."
        self.add(label(sentence, "body", "2", wrap=True))
        long = bool(seconds := seconds_asked(asked))
        cost = f"Counts up to {node_hours(asked.nodes, seconds)}, whether something runs or not." if long else ""
        no_limit = "No time limit is set, so the site's own holds: set one under Job to be sure of the cost."
        lines = column(
            label(summary(asked), "strong", wrap=True), label(cost or no_limit, "body", "2", wrap=True), gap=3
        )
        lines.setContentsMargins(14, 10, 14, 10)
        self.add(frame("sunken" if long else "warnNote", lines))
        self.add(label("Let it go when you are done: then it counts no more.", "caption", "3", wrap=True))
        no = Button(look, "Cancel")
        no.setAutoDefault(False)
        no.clicked.connect(self.reject)
        self.yes = Button(look, "Hold it", "primarySmall")
        self.yes.setDefault(True)
        self.yes.clicked.connect(self.accept)
        self.finish(None, no, self.yes)


class HeldRow(QWidget):
    """One allocation: where, until when, what it has cost, and the way to give it back."""

    def __init__(self, look: Look, job: str) -> None:
        super().__init__()
        self.text = label("", "caption", "2", wrap=True)
        self.let_go = Button(look, "Let go", "quiet", "", "Give this allocation back; what runs on it ends")
        line = row(Glyph(look, "server", "warn", 14), self.text, self.let_go, gap=6, parent=self)
        line.setStretch(1, 1)
        self.job = job


class HeldStrip(QWidget):
    """All that is held, a line each; not there while nothing is."""

    let_go_asked = Signal(str)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._rows: dict[str, HeldRow] = {}
        self._box = column(gap=2, margins=(0, 0, 0, 6), parent=self)
        self.hide()

    def show_jobs(self, jobs: Sequence[JobLike], now: float) -> None:
        """Bring the lines up to date."""
        wanted = {job.id: job for job in jobs}
        for job in [known for known in self._rows if known not in wanted]:
            self._rows.pop(job).deleteLater()
        for job, model in wanted.items():
            if job not in self._rows:
                self._rows[job] = line = HeldRow(self._look, job)
                line.let_go.clicked.connect(lambda _on=False, j=job: self.let_go_asked.emit(j))
                self._box.addWidget(line)
            self._rows[job].text.setText(held_words(model, now))
        self.setVisible(bool(wanted))

    def rows(self) -> list[HeldRow]:
        """The lines."""
        return list(self._rows.values())
