"""Questions of logins reach the person in front of the window: asked from any thread, one dialog at a time."""

from __future__ import annotations

import threading
from collections import deque

from PySide6.QtCore import QObject, Qt, QThread, Signal
from PySide6.QtWidgets import QApplication, QWidget

from clew_gui.remote.prompts import ANSWER_WITHIN_S, Prompt
from clew_gui.views.dialog import Dialog
from clew_gui.views.parts import Look
from clew_gui.views.sites.prompt_dialogs import prompt_dialog


class _Question:
    """One question on its way. ``over`` is set when it was answered, or nobody waits for the answer any more."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.answer: str | None = None
        self.over = threading.Event()


class WindowPrompter(QObject):
    """A ``Prompter`` whose dialogs belong to ``window``. Nothing that was typed is kept.

    ``close`` lets every thread go that waits for an answer, and answers all later questions with None.
    """

    told = Signal(str)
    """Something that needs no answer."""
    _news = Signal()

    def __init__(self, look: Look, window: QWidget, patience_s: float = ANSWER_WITHIN_S) -> None:
        super().__init__(window)
        self._look, self._window, self._patience = look, window, patience_s
        self._lock = threading.Lock()
        self._waiting: deque[_Question] = deque()
        self._closed = False
        self._current: _Question | None = None
        self.dialog: Dialog | None = None
        """The one that is open."""
        self._news.connect(self._look_again, Qt.ConnectionType.QueuedConnection)

    # --- In any thread ------------------------------------------------------------------------------------------------

    def ask(self, prompt: Prompt) -> str | None:
        """The answer; None when the person cancelled, did not answer for minutes, or the window closed."""
        if QThread.currentThread() is self.thread():
            raise RuntimeError("asked from the window's own thread, which would wait for itself")
        question = _Question(prompt)
        with self._lock:
            if self._closed:
                return None
            self._waiting.append(question)
        self._news.emit()
        if not question.over.wait(self._patience):
            question.over.set()
            self._news.emit()
        return question.answer

    def tell(self, text: str) -> None:
        """See ``Tells``."""
        with self._lock:
            if not self._closed:
                self.told.emit(text)

    # --- In the window's thread ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask no more; the threads that wait get None."""
        with self._lock:
            self._closed = True
            waiting = [*self._waiting, *([self._current] if self._current is not None else [])]
            self._waiting.clear()
        for question in waiting:
            question.over.set()
        self._look_again()

    def _look_again(self) -> None:
        """Take a dialog away that nobody waits for, and show the next question."""
        if self._current is not None and self._current.over.is_set() and self.dialog is not None:
            self.dialog.reject()
        if self._current is None:
            question = self._next()
            if question is not None:
                self._show(question)

    def _next(self) -> _Question | None:
        with self._lock:
            while self._waiting:
                question = self._waiting.popleft()
                if not question.over.is_set():
                    return question
        return None

    def _show(self, question: _Question) -> None:
        parent = QApplication.activeModalWidget() or self._window
        dialog = prompt_dialog(parent, self._look, question.prompt)
        self._current, self.dialog = question, dialog
        dialog.answered.connect(lambda answer: self._answered(question, answer))
        dialog.finished.connect(lambda _code: self._finished(question))
        dialog.destroyed.connect(lambda: self._finished(question))  # with the dialog that it stood in front of
        dialog.open()
        QApplication.alert(self._window)  # it may be behind others: the server does not wait for long
        dialog.raise_()
        dialog.activateWindow()

    def _answered(self, question: _Question, answer: str) -> None:
        if not question.over.is_set():
            question.answer = answer

    def _finished(self, question: _Question) -> None:
        question.over.set()
        if self._current is question:
            self._current, self.dialog = None, None
            self._news.emit()
