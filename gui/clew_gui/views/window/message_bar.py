"""The strip under the top bar: what went wrong, why, what to do now; can be copied. Also notes with an undo."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QWidget

from clew_gui.views.theme.parts import Appearance, Button, Glyph, IconButton, column, label, row, tab_from
from clew_gui.views.theme.parts import set_role as set_property
from clew_shared.base.problem import Problem

NOTE_MS = 20_000
_POINTED_MS = 2_000
_MOST = 50


class _Strip(QFrame):
    """What a message is shown with: shape, sentence, hint, what can be done with it."""

    def __init__(self, look: Appearance) -> None:
        super().__init__()
        self.glyph = Glyph(look, "s_failed", "bad", 16)
        self.text = label("", "strong", wrap=True)
        self.hint = label("", "body", "2", wrap=True)
        self.count = label("", "caption", "3")
        self.undo = Button(look, "Undo", "quiet", "reset", "Undo the last action (Ctrl+Z)")
        self.copy = IconButton(look, "copy", "Copy the message")
        self.gone = IconButton(look, "cross", "Dismiss the message", size=14)
        texts = column(self.text, self.hint, gap=2)
        items = (self.glyph, texts, self.count, self.undo, self.copy, self.gone)
        row(*items, gap=10, margins=(14, 6, 8, 6), parent=self).setStretch(1, 1)


class MessageBar(QWidget):
    """One message at a time, the newest first; older ones come back when it is dismissed."""

    def __init__(self, look: Appearance) -> None:
        super().__init__()
        self._problems: list[Problem] = []
        self._noted = False
        self._undo: Callable[[], None] | None = None
        self._lapse: Callable[[], None] | None = None
        self._look = look
        self._made: _Strip | None = None
        self._place = column(margins=(16, 8, 16, 0), parent=self)
        self._timer = QTimer(self)
        self._timer.setObjectName("message lapse")
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._note_is_over)
        self.hide()

    @property
    def _strip(self) -> _Strip:
        """Made for the first message: mostly there is none."""
        if self._made is None:
            self._made = _Strip(self._look)
            self._made.undo.clicked.connect(self.undo)
            self._made.copy.clicked.connect(self.copy)
            self._made.gone.clicked.connect(self.dismiss)
            self._place.addWidget(self._made)
            tab_from(self, self._made)
        return self._made

    # --- Problems -----------------------------------------------------------------------------------------------------

    def show_problems(self, problems: tuple[Problem, ...]) -> None:
        """Add problems; the same one twice in a row is shown once."""
        for found in problems:
            if not self._problems or self._problems[-1] != found:
                self._problems.append(found)
        del self._problems[:-_MOST]
        self._show()

    def problems(self) -> tuple[Problem, ...]:
        """What is waiting to be read, newest last."""
        return tuple(self._problems)

    def _show(self) -> None:
        if not self._problems:
            self.setVisible(self._noted)
            return
        self.lapse()
        now = self._problems[-1]
        more = len(self._problems) - 1
        self._dress("badNote", "s_failed", "bad", now.text, now.hint)
        self._strip.count.setText(f"{more} more" if more else "")
        self._strip.undo.hide()
        self._strip.copy.show()
        self.show()

    def _dress(self, role: str, glyph: str, tone: str, text: str, hint: str) -> None:
        set_property(self._strip, role)
        self._strip.glyph.set_glyph(glyph, tone)
        self._strip.text.setText(text)
        self._strip.hint.setText(hint)
        self._strip.hint.setVisible(bool(hint))
        self._strip.count.setText("")
        self.setAccessibleName(f"Message: {text} {hint}".strip())

    def copy(self) -> None:
        """The message as text, with its code, to the clipboard."""
        now = self._problems[-1] if self._problems else None
        if now is not None:
            parts = [now.text, now.hint, f"({now.code}{', ' + now.where if now.where else ''})"]
            QGuiApplication.clipboard().setText("\n".join(part for part in parts if part))

    def dismiss(self) -> None:
        """Read; the one before it comes back."""
        if self._noted:
            self.lapse()
        elif self._problems:
            self._problems.pop()
        self._show()

    # --- Notes --------------------------------------------------------------------------------------------------------

    def show_note(
        self, text: str, hint: str = "", undo: Callable[[], None] | None = None, lapse: Callable[[], None] | None = None
    ) -> None:
        """A sentence that goes away by itself. ``lapse`` is called when it does without an ``undo``."""
        self.lapse()
        self._undo, self._lapse, self._noted = undo, lapse, True
        self._dress("note", "info", "accent", text, hint)
        self._strip.undo.setVisible(undo is not None)
        self._strip.copy.hide()
        self.show()
        self._timer.start(NOTE_MS)

    def undo(self) -> None:
        """Take back what the note is about."""
        undo, self._undo, self._lapse, self._noted = self._undo, None, None, False
        self._timer.stop()
        if undo is not None:
            undo()
        self._show()

    def lapse(self) -> None:
        """The time to take it back is over."""
        lapse, self._undo, self._lapse, self._noted = self._lapse, None, None, False
        self._timer.stop()
        if lapse is not None:
            lapse()
        if not self._problems:
            self.hide()

    def _note_is_over(self) -> None:
        """The problem that stood there before the note comes back. Not while someone points at it: what is below would
        move under the pointer, and the click would hit something else."""
        if self.underMouse():
            self._timer.start(_POINTED_MS)
            return
        self.lapse()
        self._show()
