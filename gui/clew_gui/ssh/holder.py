"""Starts the process that logs in and holds the login for other programs, and asks a person what it has to ask.

It is a process of its own because a login cannot be handed from one process to another. Both talk in lines of JSON
through its standard input and output until it holds the login; then it lets go of them. Answers are nowhere else.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from clew_gui.ssh.connection import Hop, SshFiles
from clew_gui.ssh.prompts import Prompt, Prompter
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError, problem, raise_all

_TURN_S = 0.1
"""Windows notices Ctrl+C between two waits only."""
_SILENT_S = 600.0
"""Seconds in which it must say something. Its login has limits of its own; this is for a process that was stopped."""
_END_S = 5.0


class HolderRequest(msgspec.Struct, frozen=True):
    """What the process is to do: log in at the last of ``hops`` through the holders at all others, and put itself into
    ``folder``. ``timeout`` is for what needs no person, in seconds."""

    hops: tuple[Hop, ...]
    files: SshFiles
    folder: Path
    timeout: float


class PersonAsked(msgspec.Struct, frozen=True, tag=True):
    """Asks a person; a ``PersonAnswer`` comes back."""

    prompt: Prompt


class AnswerRefused(msgspec.Struct, frozen=True, tag=True):
    """The answer to this was wrong."""

    prompt: Prompt


class HolderNotice(msgspec.Struct, frozen=True, tag=True):
    """Something for a person that needs no answer. ``greeting``: it is said at every login."""

    text: str
    greeting: bool = False


class LoginDone(msgspec.Struct, frozen=True, tag=True):
    """It holds the login, or it failed with ``problems``. Nothing else comes."""

    problems: tuple[Problem, ...] = ()


class PersonAnswer(msgspec.Struct, frozen=True):
    """The answer to a question; None when the person cancelled."""

    text: str | None


HolderMessage = PersonAsked | AnswerRefused | HolderNotice | LoginDone


def send(file: IO[bytes], message: HolderRequest | PersonAnswer | HolderMessage) -> None:
    """Write a message. Raises ``OSError`` when the other end is gone."""
    file.write(msgspec.json.encode(message, enc_hook=str) + b"\n")
    file.flush()


def read_request(line: bytes) -> HolderRequest:
    """Reads what the holder is to do. Raises ``msgspec.MsgspecError``."""
    return msgspec.json.decode(line, type=HolderRequest, dec_hook=_path)


def _path(kind: type[Any], text: Any) -> Any:
    return kind(text)


def hold(request: HolderRequest, asker: Prompter) -> None:
    """Start a process that logs in and stays; returns when it holds the login. Raises ``ProblemError``, or ``OSError``
    when it cannot be started."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "clew_gui.ssh.holder_program"],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=request.folder.parent,  # which is there as long as the process: no folder of the person's is kept in use
        **operating_system.own_session(),
    )
    held = False
    try:
        _Talk(process, request.hops).until_held(request, asker)
        held = True
    finally:
        _let_go(process, held)


class _Talk:
    """What the process says, read in a thread of its own."""

    def __init__(self, process: subprocess.Popen[bytes], hops: Sequence[Hop]) -> None:
        self._process = process
        self._title = hops[-1].title
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, name=f"ssh {self._title} holder", daemon=True).start()

    def until_held(self, request: HolderRequest, asker: Prompter) -> None:
        """Have it log in. Raises as ``hold`` does."""
        self._tell(request)
        while True:
            match self._next():
                case PersonAsked(prompt):
                    self._tell(PersonAnswer(asker.ask(prompt)))
                case AnswerRefused(prompt):
                    asker.refused(prompt)
                case HolderNotice(text, greeting):
                    (asker.show_greeting if greeting else asker.show_message)(text)
                case LoginDone(problems):
                    raise_all(problems)
                    return

    def _tell(self, message: HolderRequest | PersonAnswer) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):  # it has ended, and ``_next`` says so
                send(self._process.stdin, message)

    def _read(self) -> None:
        if self._process.stdout is not None:
            with suppress(OSError, ValueError):  # it was closed here
                while line := self._process.stdout.readline():
                    self._lines.put(line)
        self._lines.put(b"")

    def _next(self) -> HolderMessage:
        started = time.monotonic()
        while time.monotonic() - started < _SILENT_S:
            with suppress(queue.Empty):
                if not (line := self._lines.get(timeout=_TURN_S)):
                    raise self._ended("it ended")
                found: HolderMessage = msgspec.json.decode(line, type=HolderMessage)
                return found
        raise self._ended(f"it said nothing for {_SILENT_S / 60:.0f} minutes")

    def _ended(self, why: str) -> ProblemError:
        self._process.kill()
        stderr = self._process.stderr
        said = stderr.read().decode(errors="replace").strip().splitlines()[-1:] if stderr is not None else []
        words = ": ".join([why, *said]).rstrip(".")
        text = f"The process that was to hold the login to {self._title} failed: {words}."
        return problem("ssh.kept", text, "Let no login stay: keep_login = 0 in the settings.", self._title)


def _let_go(process: subprocess.Popen[bytes], held: bool) -> None:
    """End it unless it holds a login, and close this end of its streams."""
    if not held:
        process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    if held:  # a system keeps what it knows of a process that has ended until the one that started it asks
        threading.Thread(target=process.wait, name=f"holder {process.pid}", daemon=True).start()
    else:
        operating_system.wait_or_kill(process, _END_S)
