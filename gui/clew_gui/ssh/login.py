"""Authentication: keys, the agent, one-time codes, passwords, and several of these in one login.

The order is OpenSSH's: public keys (those asked for by name first), then what the server itself asks
(keyboard-interactive), then the password. A server that hangs up after too many keys is dialled again for the rest, a
few times at most.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from threading import Timer

import paramiko

from clew_gui.ssh.connection import Hop, SshFiles, lost, timed_out
from clew_gui.ssh.errors import foreign, not_approved, refused_answers, refused_keys
from clew_gui.ssh.keys import Credential, SshKeyAgent, credentials
from clew_gui.ssh.prompts import (
    ANSWER_WITHIN_S,
    NEEDS_PERSON,
    PROOF,
    PersonNeeded,
    Prompt,
    Prompter,
    PromptKind,
    Unattended,
    cancelled,
    kind_of,
    plain,
    server_words,
)
from clew_gui.ssh.transport import SshTransport
from clew_shared.base.problem import ProblemError

_ROUNDS = 3
"""How often a person is asked before the login counts as refused, as ``ssh`` does; servers end it soon after."""
_REPLY_S = 30.0
"""The seconds in which a server answers if no person has to do anything. Else it has as long as a person for an answer:
an approval may be given elsewhere, on a phone or a page."""
_TIMEOUT = "Authentication timeout."  # paramiko has no type for it
_FOREIGN = frozenset({"gssapi-with-mic", "gssapi-keyex", "hostbased"})
"""Ways of logging in that Clew does not know: Kerberos and host-based logins."""

_Fields = list[tuple[str, bool]]


class ServerHungUp(Exception):
    """The server hung up during the login; its words, if any, are the text."""


class Login:
    """One person's login at one hop; lives over several dials of it, so that nothing is tried or asked twice."""

    def __init__(self, hop: Hop, files: SshFiles, asker: Prompter) -> None:
        self._hop = hop
        self._files = files
        self._asker = asker
        self._tried: set[bytes] = set()
        self._rounds = 0
        self._asked: list[Prompt] = []
        self._answers: list[str] = []
        self._wrong: list[list[str]] = []
        self._failed: list[str] = [f"key {path} (not there)" for path in hop.missing_keys]
        self._kept_back: list[Credential] = []
        self._allowed: list[str] = []
        self._unasked: ProblemError | None = None
        self._said = ""
        """What the server has said since the last question, for a person."""
        self._asking = False
        self._is_late = False
        """Whether the server has not answered within the time that it needs without a person."""

    @property
    def asked_codes(self) -> bool:
        """Whether a one-time code was asked for."""
        return any(prompt.kind is PromptKind.CODE for prompt in self._asked)

    def run(self, link: SshTransport) -> str:
        """Log in; returns how, in words. Raises ``ProblemError`` or ``ServerHungUp``.

        With an ``Unattended`` asker it raises ``PersonNeeded`` before the server asks: some send a code as they ask.
        """
        link.auth_timeout = ANSWER_WITHIN_S
        link.greeted = partial(self._hear, self._asker.show_greeting)
        with closing(SshKeyAgent(self._hop.agent)) as agent:
            keys, self._kept_back = credentials(self._hop, self._files, agent.get_keys(), self._asker)
            return self._steps(link, iter(keys))

    def _steps(self, link: SshTransport, keys: Iterator[Credential]) -> str:
        how: list[str] = []
        allowed = self._attempt(link, "nothing", lambda: link.auth_none(self._hop.login)) or self._allowed
        exhausted: set[str] = set()
        rest = self._kept_back
        while not link.is_authenticated():
            method = next(
                (m for m in ("publickey", "keyboard-interactive", "password") if m in allowed and m not in exhausted),
                "",
            )
            if not method:
                raise self._refused(allowed)
            words, more = self._one(link, method, keys)
            if not words and rest and set(allowed) == {"publickey"}:
                keys, rest = iter(rest), []  # nobody could type anything, so it costs no answer if the server hangs up
            elif not words:
                exhausted.add(method)
            elif more is not None:
                how.append(words)
                allowed = more
        return " and ".join(how) or "no proof asked"

    def _one(self, link: SshTransport, method: str, keys: Iterator[Credential]) -> tuple[str, list[str] | None]:
        """Makes one attempt; returns its words (empty: nothing left to try) and what is wanted next (None: refused)."""
        if method == "publickey":
            return self._key(link, keys)
        if self._rounds >= _ROUNDS or (method == "password" and self._asked):
            return "", None
        if isinstance(self._asker, Unattended):
            raise PersonNeeded(self._hop.title)
        self._rounds += 1
        if method == "password":
            return "password", self._attempt(link, method, lambda: self._password(link))
        before = len(self._asked)
        more = self._attempt(link, method, lambda: self._interactive(link))
        kinds = dict.fromkeys(prompt.kind for prompt in self._asked[before:])
        silent = more is None and not kinds
        return "" if silent else " and ".join(PROOF[kind] for kind in kinds) or method, more

    def _key(self, link: SshTransport, keys: Iterator[Credential]) -> tuple[str, list[str] | None]:
        for credential in keys:
            if credential.id in self._tried:
                continue
            try:
                key = credential.load()
            except ProblemError as error:
                if credential.named or _code(error) == "ssh.cancelled":
                    raise
                if _code(error) in ("ssh.noprompt", NEEDS_PERSON):
                    self._unasked = error
                self._failed.append(f"{credential.words} (cannot be used)")
                continue
            self._tried.add(credential.id)
            more = self._attempt(link, credential.words, partial(link.auth_publickey, self._hop.login, key))
            if more is not None:
                self._tried.discard(credential.id)  # good for the first step of a further dial
            return credential.words, more
        return "", None

    def _attempt(self, link: SshTransport, words: str, attempt: Callable[[], list[str]]) -> list[str] | None:
        """Returns what is wanted next after a success; None after a refusal."""
        self._is_late, reminder = False, Timer(_REPLY_S, self._late, (link,))
        reminder.daemon = True
        reminder.start()
        try:
            return attempt()
        except paramiko.BadAuthenticationType as error:
            self._allowed = list(error.allowed_types)
            if words != "nothing":
                self._failed.append(words)
            return None
        except (paramiko.SSHException, EOFError, OSError) as error:
            if self._is_late and (str(error) == _TIMEOUT or not link.is_active()):
                link.close()
                if self._said:
                    raise not_approved(self._hop.title, self._said) from error
                if str(error) == _TIMEOUT or not self._asked:
                    seconds = ANSWER_WITHIN_S if self._asked else _REPLY_S
                    raise timed_out(self._hop.title, "the login", seconds) from error
            if "agree on a pubkey algorithm" in str(error):
                words = f"{words} (the server takes RSA keys by SHA-1 only: use an ed25519 key)"
            self._failed.append(words)
            if not link.is_active():
                raise ServerHungUp(link.goodbye) from error
            return None
        finally:
            reminder.cancel()

    def _late(self, link: SshTransport) -> None:
        """The server has not answered. Where no person has anything to do, it is given up; else a person may not have
        seen what the server said before, at a greeting that is always the same."""
        self._is_late = True
        if not (self._asking or self._asked or self._said):
            link.close()
        elif self._said:
            self._asker.show_message(f"{self._hop.title} has not let you in yet. {self._said}")

    def _hear(self, show: Callable[[str], None], text: str) -> None:
        if said := server_words(self._hop.title, text):
            self._said = said
            show(said)

    # --- What a person types -----------------------------------------------------------------------------------------

    def _password(self, link: SshTransport) -> list[str]:
        kind, again = PromptKind.PASSWORD, self._again()
        prompt = Prompt(kind=kind, title=self._hop.title, text="Password:", details=self._in_vain(), again=again)
        answer = self._answer([prompt])[0]
        return self._judged([prompt], lambda: link.auth_password(self._hop.login, answer, fallback=False))

    def _interactive(self, link: SshTransport) -> list[str]:
        """Answers the server's questions. paramiko asks from the thread that reads the link, which must go on, so this
        thread asks the person."""
        questions: queue.SimpleQueue[tuple[str, _Fields] | None] = queue.SimpleQueue()
        answers: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
        outcome: Future[list[str]] = Future()

        def handler(title: str, instructions: str, fields: _Fields) -> list[str]:
            text = f"{title}\n{instructions}".strip()
            if not fields:
                self._hear(self._asker.show_message, text)
                return []
            questions.put((text, fields))
            given = answers.get()
            if given is None:
                raise paramiko.SSHException("no answer")
            return given

        def attempt() -> None:
            try:
                outcome.set_result(link.auth_interactive(self._hop.login, handler))
            except Exception as error:  # noqa: BLE001  # raised again in the thread that waits for it
                outcome.set_exception(error)
            questions.put(None)

        threading.Thread(target=attempt, name=f"{link.name} login", daemon=True).start()
        asked: list[Prompt] = []
        try:
            while (question := questions.get()) is not None:
                prompts = self._prompts(*question)
                asked += prompts
                answers.put(self._answer(prompts))
        except BaseException:
            answers.put(None)
            link.close()
            raise

        return self._judged(asked, outcome.result)

    def _prompts(self, instructions: str, fields: _Fields) -> list[Prompt]:
        details = (*self._in_vain(), *(line for line in plain(instructions).splitlines() if line.strip()))
        again = self._again()
        return [
            Prompt(
                kind=kind_of(text),
                title=self._hop.title,
                text=plain(text).strip(),
                echo=echo,
                details=details,
                again=again,
            )
            for text, echo in fields
        ]

    def _in_vain(self) -> tuple[str, ...]:
        """Names, beside a question, the keys that were asked for by name and did not let one in."""
        asked_for = {f"key {path}" for path in (*self._hop.keys, *self._hop.missing_keys)}
        named = [words for words in dict.fromkeys(self._failed) if words.partition(" (")[0] in asked_for]
        return (f"Did not let you in: {', '.join(named)}.",) if named else ()

    def _again(self) -> str:
        return "That was refused." if self._wrong else ""

    def _answer(self, prompts: Sequence[Prompt]) -> list[str]:
        given: list[str] = []
        self._asking, self._said = True, ""
        for prompt in prompts:
            answer = self._asker.ask(prompt)
            if answer is None:
                raise cancelled(self._hop.title)
            given.append(answer)
        self._asked += prompts
        self._asking = False
        if given and given in self._wrong:  # the same once more: a script, or a person who is sure; accounts get locked
            raise refused_answers(self._hop.title, {prompt.kind for prompt in prompts})
        self._answers = given
        return given

    def _judged(self, prompts: Sequence[Prompt], attempt: Callable[[], list[str]]) -> list[str]:
        """A refused password is forgotten, an accepted one stays known for further hops and dials."""
        try:
            return attempt()
        except (paramiko.SSHException, EOFError, OSError):
            self._wrong.append(self._answers)
            for prompt in prompts:
                self._asker.refused(prompt)
            raise

    # --- Refusals ----------------------------------------------------------------------------------------------------

    def _refused(self, allowed: Sequence[str]) -> ProblemError:
        title = self._hop.title
        if not self._asked and allowed and set(allowed) <= _FOREIGN:
            return foreign(title, allowed)
        if self._asked:
            return refused_answers(title, {prompt.kind for prompt in self._asked})
        return self._unasked or refused_keys(title, self._failed, allowed, self._left_out())

    def _left_out(self) -> int:
        return sum(credential.id not in self._tried for credential in self._kept_back)

    def given_up(self, hung_up: ServerHungUp) -> ProblemError:
        """The server hung up too often."""
        if self._asked:
            return refused_answers(self._hop.title, {prompt.kind for prompt in self._asked})
        if self._failed:
            return refused_keys(self._hop.title, self._failed, (), self._left_out())
        return lost(self._hop.title, str(hung_up))


def _code(error: ProblemError) -> str:
    return error.problems[0].code
