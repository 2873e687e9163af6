"""Who is asked, on a real terminal, through a real program, and that nobody is asked twice."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew_gui.commands.run.follow import TerminalLock
from clew_gui.doctor.examination import Questions
from clew_gui.jobs.access import SiteAccess
from clew_gui.ssh.prompts import (
    AskOnce,
    NobodyToAsk,
    PersonNeeded,
    ProgramPrompter,
    Prompt,
    Prompter,
    PromptKind,
    TerminalPrompter,
    Unattended,
    headless_prompter,
    kind_of,
    plain,
    spoken,
)
from clew_shared.base.problem import ProblemError
from tests.integration.agents import wait_for
from tests.unit.fake_site import Login, a_line

if sys.platform != "win32":
    import pty

PASSWORD = Prompt(kind=PromptKind.PASSWORD, title="student@login", text="Password:")
CODE = Prompt(kind=PromptKind.CODE, title="student@login", text="Verification code:")
CONFIRM = Prompt(kind=PromptKind.CONFIRM, title="student@login", text="Is it the same?", details=("SHA256:abc",))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Password: ", PromptKind.PASSWORD),
        ("student@login's password: ", PromptKind.PASSWORD),
        ("(student@login) Password: ", PromptKind.PASSWORD),
        ("One-time password (OATH) for `student': ", PromptKind.CODE),
        ("Verification code: ", PromptKind.CODE),
        ("Passcode or option (1-3): ", PromptKind.CODE),
        ("Enter PASSCODE: ", PromptKind.CODE),
        ("TOTP: ", PromptKind.CODE),
        ("Your second factor: ", PromptKind.CODE),
        ("New password: ", PromptKind.CODE),
        ("", PromptKind.CODE),
    ],
)
def test_what_a_server_asks_for(text: str, kind: PromptKind) -> None:
    assert kind_of(text) is kind


def test_a_server_cannot_play_with_the_screen() -> None:
    assert plain("\x1b[2J\x07Pass\u202eword:\r\n\tx") == "[2JPassword:\n\tx"


class Counting(Prompter):
    def __init__(self, *answers: str | None) -> None:
        self._answers = list(answers)
        self.asked = 0

    def ask(self, prompt: Prompt) -> str | None:
        self.asked += 1
        return self._answers.pop(0)


def test_passwords_are_kept_until_refused_and_codes_never() -> None:
    person = Counting("a", "b", "c", "1", "2", None)
    asker = AskOnce(person)
    assert [asker.ask(PASSWORD), asker.ask(PASSWORD)] == ["a", "a"]
    asker.refused(PASSWORD)
    assert [asker.ask(PASSWORD), asker.ask(PASSWORD)] == ["b", "b"]
    other = Prompt(kind=PromptKind.PASSWORD, title="student@node1", text="Password:")
    assert asker.ask(other) == "c"
    assert [asker.ask(CODE), asker.ask(CODE)] == ["1", "2"]
    assert asker.ask(CODE) is None
    assert person.asked == 6


def test_two_passwords_of_one_login_are_two_questions() -> None:
    other = Prompt(kind=PromptKind.PASSWORD, title=PASSWORD.title, text="Password of the project:")
    asker = AskOnce(Counting("a", "b"))
    assert [asker.ask(PASSWORD), asker.ask(other), asker.ask(PASSWORD), asker.ask(other)] == ["a", "b", "a", "b"]


def test_what_is_only_told_reaches_the_terminal_through_all_who_hand_questions_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lock = TerminalLock(NobodyToAsk())
    quiet = SiteAccess("lab", lambda _access: a_line(Login()), AskOnce(Questions(lock)), quiet=True)
    quiet.asker.show_message("You stay logged in.")
    assert (capsys.readouterr().err, lock.asked) == ("You stay logged in.\n", True)


def test_a_login_that_is_to_ask_nobody_knows_what_was_answered_before() -> None:
    person = Counting("yes", "a")
    asker = AskOnce(person)
    quiet = Unattended(asker)
    assert quiet.ask(Prompt(kind=PromptKind.CONFIRM, title="login", text="Is it the same?")) == "yes"
    for prompt in (PASSWORD, CODE):
        with pytest.raises(PersonNeeded):
            quiet.ask(prompt)
    asker.ask(PASSWORD)
    assert quiet.ask(PASSWORD) == "a"
    quiet.refused(PASSWORD)
    with pytest.raises(PersonNeeded):
        quiet.ask(PASSWORD)
    assert person.asked == 2


# --- A terminal ---


class Terminal:
    """A real pseudo-terminal; what is shown on it is read in a thread."""

    def __init__(self) -> None:
        self.person, self._device = pty.openpty()
        self.name = os.ttyname(self._device)
        self.shown = b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.person, 1000)
            except OSError:
                return
            if not data:
                return
            self.shown += data

    def answer(self, typed: bytes, prompt: Prompt) -> str | None:
        """What the prompter gives back when this is typed after the question was shown."""
        got: list[str | None] = []
        asking = threading.Thread(target=lambda: got.append(TerminalPrompter(self.name).ask(prompt)))
        asking.start()
        while not self.shown.rstrip().endswith((b":", b")")):
            time.sleep(0.001)
        os.write(self.person, typed)
        asking.join(20)
        return got[0]

    def close(self) -> None:
        os.close(self._device)
        self._thread.join()
        os.close(self.person)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.mark.unix("a pseudo-terminal")
def test_a_password_is_typed_unseen(terminal: Terminal) -> None:
    assert terminal.answer(b"correct horse\n", PASSWORD) == "correct horse"
    assert b"(student@login) Password:" in terminal.shown
    assert b"horse" not in terminal.shown


@pytest.mark.unix("a pseudo-terminal")
def test_a_yes_is_seen_and_so_is_the_fingerprint(terminal: Terminal) -> None:
    assert terminal.answer(b"yes\n", CONFIRM) == "yes"
    assert b"SHA256:abc" in terminal.shown
    wait_for(lambda: b"yes\r\n" in terminal.shown, "the answer on the screen")


@pytest.mark.unix("a pseudo-terminal")
@pytest.mark.parametrize("typed", [b"\x03\n", b"\x04"])
def test_ctrl_c_and_ctrl_d_cancel(terminal: Terminal, typed: bytes) -> None:
    assert terminal.answer(typed, PASSWORD) is None


def test_without_a_terminal_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        TerminalPrompter(str(tmp_path / "none")).ask(PASSWORD)
    assert caught.value.problems[0].code == "ssh.noprompt"


# --- A program ---


def program(folder: Path, text: str) -> str:
    path = folder / "ask"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


@pytest.mark.unix("the program that asks is a shell script")
def test_the_program_gets_the_question_and_gives_the_answer(tmp_path: Path) -> None:
    ask = ProgramPrompter(
        program(tmp_path, f'printf "%s" "$1" >{tmp_path}/question; echo "$SSH_ASKPASS_PROMPT|answer"')
    )
    assert ask.ask(PASSWORD) == "|answer"
    assert (tmp_path / "question").read_text() == "(student@login) Password:"
    assert ask.ask(CONFIRM) == "confirm|answer"


@pytest.mark.unix("the program that asks is a shell script")
def test_for_a_confirmation_the_status_counts(tmp_path: Path) -> None:
    assert ProgramPrompter(program(tmp_path, "exit 0")).ask(CONFIRM) == "yes"
    assert ProgramPrompter(program(tmp_path, "exit 1")).ask(CONFIRM) is None


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ProblemError, match="/no/such/program"):
        ProgramPrompter("/no/such/program").ask(PASSWORD)


@pytest.mark.parametrize(
    ("environment", "terminal", "who"),
    [
        ({}, True, TerminalPrompter),
        ({}, False, NobodyToAsk),
        ({"SSH_ASKPASS": "x"}, True, TerminalPrompter),
        ({"SSH_ASKPASS": "x"}, False, ProgramPrompter),
        ({"SSH_ASKPASS": "x", "SSH_ASKPASS_REQUIRE": "force"}, True, ProgramPrompter),
        ({"SSH_ASKPASS": "x", "SSH_ASKPASS_REQUIRE": "prefer"}, True, ProgramPrompter),
        ({"SSH_ASKPASS": "x", "SSH_ASKPASS_REQUIRE": "never"}, False, NobodyToAsk),
        ({"SSH_ASKPASS_REQUIRE": "force"}, True, TerminalPrompter),
    ],
)
def test_who_is_asked_without_a_window(environment: dict[str, str], terminal: bool, who: type) -> None:
    assert type(headless_prompter(environment, lambda: terminal)) is who


@pytest.mark.parametrize("kind", list(PromptKind))
def test_nobody_to_ask_always_has_a_hint(kind: PromptKind) -> None:
    with pytest.raises(ProblemError) as caught:
        NobodyToAsk().ask(Prompt(kind=kind, title="student@login", text=""))
    assert caught.value.problems[0].hint
    assert spoken(Prompt(kind=kind, title="t", text="")).startswith("(t) ")
