"""An allocation that is held for many runs is asked for with its cost."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from clew_gui.remote.allocation import Allocation, node_hours, seconds_asked, summary
from clew_gui.views.parts import Button, Look, column, frame, label
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
