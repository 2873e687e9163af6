"""Questions about sites: those of logins, asked from any thread, one dialog at a time; consent, the job script, and
whether to hold a node.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Qt, QThread, Signal
from PySide6.QtGui import QFontMetricsF, QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QPlainTextEdit, QSizePolicy, QWidget

from clew_gui.schedulers.allocation import AllocationRequest, node_hours, seconds_asked, summary
from clew_gui.sites.consent import OwnWords, consents, words_of
from clew_gui.sites.hops import way_to
from clew_gui.sites.site import Site, is_local
from clew_gui.ssh.config import resolve
from clew_gui.ssh.prompts import ANSWER_WITHIN_S, Prompt, Prompter, PromptKind, plain
from clew_gui.views.presentation.words import about
from clew_gui.views.theme.dialog import Dialog, FittedDialog, Question
from clew_gui.views.theme.parts import (
    Appearance,
    Button,
    CodeText,
    Glyph,
    IconButton,
    column,
    frame,
    label,
    row,
    set_role,
)
from clew_gui.views.theme.theme import font
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem


class _Question:
    """A question that waits for its answer. ``over`` is set once it is answered, or nobody waits for the answer any
    more. A login stays for ``stays_s`` seconds after its last use; 0: as long as the program runs."""

    def __init__(self, prompt: Prompt, stays_s: int = 0) -> None:
        self.prompt, self.stays_s = prompt, stays_s
        self.answer: str | None = None
        self.over = threading.Event()


class WindowPrompter(QObject, Prompter):
    """Asks in dialogs that belong to ``window``. Nothing that was typed is kept.

    ``stays_s`` says, from any thread, for how many seconds after its last use a login stays.
    ``close`` lets every thread go that waits for an answer, and answers all later questions with None.
    """

    announced = Signal(str)
    """A message that needs no answer, unless it is shown here."""
    _said = Signal(str)
    _news = Signal()

    def __init__(self, appearance: Appearance, window: QWidget, stays_s: Callable[[], int] = lambda: 0) -> None:
        super().__init__(window)
        self._stays_s = stays_s
        self._appearance, self._window = appearance, window
        self.patience_s = ANSWER_WITHIN_S
        self._lock = threading.Lock()
        self._waiting: deque[_Question] = deque()
        self._closed = False
        self._current: _Question | None = None
        self.dialog: Dialog | None = None
        """The one that is open."""
        self._said.connect(self._show_message, Qt.ConnectionType.QueuedConnection)
        self._news.connect(self._look_again, Qt.ConnectionType.QueuedConnection)

    # --- In any thread ------------------------------------------------------------------------------------------------

    def ask(self, prompt: Prompt) -> str | None:
        """The answer; None when the person cancelled, did not answer for minutes, or the window closed."""
        if QThread.currentThread() is self.thread():
            raise RuntimeError("asked from the window's own thread, which would wait for itself")
        question = _Question(prompt, self._stays_s())
        with self._lock:
            if self._closed:
                return None
            self._waiting.append(question)
        self._news.emit()
        if not question.over.wait(self.patience_s):
            question.over.set()
            self._news.emit()
        return question.answer

    def show_message(self, text: str) -> None:
        """See ``Prompter``."""
        with self._lock:
            if not self._closed:
                self._said.emit(text)

    # --- In the window's thread ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop asking; the threads that wait get None."""
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

    def _show_message(self, text: str) -> None:
        """A server's text that nobody could read in the window gets a dialog: it is long, or another dialog is open."""
        lines, front = text.count("\n"), QApplication.activeModalWidget()
        if not lines or (front is None and lines < _MOST_LINES):
            self.announced.emit(text)
            return
        head, _, words = text.partition("\n")
        dialog = FittedDialog(front or self._window, head.removesuffix(":"))
        dialog.setMinimumWidth(_WIDE)
        dialog.add(own_words(words, "The server's own text"))
        dialog.finish(None, dialog.close_button(self._appearance))
        dialog.open()

    def _next(self) -> _Question | None:
        with self._lock:
            while self._waiting:
                question = self._waiting.popleft()
                if not question.over.is_set():
                    return question
        return None

    def _show(self, question: _Question) -> None:
        parent = QApplication.activeModalWidget() or self._window
        dialog = prompt_dialog(parent, self._appearance, question.prompt, question.stays_s)
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


# --- Prompt dialogs ---------------------------------------------------------------------------------------------------
# The dialogs of a login: password, passphrase, code, an unknown server's key. What is typed is kept nowhere.


_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?|MD5(?::[0-9a-f]{2}){16}")
_MOST_LINES = 9
_WIDE = 520


class PromptDialog(FittedDialog):
    """Asks one question. ``answered`` is emitted before the dialog closes; without it the question was cancelled."""

    answered = Signal(str)


def prompt_dialog(parent: QWidget, appearance: Appearance, prompt: Prompt, stays_s: int = 0) -> PromptDialog:
    """The dialog for this question; ``stays_s`` as in ``WindowPrompter``."""
    if prompt.kind is PromptKind.CONFIRM:
        return HostKeyDialog(parent, appearance, prompt)
    return SecretDialog(parent, appearance, prompt, stays_s)


# --- What is typed ----------------------------------------------------------------------------------------------------

_HEADS = {
    PromptKind.PASSWORD: "Log in to {0}",
    PromptKind.CODE: "Log in to {0}",
    PromptKind.PASSPHRASE: "Unlock your key",
}
_NAMES = {PromptKind.PASSWORD: "Password", PromptKind.CODE: "One-time code", PromptKind.PASSPHRASE: "Passphrase"}
_KEPT = {
    PromptKind.PASSWORD: "Remembered until Clew is closed, in memory only. Never stored.",
    PromptKind.PASSPHRASE: "Remembered until Clew is closed, in memory only. Never stored.",
    PromptKind.CODE: "Used once and never stored.",
}
_AGAIN = {
    PromptKind.PASSWORD: "Check Caps Lock and the keyboard layout.",
    PromptKind.PASSPHRASE: "It was chosen when the key was made.",
    PromptKind.CODE: "A code works only once: wait for the next one. A password before it may have been wrong as well.",
}


class SecretDialog(PromptDialog):
    """A password, a passphrase or a code. The server's own text is shown as it came."""

    def __init__(self, parent: QWidget, appearance: Appearance, prompt: Prompt, stays_s: int = 0) -> None:
        super().__init__(parent, _HEADS[prompt.kind].format(prompt.title))
        self._prompt = prompt
        self._appearance = appearance
        self.add(label(_sentence(prompt), "body", "2", wrap=True))
        words = _server_words(prompt)
        if words:
            self.add(own_words(words, "The server's own text"))
        if prompt.again:
            self.add(note(appearance, f"{prompt.again} {_AGAIN[prompt.kind]}"))
        self.field = _typed(prompt)
        self.add(label(_NAMES[prompt.kind], "strong", of=self.field))
        self.add(self._with_eye() if self.field.echoMode() is QLineEdit.EchoMode.Password else self.field)
        self.add(label(_kept(prompt.kind, stays_s), "caption", "3", wrap=True))
        self.go = Button(appearance, "Unlock" if prompt.kind is PromptKind.PASSPHRASE else "Log in", "primarySmall")
        self.go.setDefault(True)
        self.go.clicked.connect(self._answer)
        self.finish(None, self.close_button(appearance, "Cancel", ""), self.go)
        self.field.textChanged.connect(lambda _text: self._allow())
        self.finished.connect(lambda _code: self.field.clear())
        self.field.setFocus()
        self._allow()

    def _with_eye(self) -> QWidget:
        whole = QWidget()
        self.eye = IconButton(self._appearance, "eye", "Show what is typed")
        self.eye.setCheckable(True)
        self.eye.toggled.connect(self._show_typed)
        row(self.field, self.eye, gap=6, grows=self.field, parent=whole)
        return whole

    def _show_typed(self, on: bool) -> None:
        self.field.setEchoMode(QLineEdit.EchoMode.Normal if on else QLineEdit.EchoMode.Password)

    def _allow(self) -> None:
        empty = self._prompt.kind is not PromptKind.CODE and not self.field.text()  # a code may be "just press Enter"
        self.go.allow(not empty, f"Type the {_NAMES[self._prompt.kind].lower()} first")

    def _answer(self) -> None:
        text = self.field.text()
        if self._prompt.kind is PromptKind.CODE and text.replace(" ", "").isdigit():
            text = text.replace(" ", "")  # apps show codes in groups of three
        self.answered.emit(text)
        self.accept()


def _kept(kind: PromptKind, stays_s: int) -> str:
    """Says how long the typed text is remembered, and how long the login stays."""
    if not stays_s:
        return _KEPT[kind]
    stays = f"You stay logged in until {about(stays_s)} after the last use, also when Clew is closed."
    return f"{_KEPT[kind]} {stays} Cluster > Log out ends it."


def _typed(prompt: Prompt) -> QLineEdit:
    field = QLineEdit()
    hidden = not prompt.echo and (prompt.kind is not PromptKind.CODE or "pass" in prompt.text.lower())
    field.setEchoMode(QLineEdit.EchoMode.Password if hidden else QLineEdit.EchoMode.Normal)
    hints = Qt.InputMethodHint.ImhSensitiveData | Qt.InputMethodHint.ImhNoPredictiveText
    field.setInputMethodHints(hints | Qt.InputMethodHint.ImhNoAutoUppercase)
    field.setProperty("role", "code")
    if prompt.kind is PromptKind.CODE and not hidden:
        field.setFont(font("title"))
    else:
        field.setFont(font("subtitle"))
    field.setAccessibleName(_NAMES[prompt.kind])
    field.setAccessibleDescription(" ".join(filter(None, (prompt.again, *prompt.details, prompt.text))))
    return field


def _sentence(prompt: Prompt) -> str:
    if prompt.kind is PromptKind.PASSPHRASE:
        return f"The private key {prompt.title} is locked with a passphrase. It stays on this computer."
    if _server_words(prompt):
        return "The server asks. This is its own text:"
    return "The server asks for your password there."


def _server_words(prompt: Prompt) -> str:
    """Returns the part of the server's text that is worth showing: a bare "Password:" says no more than the field."""
    if prompt.kind is PromptKind.PASSPHRASE:
        return ""
    bare = prompt.text.strip().rstrip(":").lower() == "password"
    return plain("\n".join([*prompt.details, *([] if bare and not prompt.details else [prompt.text.strip()])])).strip()


def own_words(text: str, name: str, most: int = _MOST_LINES) -> QPlainTextEdit:
    """A text unchanged, in its own typeface, as high as it needs to be; a long one scrolls."""
    box = CodeText(name)
    box.setPlainText(text)
    metrics = QFontMetricsF(box.font())
    room = metrics.averageCharWidth() * 46
    lines = sum(max(1, -(-round(metrics.horizontalAdvance(line)) // round(room))) for line in text.split("\n"))
    box.setFixedHeight(round(metrics.lineSpacing() * min(most, lines)) + 28)
    box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    return box


def note(
    appearance: Appearance, text: str, role: str = "badNote", glyph: str = "s_failed", tone: str = "bad"
) -> QWidget:
    words = label(text, "body", wrap=True)
    sign = Glyph(appearance, glyph, tone, 16)
    return frame(role, row(sign, words, gap=10, margins=(12, 8, 12, 8), grows=words))


# --- A server's key ---------------------------------------------------------------------------------------------------


class CompareEdit(QLineEdit):
    """A field to paste a fingerprint into. Return does not reach the dialog, where it would cancel by accident."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handles all keys but Return, which it only reports."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            event.accept()
            self.returnPressed.emit()
            return
        super().keyPressEvent(event)


class HostKeyDialog(PromptDialog):
    """Asks whether a server that was never seen is the right one. The default is no."""

    def __init__(self, parent: QWidget, appearance: Appearance, prompt: Prompt) -> None:
        super().__init__(parent, f"Is this really {prompt.title}?")
        self.setMinimumWidth(_WIDE)
        text = plain("\n".join([*prompt.details, prompt.text]))
        found = _FINGERPRINT.findall(text)
        self.fingerprint = found[0] if found else ""
        self.add(label(_before(text, found), "body", "2", wrap=True))
        if self.fingerprint:
            self._add_fingerprint(appearance, found[1:], text)
        cancel = self.close_button(appearance, "Cancel", "")
        cancel.setDefault(True)
        self.trust = Button(appearance, "Trust and connect" if found else "Yes")
        self.trust.setAutoDefault(False)
        self.trust.clicked.connect(self._answer)
        self.finish(None, self.trust, cancel)
        self.cancel = cancel
        cancel.setFocus()

    def _add_fingerprint(self, appearance: Appearance, published: list[str], text: str) -> None:
        self.shown = _mono(self.fingerprint, "Fingerprint of the server's key")
        copy = IconButton(appearance, "copy", "Copy the fingerprint")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.fingerprint))
        words = column(label("The server's key", "caption", "3"), self.shown, gap=2)
        self.add(frame("sunken", row(words, copy, margins=(14, 10, 8, 10), grows=words)))
        self._add_published(appearance, published, text)
        self.other = CompareEdit()
        self.other.setFont(font("mono"))
        self.other.setPlaceholderText("SHA256:…")
        self.other.setAccessibleName("Fingerprint that the site publishes")
        self.other.textChanged.connect(lambda _text: self._compare())
        self.other.returnPressed.connect(lambda: self.trust.click() if self._is_same() else None)
        self.message = label("Paste it here from the site's page or your teacher's note.", "caption", "3", wrap=True)
        self.add(label("Compare with the one that the site publishes", "strong", of=self.other))
        self.add(self.other)
        self.add(self.message)

    def _add_published(self, appearance: Appearance, published: list[str], text: str) -> None:
        """Adds the fingerprints in the site's settings beside the one that the server shows."""
        if published:
            box = column(
                label("It is not among the fingerprints in the site's settings:", "strong", "bad", wrap=True),
                *(_mono(one, "Fingerprint in the site's settings") for one in published),
                gap=4,
                margins=(14, 10, 14, 10),
            )
            self.add(frame("badNote", box))
        elif "one of the fingerprints in the site's settings" in text:
            words = "The same fingerprint is in the site's settings."
            self.add(note(appearance, words, "okNote", "s_done", "ok"))

    def _is_same(self) -> bool:
        bare = (text.strip().removeprefix("SHA256:").rstrip("=") for text in (self.other.text(), self.fingerprint))
        return len(set(bare)) == 1

    def _compare(self) -> None:
        given, same = self.other.text().strip(), self._is_same()
        if not given:
            words, tone = "Paste it here from the site's page or your teacher's note.", "3"
        elif same:
            words, tone = "The same.", "ok"
        else:
            words, tone = "Not the same. Do not connect; ask the site.", "bad"
        self.message.setText(words)
        set_role(self.message, tone, "tone")
        set_role(self.other, "bad" if tone == "bad" else "", "state")
        self.trust.allow(not given or same, "The fingerprints differ")

    def _answer(self) -> None:
        self.answered.emit("yes")
        self.accept()


def _before(text: str, found: list[str]) -> str:
    """The words of the question without the fingerprint, which is below in full."""
    if not found:
        return text
    words = " ".join(line.strip() for line in text.split(found[0])[0].splitlines()).strip()
    return f"{words.removesuffix('is').rstrip()}:" if not words.endswith((".", ":")) else words


def _mono(text: str, name: str) -> QLabel:
    result = label(text, "mono", wrap=True)
    result.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    result.setAccessibleName(f"{name}: {text}")
    return result


# --- Job script -------------------------------------------------------------------------------------------------------


class ScriptDialog(Dialog):
    """Opens at once; the text comes when the site's folders are known."""

    def __init__(self, parent: QWidget, appearance: Appearance, title: str) -> None:
        super().__init__(parent, f"Job script for {title}", "This is what would be sent, character by character.")
        words = f"Asking {title} for its folders; the agent is installed there if it is missing …"
        self.message = label(words, "body", "2", wrap=True)
        self.add(self.message)
        self.text = CodeText("Job script")
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.add(self.text, 1)
        self.copy_button = Button(appearance, "Copy", "", "copy", "Copy the whole script")
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        self.copy_button.allow(False, "There is nothing to copy yet")
        close = self.close_button(appearance)
        self.finish(None, self.copy_button, close)
        close.setFocus()
        self.resize(760, 600)

    def show_script(self, text: str) -> None:
        """Shows the script, which is ready now."""
        self.text.setPlainText(text)
        self.message.hide()
        self.copy_button.allow(True)

    def show_problems(self, problems: tuple[Problem, ...]) -> None:
        """Shows why the script cannot be made."""
        set_role(self.message, "bad", "tone")
        self.message.setText("\n".join(str(one) for one in problems))


# --- Consent ----------------------------------------------------------------------------------------------------------
# A site's own shell commands are shown in full before they run for the first time.


_WHERE = {
    "prologue": "In each job on the site, before the agent:",
    "proxy command": "On this computer, to reach the site:",
}
_MOST_LINES = 18


def missing_consents(site: Site, places: Places) -> tuple[OwnWords, ...]:
    """The shell commands of the site that nobody has approved yet. Asks the SSH configuration, so it may wait."""
    if is_local(site):
        return ()
    commands = [hop.proxy_command for hop in way_to(site, resolve)]
    words = [one for command in commands or [""] for one in words_of(site, command)]
    return consents(places).missing(tuple(dict.fromkeys(words)))


def consent_question(parent: QWidget, appearance: Appearance, title: str, words: Sequence[OwnWords]) -> Question:
    """Asks for consent to a site's own shell commands."""
    lines = sum(one.text.strip().count("\n") + 1 for one in words)
    what = "a shell command" if lines == 1 else "shell commands"
    sentence = "Read all of it. You are asked only once for exactly this text."
    content: list[QWidget] = []
    for one in words:
        content.append(label(_WHERE.get(one.kind, f"{one.kind.capitalize()}:"), "strong"))
        content.append(own_words(plain(one.text.strip("\n"), len(one.text)), one.kind.capitalize(), _MOST_LINES))
    yes = "Approve this text"
    question = Question(parent, appearance, f"{title} runs {what}", sentence, yes, content=content, danger=True)
    question.setMinimumWidth(560)
    return question


def hold_question(parent: QWidget, appearance: Appearance, title: str, asked: AllocationRequest) -> Question:
    """Says what is asked for to be held for many runs, and what it counts."""
    sentence = "The job waits in the queue once. Then each run starts there at once, until the job's time is up."
    long = bool(seconds := seconds_asked(asked))
    cost = f"Costs up to {node_hours(asked.nodes, seconds)}, whether something runs or not." if long else ""
    no_limit = "No time limit is set, so the site's own limit applies: set one under Job to be sure of the cost."
    lines = column(label(summary(asked), "strong", wrap=True), label(cost or no_limit, "body", "2", wrap=True), gap=3)
    lines.setContentsMargins(14, 10, 14, 10)
    last = label("Let it go when you are done: then it costs nothing more.", "caption", "3", wrap=True)
    content = (frame("sunken" if long else "warnNote", lines), last)
    return Question(parent, appearance, f"Hold a node of {title}?", sentence, "Hold it", content=content)
