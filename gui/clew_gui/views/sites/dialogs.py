"""The job script exactly as it would be sent; questions before a site is used."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from clew_gui.schedulers.allocation import AllocationRequest, node_hours, seconds_asked, summary
from clew_gui.sites.consent import OwnWords, consents, words_of
from clew_gui.sites.hops import way_to
from clew_gui.sites.site import Site, is_local
from clew_gui.ssh.config import resolve
from clew_gui.ssh.prompts import plain
from clew_gui.views.sites.prompts import own_words
from clew_gui.views.theme.dialog import Dialog, Question
from clew_gui.views.theme.parts import Appearance, Button, column, frame, label, set_role
from clew_gui.views.theme.theme import font
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem


class ScriptDialog(Dialog):
    """Opens at once; the text comes when the site's folders are known."""

    def __init__(self, parent: QWidget, appearance: Appearance, title: str) -> None:
        super().__init__(parent, f"Job script for {title}", "This is what would be sent, character by character.")
        words = f"Asking {title} for its folders; the agent is installed there if it is missing …"
        self.message = label(words, "body", "2", wrap=True)
        self.add(self.message)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setProperty("role", "code")
        self.text.setFont(font("mono"))
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setAccessibleName("Job script")
        self.add(self.text, 1)
        self.copy_button = Button(appearance, "Copy", "", "copy", "Copy the whole script")
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        self.copy_button.allow(False, "There is nothing to copy yet")
        close = Button(appearance, "Close", "primarySmall")
        close.setDefault(True)
        close.clicked.connect(self.accept)
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
