"""The job script exactly as it would be sent."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLineEdit, QListWidget, QPlainTextEdit, QWidget

from clew_gui.schedulers.allocation import AllocationRequest, node_hours, seconds_asked, summary
from clew_gui.sites.consent import OwnWords, consents, words_of
from clew_gui.sites.hops import way_to
from clew_gui.sites.site import Site, is_local
from clew_gui.ssh.config import resolve
from clew_gui.ssh.prompts import plain
from clew_gui.views.sites.prompts import FittedDialog, own_words
from clew_gui.views.theme.dialog import Dialog
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


# --- Modules ----------------------------------------------------------------------------------------------------------
# Which modules a site has, to be named in it.


class ModulesDialog(Dialog):
    """Opens at once; the names come when the site has answered. ``chosen`` is emitted with the one that a person
    takes."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget, appearance: Appearance, title: str) -> None:
        super().__init__(parent, f"Modules of {title}")
        self.message = label(f"Asking {title} for its modules …", "body", "2", wrap=True)
        self.add(self.message)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Part of a name, such as tensorflow")
        self.filter.setAccessibleName("Filter the modules")
        self.filter.textChanged.connect(lambda _text: self._show())
        self.add(self.filter)
        self.names = QListWidget()
        self.names.setAccessibleName("Modules")
        self.names.itemActivated.connect(lambda _item: self._take())
        self.names.itemSelectionChanged.connect(self._selected)
        self.add(self.names, 1)
        close = Button(appearance, "Close")
        close.setAutoDefault(False)
        close.clicked.connect(self.reject)
        self.take = Button(appearance, "Add to the site…", "primarySmall")
        self.take.clicked.connect(self._take)
        self.take.allow(False, "Select a module first")
        self.finish(None, close, self.take)
        self._all: Sequence[str] | None = None
        self.resize(460, 480)

    def show_names(self, names: Sequence[str]) -> None:
        """Shows the names, which are ready now."""
        self._all = names
        self._show()

    def show_problems(self, problems: tuple[Problem, ...]) -> None:
        """Shows why the names cannot be listed."""
        set_role(self.message, "bad", "tone")
        self.message.setText("\n".join(str(one) for one in problems))

    def _show(self) -> None:
        if self._all is None:  # the site has not answered, or refused
            return
        wanted = self.filter.text().strip().casefold()
        fits = [name for name in self._all if wanted in name.casefold()]
        self.names.clear()
        self.names.addItems(fits)
        self.message.setText(f"{len(fits)} of {len(self._all)} modules")
        self._selected()

    def _selected(self) -> None:
        self.take.allow(bool(self.names.selectedItems()), "Select a module first")

    def _take(self) -> None:
        selected = self.names.selectedItems()
        if selected:
            self.accept()
            self.chosen.emit(selected[0].text())


# --- Consent dialog ---------------------------------------------------------------------------------------------------
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


class ConsentDialog(FittedDialog):
    """Asks for consent to a site's own shell commands. ``accepted`` when the person agrees; the default is not to."""

    def __init__(self, parent: QWidget, appearance: Appearance, title: str, words: Sequence[OwnWords]) -> None:
        lines = sum(one.text.strip().count("\n") + 1 for one in words)
        what = "a shell command" if lines == 1 else "shell commands"
        super().__init__(
            parent, f"{title} runs {what}", "Read all of it. You are asked only once for exactly this text."
        )
        self.setMinimumWidth(560)
        for one in words:
            self.add(label(_WHERE.get(one.kind, f"{one.kind.capitalize()}:"), "strong"))
            self.add(own_words(plain(one.text.strip("\n"), len(one.text)), one.kind.capitalize(), _MOST_LINES))
        no = Button(appearance, "Cancel")
        no.setDefault(True)
        no.clicked.connect(self.reject)
        self.agree = Button(appearance, "Approve this text")
        self.agree.setAutoDefault(False)
        self.agree.clicked.connect(self.accept)
        self.finish(None, self.agree, no)
        no.setFocus()


# --- Held -------------------------------------------------------------------------------------------------------------
# An allocation that is held for many runs is asked for with its cost.


class HoldDialog(FittedDialog):
    """Says what is asked for and what it counts; ``accepted`` when the person wants it."""

    def __init__(self, parent: QWidget, appearance: Appearance, title: str, asked: AllocationRequest) -> None:
        super().__init__(parent, f"Hold a node of {title}?")
        sentence = "The job waits in the queue once. Then each run starts there at once, until the job's time is up."
        self.add(label(sentence, "body", "2", wrap=True))
        long = bool(seconds := seconds_asked(asked))
        cost = f"Costs up to {node_hours(asked.nodes, seconds)}, whether something runs or not." if long else ""
        no_limit = "No time limit is set, so the site's own limit applies: set one under Job to be sure of the cost."
        lines = column(
            label(summary(asked), "strong", wrap=True), label(cost or no_limit, "body", "2", wrap=True), gap=3
        )
        lines.setContentsMargins(14, 10, 14, 10)
        self.add(frame("sunken" if long else "warnNote", lines))
        self.add(label("Let it go when you are done: then it costs nothing more.", "caption", "3", wrap=True))
        no = Button(appearance, "Cancel")
        no.setAutoDefault(False)
        no.clicked.connect(self.reject)
        self.yes = Button(appearance, "Hold it", "primarySmall")
        self.yes.setDefault(True)
        self.yes.clicked.connect(self.accept)
        self.finish(None, no, self.yes)
