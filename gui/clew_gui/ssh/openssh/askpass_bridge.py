"""Clew asks what the system's ``ssh`` asks: an owner-only socket, and a small program named by ``SSH_ASKPASS``."""

from __future__ import annotations

import json
import logging
import re
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from clew_gui.ssh.connection import Hop
from clew_gui.ssh.host_keys import question
from clew_gui.ssh.openssh import askpass
from clew_gui.ssh.prompts import AskOnce, Prompt, PromptKind, kind_of, plain, server_words
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError

_log = logging.getLogger(__name__)

_FINGERPRINT = re.compile(r"(\S+) key fingerprint is (SHA256:[A-Za-z0-9+/=]+)")
_KEY_FILE = re.compile(r"passphrase for (?:key )?'?(.+?)'?:", re.IGNORECASE)
_QUESTION_S = 5.0
_TURN_S = 0.1
_TRIES = 3
_JOIN_S = 1.0


def prompt_of(text: str, hop: Hop) -> Prompt:
    """The question of ``ssh`` as one of ours: the key file or the host as title, the server's own wording kept."""
    kind, words = kind_of(text), plain(text).strip()
    if kind is PromptKind.CONFIRM and (found := _FINGERPRINT.search(words)):
        return question(hop, found[1], found[2])
    if kind is PromptKind.PASSPHRASE and (key := _KEY_FILE.search(words)):
        return Prompt(kind=kind, title=key[1], text=f"Passphrase for the key {key[1]}:")
    words = re.sub(r"^\([^()]*@[^()]*\) ", "", words)  # what ssh puts before a server's question
    if kind is PromptKind.PASSWORD and words.lower().endswith("'s password:"):
        words = "Password:"
    return Prompt(kind=kind, title=hop.title, text=words, echo=kind is PromptKind.CONFIRM)


class _Question(msgspec.Struct, frozen=True):
    """A question from the program that ``ssh`` starts: ssh's words, and their kind as that program names it."""

    text: str
    hint: str = ""


def read_question(data: bytes) -> _Question:
    """Raises ``ValueError``, ``msgspec.MsgspecError`` or ``RecursionError``. ``ssh`` may pass on what is no UTF-8."""
    return msgspec.convert(json.loads(data), _Question)


class AskpassBridge:
    """Answers for one ``ssh`` while it logs in.

    ``problem`` is what kept it from asking; ``cancelled``: the person did not want to answer. ``over`` is set when it
    must ask no more: what it has no answer for it sends as an empty one, which counts as a wrong password. ``said`` is
    what was said to the person since the last question, ``is_late`` whether the login had to wait for longer than a
    server that waits for nobody.

    Everything lies in ``folder``, which must belong to the user alone.
    """

    def __init__(self, folder: Path, hop: Hop, asker: AskOnce) -> None:
        self.problem: ProblemError | None = None
        self.cancelled = False
        self.said = ""
        self.is_late = False
        self.over = threading.Event()
        self._last: Prompt | None = None
        self._given: dict[Prompt, list[str]] = {}
        self.asking_s = 0.0
        self._hop = hop
        self._asker = asker
        self._folder = folder
        self._busy_since: float | None = None
        self._ended = threading.Event()
        self._socket = folder / "ask"
        self._listener = operating_system.listen_locally(self._socket, 4)
        self._listener.settimeout(_TURN_S)
        self._program = folder / "askpass"
        address = (str(int(self._listener.family)), str(self._socket))
        parts = [sys.executable, "-I", "-S", askpass.__file__, *address]
        self._program.write_text(f'#!/bin/sh\nexec {shlex.join(parts)} "$@"\n', encoding="utf-8", newline="\n")
        self._program.chmod(0o700)
        self._thread = threading.Thread(target=self._serve, name=f"ssh {hop.title} questions", daemon=True)
        self._thread.start()

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment for ``ssh``: it asks through the bridge and speaks English."""
        ask = {"SSH_ASKPASS": str(self._program), "SSH_ASKPASS_REQUIRE": "force"}
        return {"DISPLAY": ":0", **base, **ask, "LC_ALL": "C"}

    @property
    def asked(self) -> list[Prompt]:
        """Returns what was asked, each question once."""
        return list(self._given)

    def waited(self) -> float:
        """Seconds that went by while a person was asked."""
        busy = self._busy_since
        return self.asking_s + (time.monotonic() - busy if busy is not None else 0.0)

    def say(self, who: str, text: str) -> None:
        """Shows the person what the server or ``ssh`` says."""
        if said := server_words(who, text):
            self.said = said
            self._asker.show_message(said)

    def remind(self) -> None:
        """Shows once more what was said since the last question, because the login has not gone on since."""
        self.is_late = True
        if self.said:
            self._asker.show_message(f"{self._hop.title} has not let you in yet. {self.said}")

    def close(self) -> None:
        """Answer nothing any more, and leave nothing in the folder."""
        self._ended.set()
        self._thread.join(_JOIN_S)
        for name in (self._program, self._socket):
            name.unlink(missing_ok=True)

    def _serve(self) -> None:
        with self._listener:
            while not self._ended.is_set():
                try:
                    sock, _ = self._listener.accept()
                except OSError:  # the turn is over
                    continue
                with sock:
                    self._reply(sock)

    def _reply(self, sock: socket.socket) -> None:
        sock.settimeout(_QUESTION_S)
        try:
            asked = b""
            while data := sock.recv(65536):
                asked += data
            answer = self._timed(partial(self._answer, read_question(asked)))
            if self.over.is_set():
                self._ended.wait()  # no bound: the one who started ssh ends it and closes this
                return
            sock.sendall(b"-" if answer is None else b"+" + answer.encode())
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            _log.debug("a question of ssh went wrong: %s", error)

    def _timed(self, ask: Callable[[], str | None]) -> str | None:
        self._busy_since = started = time.monotonic()
        try:
            return ask()
        finally:
            self._busy_since = None
            self.asking_s += time.monotonic() - started

    def _answer(self, asked: _Question) -> str | None:
        if asked.hint == "none":  # only to be shown: "Confirm user presence for key"
            self.say("ssh", asked.text)
            return ""
        prompt = prompt_of(asked.text, self._hop)
        before = self._given.get(prompt, [])
        last, self._last = self._last, prompt
        secret = prompt.kind in (PromptKind.PASSWORD, PromptKind.CODE)
        if before:
            self._asker.refused(prompt)
        if len(before) == _TRIES or len(before) != len(set(before)):  # the same once more: a script, or one who is sure
            return self._no_more(secret)
        try:
            again = msgspec.structs.replace(prompt, again="That was refused.") if before else prompt
            self.said = ""
            answer = self._asker.ask(again)
        except ProblemError as error:
            self.problem = error
            return self._no_more(secret)
        if answer is None:
            self.cancelled = True
            return self._no_more(True)
        if answer in before and (prompt.kind is PromptKind.CODE or (secret and prompt == last)):  # sites lock accounts
            return self._no_more(True)
        self._given[prompt] = [*before, answer]
        if prompt.kind is PromptKind.CONFIRM:
            accepted = answer.strip().lower() == "yes" or answer.strip() in prompt.details
            return "yes" if accepted else "no"
        return answer

    def _no_more(self, at_all: bool) -> str | None:
        """Returns no answer; with ``at_all`` no further question is answered either."""
        if at_all:
            self.over.set()
        return None
