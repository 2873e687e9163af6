"""Questions of a login in the window: one dialog each, answered by keyboard, nothing kept, nobody left waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QLineEdit, QPlainTextEdit, QWidget
from pytestqt.qtbot import QtBot

from clew_gui.doctor.examination import Questions
from clew_gui.ssh.prompts import AskOnce, Prompt, Prompter, PromptKind
from clew_gui.views.sites.prompts import HostKeyDialog, PromptDialog, SecretDialog, WindowPrompter
from clew_gui.views.theme.dialog import FittedDialog
from clew_gui.views.theme.parts import Appearance

MINE = "SHA256:" + "aB3/+xYz" * 5 + "abc"
OTHER = "SHA256:" + "Qq3/+xYz" * 5 + "abc"
PASSWORD = Prompt(kind=PromptKind.PASSWORD, title="student@login", text="Password:")
CODE = Prompt(kind=PromptKind.CODE, title="login", text="TOTP, 6 digits:", details=("Enter your second factor",))
HOST = Prompt(
    kind=PromptKind.CONFIRM,
    title="login",
    text="Compare it with the one that the site publishes. Is it the same?",
    echo=True,
    details=(
        "The server at login has not been seen from here before.",
        "Its ssh-ed25519 key has the fingerprint",
        MINE,
    ),
)


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    """A window that is open."""
    widget = QWidget()
    qtbot.addWidget(widget)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


@pytest.fixture
def asker(window: QWidget) -> Iterator[WindowPrompter]:
    """Asks in front of the window."""
    prompter = WindowPrompter(Appearance(), window)
    yield prompter
    prompter.close()


class Asked:
    """A thread that asks, as a login does."""

    def __init__(self, asker: WindowPrompter | AskOnce, prompt: Prompt) -> None:
        self.answer: str | None = "not asked yet"
        self._thread = threading.Thread(target=self._ask, args=(asker, prompt))
        self._thread.start()

    def _ask(self, asker: WindowPrompter | AskOnce, prompt: Prompt) -> None:
        self.answer = asker.ask(prompt)

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, qtbot: QtBot) -> str | None:
        qtbot.waitUntil(lambda: self.over)
        self._thread.join()
        return self.answer


def shown(asker: WindowPrompter, qtbot: QtBot) -> PromptDialog:
    """The dialog that is open."""
    qtbot.waitUntil(lambda: asker.dialog is not None and asker.dialog.isVisible())
    assert isinstance(asker.dialog, PromptDialog)
    return asker.dialog


def texts(dialog: QWidget) -> str:
    """Everything that can be read in a dialog."""
    labels = [one.text() for one in dialog.findChildren(QLabel)]
    return "\n".join(labels + [one.toPlainText() for one in dialog.findChildren(QPlainTextEdit)])


def test_a_password_is_typed_unseen_and_goes_to_the_thread_that_asked(asker: WindowPrompter, qtbot: QtBot) -> None:
    asked = Asked(asker, PASSWORD)
    dialog = shown(asker, qtbot)
    assert isinstance(dialog, SecretDialog)
    assert dialog.field.echoMode() is QLineEdit.EchoMode.Password
    assert not dialog.go.isEnabled()
    left: list[str] = []
    dialog.finished.connect(lambda _code: left.append(dialog.field.text()))
    QTest.keyClicks(dialog.field, "learning-rate-0.1")
    QTest.keyClick(dialog.field, Qt.Key.Key_Return)
    assert asked.wait(qtbot) == "learning-rate-0.1"
    assert left == [""], "nothing of it stays in the field"
    assert asker.dialog is None


def test_a_code_is_seen_beside_the_servers_own_words_and_blanks_in_it_do_not_count(
    asker: WindowPrompter, qtbot: QtBot
) -> None:
    asked = Asked(asker, CODE)
    dialog = shown(asker, qtbot)
    assert isinstance(dialog, SecretDialog)
    assert dialog.field.echoMode() is QLineEdit.EchoMode.Normal
    assert "Enter your second factor\nTOTP, 6 digits:" in texts(dialog)
    QTest.keyClicks(dialog.field, "493 021")
    dialog.go.click()
    assert asked.wait(qtbot) == "493021"


def test_several_questions_get_a_dialog_each_one_after_the_other(asker: WindowPrompter, qtbot: QtBot) -> None:
    asked = [Asked(asker, PASSWORD), Asked(asker, CODE)]
    seen = []
    for answer in ("one", "two"):
        dialog = shown(asker, qtbot)
        assert isinstance(dialog, SecretDialog)
        assert dialog not in seen
        seen.append(dialog)
        dialog.field.setText(answer)
        dialog.go.click()
        qtbot.waitUntil(lambda d=dialog: asker.dialog is not d)  # type: ignore[misc]
    assert {one.wait(qtbot) for one in asked} == {"one", "two"}


def test_a_password_is_asked_for_once_by_all_who_log_in_and_again_when_it_was_refused() -> None:
    given = iter(("one", "two", "three"))

    class Person(Prompter):
        def ask(self, prompt: Prompt) -> str | None:
            return next(given)

    shared = AskOnce(Person())
    window, doctor = AskOnce(shared), AskOnce(Questions(shared))
    assert [window.ask(PASSWORD), doctor.ask(PASSWORD)] == ["one", "one"]
    doctor.refused(PASSWORD)
    assert AskOnce(shared).ask(PASSWORD) == "two", "a server may hang up after one wrong answer: the next login asks"
    assert [AskOnce(Questions(shared)).ask(PASSWORD), window.ask(CODE)] == ["two", "three"]
    with pytest.raises(StopIteration):
        window.ask(CODE)  # a code counts once


def test_escape_cancels(asker: WindowPrompter, qtbot: QtBot) -> None:
    asked = Asked(asker, PASSWORD)
    QTest.keyClick(shown(asker, qtbot), Qt.Key.Key_Escape)
    assert asked.wait(qtbot) is None


def test_who_waits_is_let_go_when_the_window_closes_and_later_questions_are_not_asked(
    asker: WindowPrompter, qtbot: QtBot
) -> None:
    asked = [Asked(asker, PASSWORD), Asked(asker, CODE)]
    shown(asker, qtbot)
    asker.close()
    assert [one.wait(qtbot) for one in asked] == [None, None]
    assert asker.dialog is None
    assert Asked(asker, PASSWORD).wait(qtbot) is None


def test_a_dialog_that_nobody_waits_for_any_more_goes_away(window: QWidget, qtbot: QtBot) -> None:
    hasty = WindowPrompter(Appearance(), window)
    hasty.patience_s = 0.2
    asked = Asked(hasty, PASSWORD)
    assert asked.wait(qtbot) is None
    qtbot.waitUntil(lambda: hasty.dialog is None)
    hasty.close()


def test_a_dialog_that_goes_with_what_it_stood_before_is_a_cancelled_question(
    asker: WindowPrompter, qtbot: QtBot
) -> None:
    asked = Asked(asker, PASSWORD)
    shown(asker, qtbot).deleteLater()
    assert asked.wait(qtbot) is None


def test_a_question_from_the_windows_own_thread_is_an_error_and_not_a_standstill(asker: WindowPrompter) -> None:
    with pytest.raises(RuntimeError, match="own thread"):
        asker.ask(PASSWORD)


def test_what_needs_no_answer_is_told_from_any_thread_until_the_window_closes(
    asker: WindowPrompter, qtbot: QtBot
) -> None:
    heard: list[str] = []
    asker.announced.connect(heard.append)

    def tell() -> None:
        thread = threading.Thread(target=AskOnce(asker).show_message, args=("You stay logged in.",))
        thread.start()
        thread.join()

    tell()
    qtbot.waitUntil(lambda: heard == ["You stay logged in."])
    asker.close()
    tell()
    QCoreApplication.processEvents()
    assert len(heard) == 1


def test_what_a_server_says_is_shown_in_front_of_what_is_open(
    asker: WindowPrompter, window: QWidget, qtbot: QtBot
) -> None:
    """Below an open dialog nobody could read it; and a long text does not fit into the window's message."""
    words, long = "lab says:\nVisit https://login.example.org", "lab says:\n" + "A rule.\n" * 40
    heard: list[str] = []
    asker.announced.connect(heard.append)
    asker.show_message(words)
    qtbot.waitUntil(lambda: heard == [words])
    asked = Asked(asker, CODE)
    question = shown(asker, qtbot)
    asker.show_message(words)
    qtbot.waitUntil(lambda: bool(question.findChildren(FittedDialog)))
    (front,) = question.findChildren(FittedDialog)
    assert "Visit https://login.example.org" in texts(front)
    front.reject()
    question.reject()
    assert asked.wait(qtbot) is None
    asker.show_message(long)
    qtbot.waitUntil(lambda: any("A rule." in texts(one) for one in window.findChildren(FittedDialog)))
    assert heard == [words]


def test_why_it_is_asked_again_is_said(asker: WindowPrompter, qtbot: QtBot) -> None:
    again = Prompt(kind=PromptKind.CODE, title="login", text="Code:", again="That was refused.")
    asked = Asked(asker, again)
    dialog = shown(asker, qtbot)
    first = "That was refused. A code works only once: wait for the next one."
    assert f"{first} A password before it may have been wrong as well." in texts(dialog)
    dialog.reject()
    assert asked.wait(qtbot) is None


@pytest.fixture
def host(window: QWidget, qtbot: QtBot) -> HostKeyDialog:
    """The question about an unknown server."""
    dialog = HostKeyDialog(window, Appearance(), HOST)
    dialog.show()
    return dialog


def test_the_fingerprint_stands_in_full_and_the_default_is_no(host: HostKeyDialog, qtbot: QtBot) -> None:
    given: list[str] = []
    host.answered.connect(given.append)
    assert MINE in texts(host)
    assert host.cancel.isDefault()
    assert not host.trust.isDefault()
    for typed in ("", OTHER):
        host.other.setText(typed)
        QTest.keyClick(host.other, Qt.Key.Key_Return)
        assert host.isVisible(), "Return in the field neither trusts nor cancels"
    QTest.keyClick(host, Qt.Key.Key_Return)
    assert not host.isVisible()
    assert given == []


@pytest.mark.parametrize(("pasted", "same"), [(MINE, True), (f" {MINE}= ", True), (MINE[7:], True), (OTHER, False)])
def test_a_pasted_fingerprint_is_compared(host: HostKeyDialog, pasted: str, same: bool) -> None:
    host.other.setText(pasted)
    assert host.trust.isEnabled() is same
    assert host.message.text().startswith("The same" if same else "Not the same")
    QTest.keyClick(host.other, Qt.Key.Key_Return)
    assert host.isVisible() is not same, "Return trusts the same key"


def test_trusting_answers_yes(asker: WindowPrompter, qtbot: QtBot) -> None:
    asked = Asked(asker, HOST)
    dialog = shown(asker, qtbot)
    assert isinstance(dialog, HostKeyDialog)
    dialog.trust.click()
    assert asked.wait(qtbot) == "yes"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("This is one of the fingerprints in the site's settings.",), "The same fingerprint is in the site's"),
        (("It is NOT among those in the site's settings:", OTHER), OTHER),
    ],
)
def test_what_the_site_publishes_stands_beside(window: QWidget, more: tuple[str, ...], words: str) -> None:
    prompt = Prompt(kind=PromptKind.CONFIRM, title="login", text=HOST.text, details=(*HOST.details, *more))
    dialog = HostKeyDialog(window, Appearance(), prompt)
    assert words in texts(dialog)
    assert dialog.fingerprint == MINE


def test_the_question_of_the_systems_ssh_is_understood_as_well(window: QWidget) -> None:
    words = f"The authenticity of host 'login' can't be established.\nED25519 key fingerprint is {MINE}.\nContinue?"
    dialog = HostKeyDialog(window, Appearance(), Prompt(kind=PromptKind.CONFIRM, title="login", text=words))
    assert dialog.shown.text() == MINE


def test_a_login_that_stays_says_for_how_long_and_how_to_end_it(qtbot: QtBot, window: QWidget) -> None:
    asker = WindowPrompter(Appearance(), window, stays_s=lambda: 1800)
    asked = Asked(asker, PASSWORD)
    text = texts(shown(asker, qtbot))
    assert "You stay logged in until 30 min after the last use, also when Clew is closed." in text
    assert "Cluster > Log out" in text
    asker.close()
    assert asked.wait(qtbot) is None
