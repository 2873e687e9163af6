"""Shows how far the sweep of the selected run is: a line above the plots, with buttons that control all of its runs."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QMenu, QToolButton

from clew_gui.views.theme.parts import Appearance, Button, Elided, IconButton, label, row


class SweepBar(QFrame):
    """Offers to pause or resume, move, cancel or continue a sweep. Says what a person wants; someone else does it."""

    paused = Signal()
    resumed = Signal()
    first_asked = Signal()
    last_asked = Signal()
    cancelled = Signal()
    continued = Signal()
    closed = Signal()

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._rests = False
        self.title = label("", "strong")
        self.sentence = Elided("", "body", "2")
        self.pause = Button(appearance, "Pause", "", "pause", "Pause the run that trains; the others wait for it")
        self.pause.clicked.connect(lambda: (self.resumed if self._rests else self.paused).emit())
        self.order = IconButton(appearance, "dots", "Order of the sweep", "When the waiting runs of this sweep start")
        self.order.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.order)
        menu.addAction("Start this sweep before all other waiting runs").triggered.connect(self.first_asked)
        menu.addAction("Let all other waiting runs go first").triggered.connect(self.last_asked)
        self.order.setMenu(menu)
        self.end = Button(appearance, "Cancel the sweep", "danger", "stop", "Stop its runs; it can be continued later")
        self.end.clicked.connect(self.cancelled)
        self.go_on = Button(
            appearance, "Continue sweep", "", "play", "Do what is left of this sweep; nothing runs twice"
        )
        self.go_on.clicked.connect(self.continued)
        close = IconButton(appearance, "cross", "Hide the sweep", "Hide this line; the runs stay", size=14)
        close.clicked.connect(self.closed)
        parts = (self.title, self.sentence, self.pause, self.go_on, self.end, self.order, close)
        row(*parts, gap=8, margins=(14, 5, 8, 6), parent=self)
        self.hide()

    def show_sweep(self, title: str, sentence: str, *, going: bool, rests: bool, waits: bool, left: bool) -> None:
        """``going``: runs are under way, of which one ``rests`` (is paused), and others ``wait`` in this computer's
        queue; ``left``: there is something to continue."""
        self.title.setText(title)
        self.sentence.set_text(sentence)
        if rests != self._rests:
            self._rests = rests
            self.pause.set_words("Resume" if rests else "Pause")
            self.pause.set_glyph("play" if rests else "pause")
        self.pause.setVisible(going)
        self.order.setVisible(waits)
        self.end.setVisible(going)
        self.go_on.setVisible(left and not going)
        self.setAccessibleName(f"{title}: {sentence}")
