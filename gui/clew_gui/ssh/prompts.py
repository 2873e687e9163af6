"""Questions that an SSH login may have: who is asked, and that nobody is asked twice. No answer is stored on disk."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from clew_shared.base import operating_system
from clew_shared.base.harmless import say, without_controls
from clew_shared.base.problem import ProblemError, os_refused, problem

ANSWER_WITHIN_S = 300.0
"""A person who is fetching the phone with the codes gets this long; most servers hang up after two minutes anyway."""
_LONGEST_WORDS = 10_000
NEEDS_PERSON = "ssh.person"
"""The code of the problem that a person has to log in."""


class PromptKind(Enum):
    """The kind of question."""

    PASSWORD = "password"  # noqa: S105  # the word, not one
    PASSPHRASE = "passphrase"  # noqa: S105
    CODE = "code"
    CONFIRM = "confirm"


ASKED_FOR = {
    PromptKind.PASSWORD: "a password",
    PromptKind.PASSPHRASE: "the passphrase of a key",
    PromptKind.CODE: "a one-time code",
    PromptKind.CONFIRM: "a confirmation of its key",
}


PROOF = {
    PromptKind.PASSWORD: "password",
    PromptKind.PASSPHRASE: "passphrase",
    PromptKind.CODE: "one-time code",
    PromptKind.CONFIRM: "answer",
}
"""The words in a route for the ways in which a server let someone in."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One question. ``title`` says which host or key file, ``text`` is the server's own wording where it has one.

    ``echo``: the answer may be seen while it is typed. ``details`` are lines to show with it, such as fingerprints.
    ``again`` says why it is asked once more. The answer to ``CONFIRM`` is "yes"; everything else is no.
    """

    kind: PromptKind
    title: str
    text: str
    echo: bool = False
    details: tuple[str, ...] = ()
    again: str = ""

    @property
    def sentences(self) -> str:
        """Returns the details for one line: in a dialog a fingerprint has a line of its own."""
        return " ".join(f"{line}." if line.startswith("SHA256:") else line for line in self.details)


class Prompter:
    """Asks a person. Called from any thread but the window's own. What has a body is for one without a window that
    remembers nothing."""

    def ask(self, prompt: Prompt) -> str | None:
        """The answer; None when the person cancelled. Raises ``ProblemError`` when nobody can be asked."""
        raise NotImplementedError

    def remembered(self, prompt: Prompt) -> str | None:
        """Returns the answer that would be given without asking anybody; None if someone would be asked."""
        return None

    def refused(self, prompt: Prompt) -> None:
        """Notes that the answer was wrong: the next time the person is asked again."""

    def forget(self) -> None:
        """Forgets all answers."""

    def show_message(self, text: str) -> None:
        """Says something that needs no answer. Never waits for a person."""
        say(text, sys.stderr)

    def show_greeting(self, text: str) -> None:
        """Shows what a server says at every login."""
        self.show_message(text)


class PersonNeeded(Exception):
    """Raised if a login that may ask nobody has to ask someone."""


class AskOnce(Prompter):
    """Remembers passwords and passphrases as long as the program runs, in memory only; codes and confirmations never.

    An answer that turned out wrong is forgotten by ``refused``. One question at a time, also from several threads. One
    for all that logs in may serve those of each part of the program.
    """

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter
        self._known: dict[tuple[PromptKind, str, str], str] = {}
        self._shown: set[str] = set()
        self._lock = threading.Lock()

    def ask(self, prompt: Prompt) -> str | None:
        """Asks as ``Prompter.ask`` does; a password or passphrase of this title that is known already is not asked
        for."""
        with self._lock:
            key = (prompt.kind, prompt.title, prompt.text)  # a server may ask for two passwords
            if key in self._known:
                return self._known[key]
            answer = self._prompter.ask(prompt)
            if answer is not None and prompt.kind in (PromptKind.PASSWORD, PromptKind.PASSPHRASE):
                self._known[key] = answer
            return answer

    def remembered(self, prompt: Prompt) -> str | None:
        """See ``Prompter``."""
        known = self._known.get((prompt.kind, prompt.title, prompt.text))
        return known if known is not None else self._prompter.remembered(prompt)

    def refused(self, prompt: Prompt) -> None:
        """See ``Prompter``. Does not wait for a question that is being asked."""
        self._known.pop((prompt.kind, prompt.title, prompt.text), None)
        self._prompter.refused(prompt)

    def forget(self) -> None:
        """Forgets all answers, also those of one that it asks in turn."""
        self._known.clear()
        self._prompter.forget()

    def show_message(self, text: str) -> None:
        """See ``Prompter``."""
        self._prompter.show_message(text)

    def show_greeting(self, text: str) -> None:
        """See ``Prompter``; the same words once as long as the program runs."""
        if text not in self._shown:
            self._shown.add(text)
            self._prompter.show_greeting(text)


class Unattended(AskOnce):
    """Answers what ``asker`` remembers, and asks it whether a server's key is right. Raises ``PersonNeeded`` for
    everything else."""

    def __init__(self, asker: Prompter) -> None:
        super().__init__(asker)
        self.asker = asker

    def ask(self, prompt: Prompt) -> str | None:
        """See ``AskOnce.ask``."""
        if prompt.kind is PromptKind.CONFIRM:
            return self.asker.ask(prompt)
        known = self.asker.remembered(prompt)
        if known is None:
            raise PersonNeeded(prompt.title)
        return known


_CODE = re.compile("one-time|one time|otp|code|token|verification|factor|authenticator|response|new pass")


def kind_of(text: str) -> PromptKind:
    """Recognises what a server asks for, from its wording. What is not clearly a password is a code."""
    words = text.lower()
    return PromptKind.PASSWORD if "password" in words and not _CODE.search(words) else PromptKind.CODE


def server_words(title: str, text: str) -> str:
    """What a server says that is no question, for a person; empty if it says nothing."""
    words = plain(text, _LONGEST_WORDS).strip()
    return f"{title} says:\n{words}" if words else ""


def plain(text: str, limit: int = 2000) -> str:
    """A server's text without anything that could play tricks with a terminal or a window: no control characters."""
    return without_controls(text[:limit])


# --- Without a window -----------------------------------------------------------------------------------------------


class TerminalPrompter(Prompter):
    """Asks on the terminal that the program belongs to, whatever its standard input and output are joined to."""

    def __init__(self, device: str = operating_system.TERMINAL) -> None:
        self._device = device

    def ask(self, prompt: Prompt) -> str | None:
        """Returns what was typed; None after Ctrl-C or Ctrl-D, or if nothing came for minutes."""
        try:
            echo = prompt.echo or prompt.kind is PromptKind.CONFIRM
            return operating_system.ask_on_terminal(self._device, f"{spoken(prompt)} ", echo, ANSWER_WITHIN_S)
        except OSError as error:
            raise no_one_to_ask(prompt) from error


class ProgramPrompter(Prompter):
    """Asks through the program that ``SSH_ASKPASS`` names, as OpenSSH does: the question is its argument."""

    def __init__(self, program: str) -> None:
        self._program = program

    def ask(self, prompt: Prompt) -> str | None:
        """The first line it prints; None when it exits with another status than 0."""
        kind = {"SSH_ASKPASS_PROMPT": "confirm"} if prompt.kind is PromptKind.CONFIRM else {}
        text = f"SSH_ASKPASS names {self._program}, which cannot be started"
        try:
            with os_refused("ssh.noprompt", text, "Correct it, or unset it.", prompt.title):
                done = subprocess.run(
                    [self._program, spoken(prompt)],
                    env={**os.environ, **kind},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    timeout=ANSWER_WITHIN_S,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode != 0:
            return None
        answer = done.stdout.decode(errors="replace").split("\n", 1)[0].rstrip("\r")
        return (
            "yes" if prompt.kind is PromptKind.CONFIRM and not answer else answer
        )  # OpenSSH: for confirm the status counts


class NobodyToAsk(Prompter):
    """Serves if there is no terminal, no window and no program: every question becomes a ``ProblemError`` that says
    what to do."""

    def ask(self, prompt: Prompt) -> str | None:
        """Raises ``ProblemError`` instead of asking."""
        raise no_one_to_ask(prompt)


def headless_prompter(environment: Mapping[str, str], has_terminal: Callable[[], bool] | None = None) -> Prompter:
    """Returns who is asked without a window, by OpenSSH's own rules: the terminal, else the program that
    ``SSH_ASKPASS`` names.

    ``SSH_ASKPASS_REQUIRE`` set to ``force`` or ``prefer`` turns that round, ``never`` forbids the program.
    """
    program, rule = environment.get("SSH_ASKPASS", ""), environment.get("SSH_ASKPASS_REQUIRE", "")
    if program and rule in ("force", "prefer"):
        return ProgramPrompter(program)
    if (has_terminal or operating_system.has_terminal)():
        return TerminalPrompter()
    return ProgramPrompter(program) if program and rule != "never" else NobodyToAsk()


def spoken(prompt: Prompt) -> str:
    """The whole question as text, for a terminal or a small dialog."""
    is_choice = prompt.kind is PromptKind.CONFIRM
    question = prompt.text.strip() or ("Continue?" if is_choice else f"{prompt.kind.value.capitalize()}:")
    answers = " (yes/no)" if is_choice else ""
    return "\n".join(filter(None, [prompt.again, *prompt.details, f"({prompt.title}) {question}{answers}"]))


def no_one_to_ask(prompt: Prompt) -> ProblemError:
    """The question cannot be put to anybody."""
    text = f"{prompt.title} asks for {ASKED_FOR[prompt.kind]}, and there is neither a terminal nor a window to ask on."
    hint = "Run it in a terminal, let SSH_ASKPASS name a program that asks, or use a key that ssh-agent holds."
    if prompt.kind is PromptKind.CONFIRM:
        hint = "Run clew once in a terminal, and compare the fingerprint there with the one on the site's page."
    return problem("ssh.noprompt", text, hint, prompt.title)


def cancelled(title: str) -> ProblemError:
    """Returns the error for a person who did not want to answer."""
    return problem("ssh.cancelled", f"The login to {title} was cancelled.", "", title)
