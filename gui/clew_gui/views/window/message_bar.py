"""Messages that lie over the window and move nothing: what went wrong, why, what to do now; and notes with an undo."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec
from PySide6.QtCore import QEvent, QObject, QPoint, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QWidget

from clew_gui.views.presentation.menu_entries import MOST_BUTTONS, Remedies, RemedyButton
from clew_gui.views.theme.parts import Appearance, Button, Glyph, IconButton, column, label, row
from clew_gui.views.theme.parts import set_role as set_property
from clew_shared.base.problem import Problem

NOTE_MS = 20_000
_POINTED_MS = 2_000
_MOST = 50
_WIDEST = 720
_MARGIN = 16


class _Message(msgspec.Struct, frozen=True):
    """A problem, with the exercise and the run that it is about; empty for the window as a whole."""

    problem: Problem
    run: str = ""
    exercise: str = ""


class _MessageLine(QFrame):
    """The widget of a message: shape, sentence, hint, and buttons for what can be done."""

    pressed = Signal(int)
    """Emitted when the remedy at this place was pressed."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.glyph = Glyph(appearance, "s_failed", "bad", 16)
        self.text = label("", "strong", wrap=True)
        self.hint = label("", "body", "2", wrap=True)
        self.count = label("", "caption", "3")
        self.help = Button(appearance, "Show log")
        self.help.clicked.connect(lambda: self.pressed.emit(0))
        self.undo = Button(appearance, "Undo", "quiet", "reset", "Undo the last action (Ctrl+Z)")
        self.more: list[Button] = []
        self._appearance = appearance
        self.copy = IconButton(appearance, "copy", "Copy the message")
        self.gone = IconButton(appearance, "cross", "Dismiss the message", size=14)
        self._below = QWidget()
        self._ways = row(None, gap=8, margins=(0, 5, 0, 2), parent=self._below)
        texts = column(self.text, self.hint, self._below, gap=2)
        items = (self.glyph, texts, self.count, self.help, self.undo, self.copy, self.gone)
        self._line = row(*items, gap=10, margins=(14, 8, 8, 8), grows=texts, parent=self)
        self.show_buttons(())

    def show_buttons(self, buttons: Sequence[RemedyButton]) -> None:
        """Shows the remedies: one beside the sentences, several below them."""
        several = len(buttons) > 1
        beside = self._line.indexOf(self.help) >= 0
        if several and beside:
            self._line.removeWidget(self.help)
            self._ways.insertWidget(0, self.help)
        elif not several and not beside:
            self._line.insertWidget(self._line.indexOf(self.undo), self.help)
        while len(self.more) < len(buttons) - 1:
            button = Button(self._appearance, "")
            place = len(self.more) + 1
            button.clicked.connect(lambda _checked=False, place=place: self.pressed.emit(place))
            self._ways.insertWidget(place, button)
            QWidget.setTabOrder(self.more[-1] if self.more else self.help, button)
            self.more.append(button)
        for place, button in enumerate((self.help, *self.more)):
            button.setVisible(place < len(buttons))
            if place < len(buttons):
                button.set_words(buttons[place].text)
        self._below.setVisible(several)

    def fit(self) -> None:
        """Measure again: a layout keeps the heights that it had with other words or buttons."""
        for layout in (self._ways, self._line):
            layout.invalidate()
            layout.activate()


class MessageBar(QWidget):
    """Shows one message at a time, the newest first; older ones come back when it is dismissed.

    It lies over the lower end of ``over``, whose widgets stay where they are. A problem stays until it is read, and is
    shown only while its exercise is open; ``remedies`` gives the buttons that help.
    """

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._messages: list[_Message] = []
        self._exercise = ""
        self._noted, self._noted_in = False, ""
        """Whether a note is shown, and the exercise that it belongs to; empty: none."""
        self._buttons: Sequence[RemedyButton] = ()
        self._undo: Callable[[], None] | None = None
        self._lapse: Callable[[], None] | None = None
        self.line = _MessageLine(appearance)
        self.line.pressed.connect(self._help)
        self.line.undo.clicked.connect(self.undo)
        self.line.copy.clicked.connect(self.copy)
        self.line.gone.clicked.connect(self.dismiss)
        self._over: QWidget | None = None
        self._place = column(self.line, parent=self)
        self.remedies: Remedies = lambda _problem, _run: ()
        self._timer = QTimer(self)
        self._timer.setObjectName("message lapse")
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._note_is_over)
        self.hide()

    # --- Its place ----------------------------------------------------------------------------------------------------

    def lie_over(self, over: QWidget, whole: QWidget) -> None:
        """Becomes a child of ``whole`` and lies over the lower end of ``over``."""
        self._over = over
        self.setParent(whole)
        for widget in (over, whole):
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow what it lies over."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Move) and self.isVisible():
            QTimer.singleShot(0, self, self._put)
        return super().eventFilter(watched, event)

    def _put(self) -> None:
        over, whole = self._over, self.parentWidget()
        if over is None or whole is None:
            return
        width = min(_WIDEST, over.width() - 2 * _MARGIN)
        self.line.fit()
        self._place.invalidate()
        self._place.activate()
        height = max(self.heightForWidth(width), self.minimumSizeHint().height())
        corner = over.mapTo(whole, QPoint((over.width() - width) // 2, over.height() - height - _MARGIN))
        self.setGeometry(corner.x(), corner.y(), width, height)
        self.raise_()

    # --- Problems -----------------------------------------------------------------------------------------------------

    def show_problems(self, problems: Iterable[Problem], run: str = "", exercise: str = "") -> None:
        """Add problems, each once, the newest last. ``run`` and ``exercise`` say what they are about."""
        for found in problems:
            new = _Message(found, run, exercise)
            self._messages = [*(one for one in self._messages if one != new), new]
        del self._messages[:-_MOST]
        self._show()

    def problems(self) -> tuple[Problem, ...]:
        """Returns the problems that wait to be read, newest last."""
        return tuple(one.problem for one in self._messages)

    def open_exercise(self, exercise: str) -> None:
        """Show what belongs to another exercise; the rest waits until its own is opened again. A note stays only if
        something that belongs to no exercise can still be taken back with it."""
        self._exercise = exercise
        if self._noted and (self._undo is None or self._noted_in not in ("", exercise)):
            self.lapse()
        if not self._noted:
            self._show()

    def forget(self, run: str) -> None:
        """Drops the messages about a run that is gone, or goes on."""
        self._drop(lambda one: one.run == run)

    def begin_run(self, exercise: str) -> None:
        """Drops the messages about earlier runs of an exercise, and about what kept one from being asked for."""
        self._drop(lambda one: one.exercise == exercise)

    def lapse_of(self, kind: str) -> None:
        """Drop problems whose code begins so: what they are about was read again."""
        self._drop(lambda one: one.problem.code.startswith(kind))

    def lapse_about(self, nodes: str) -> None:
        """Drop problems that name this node, which a person gave back; why a run failed there stays."""
        named = re.compile(rf"(?<!\w){re.escape(nodes)}(?!\w)")
        self._drop(lambda one: not one.run and named.search(one.problem.text) is not None)

    def _drop(self, is_past: Callable[[_Message], bool]) -> None:
        self._messages = [one for one in self._messages if not is_past(one)]
        if not self._noted:
            self._show()

    def _here(self) -> list[_Message]:
        return [one for one in self._messages if one.exercise in ("", self._exercise)]

    def _show(self) -> None:
        here = self._here()
        if not here:
            self.setVisible(self._noted)
            return
        self.lapse()
        now, more = here[-1], len(here) - 1
        self._dress("badNote", "s_failed", "bad", now.problem.text, now.problem.hint, now.problem.why())
        self.line.count.setText(f"{more} more" if more else "")
        self._offer(self.remedies(now.problem, now.run)[:MOST_BUTTONS])
        self.line.undo.hide()
        self.line.copy.show()
        self.show()
        self._put()

    def _dress(self, role: str, glyph: str, tone: str, text: str, hint: str, more: str = "") -> None:
        set_property(self.line, role)
        self.line.glyph.set_glyph(glyph, tone)
        self.line.text.setText(text)
        self.line.text.setToolTip(more)
        self.line.hint.setText(hint)
        self.line.hint.setVisible(bool(hint))
        self.line.count.setText("")
        self.setAccessibleName(f"Message: {text} {hint}".strip())

    def _offer(self, buttons: Sequence[RemedyButton]) -> None:
        self._buttons = buttons
        self.line.show_buttons(buttons)

    def _help(self, place: int) -> None:
        """Do what helps; the message has been read."""
        button = self._buttons[place]
        self.dismiss()
        button.act()

    def copy(self) -> None:
        """The message as text, with its code, to the clipboard."""
        here = self._here()
        if self._noted:
            QGuiApplication.clipboard().setText(self.line.text.text())
        elif here:
            now = here[-1].problem
            parts = [now.text, now.hint, f"({now.where})" if now.where else "", now.why()]
            QGuiApplication.clipboard().setText("\n".join(part for part in parts if part))

    def dismiss(self) -> None:
        """Removes the message that was read; the one before it comes back."""
        if self._noted:
            self.lapse()
        elif self._here():
            self._messages.remove(self._here()[-1])
        self._show()

    # --- Notes --------------------------------------------------------------------------------------------------------

    def show_note(
        self,
        text: str,
        hint: str = "",
        undo: Callable[[], None] | None = None,
        lapse: Callable[[], None] | None = None,
        *,
        exercise: str = "",
        buttons: Sequence[RemedyButton] = (),
    ) -> None:
        """A sentence that goes away by itself; a text of several lines, such as a server's, stays until it is
        dismissed. ``lapse`` is called when it goes without an ``undo``; it goes when another exercise than
        ``exercise`` is opened, if that is not empty."""
        self.lapse()
        self._undo, self._lapse, self._noted, self._noted_in = undo, lapse, True, exercise
        self._dress("note", "info", "accent", text, hint)
        self.line.undo.setVisible(undo is not None)
        self._offer(buttons)
        self.line.copy.setVisible("\n" in text)
        self.show()
        self._put()
        if "\n" not in text:
            self._timer.start(NOTE_MS)

    def undo(self) -> None:
        """Take back what the note is about."""
        undo, self._undo, self._lapse, self._noted = self._undo, None, None, False
        self._timer.stop()
        if undo is not None:
            undo()
        self._show()

    def lapse(self) -> None:
        """Ends the time in which the action can be undone."""
        lapse, self._undo, self._lapse, self._noted = self._lapse, None, None, False
        self._timer.stop()
        if lapse is not None:
            lapse()
        if not self._here():
            self.hide()

    def _note_is_over(self) -> None:
        """The problem that was there before the note comes back. Not while someone points at it: the click would hit
        what is below."""
        if self.underMouse():
            self._timer.start(_POINTED_MS)
            return
        self.lapse()
        self._show()
