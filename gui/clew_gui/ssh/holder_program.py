"""The process that holds one login and lets this user's programs use it: ``python -m clew_gui.ssh.holder_program``.

See ``holder`` for how it is started, and ``relay`` for how programs use the login. It ends some time after its
last use, when the server is silent for two minutes or hangs up, and when it is killed: it has nothing to put in order.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from clew_gui.ssh.connection import lost
from clew_gui.ssh.holder import (
    AnswerRefused,
    HolderMessage,
    HolderNotice,
    HolderRequest,
    LoginDone,
    PersonAnswer,
    PersonAsked,
    read_request,
    send,
)
from clew_gui.ssh.kept_logins import SOCKET, KeptLogin, KeptLogins, last_use, login_id, note_use, write_record
from clew_gui.ssh.paramiko_connection import ParamikoConnection, dial_paramiko
from clew_gui.ssh.prompts import Prompt, Prompter
from clew_gui.ssh.relay import Relay
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError
from clew_shared.base.process_identity import began

_PING_EVERY_S = 15.0
_PINGS = 8
"""So many questions in turn may stay without an answer: two minutes. The time that a laptop sleeps counts as one."""
_BACKLOG = 16
_PAUSE_S = 1.0


def main() -> int:
    """Log in as standard input says, and hold the login to its end. The exit status is 1 when there is none."""
    os.umask(0o077)
    talk = _Starter(sys.stdin.buffer, sys.stdout.buffer)
    request = read_request(sys.stdin.buffer.readline())
    operating_system.set_title(f"clew login {request.hops[-1].title}")
    try:
        connection = _log_in(request, talk)
        relay = Relay(connection)
        listener = operating_system.listen_locally(request.folder / SOCKET, _BACKLOG)
        login = _record(request, connection, relay)
        write_record(request.folder, login)
    except ProblemError as error:
        talk.say(LoginDone(error.problems))
        return 1
    talk.say(LoginDone())
    _let_go_of_standard_streams()
    threading.Thread(target=_accept, args=(listener, relay), name="programs", daemon=True).start()
    stay(relay, request.folder, login.keep_s)
    relay.end()
    with suppress(OSError):
        KeptLogins(request.files).forget(login)
    return 0


class _Starter(Prompter):
    """The program that started this one asks, and remembers; nothing is remembered here."""

    def __init__(self, answers: IO[bytes], questions: IO[bytes]) -> None:
        self._answers = answers
        self._questions = questions
        self._turn = threading.Lock()

    def say(self, message: HolderMessage) -> None:
        """Say something; nobody may be there any more."""
        with self._turn, suppress(OSError):
            send(self._questions, message)

    def ask(self, prompt: Prompt) -> str | None:
        """See ``Prompter.ask``. None also when the program that started this one has ended."""
        self.say(PersonAsked(prompt))
        line = self._answers.readline()
        return msgspec.json.decode(line, type=PersonAnswer).text if line else None

    def refused(self, prompt: Prompt) -> None:
        """See ``Prompter.refused``."""
        self.say(AnswerRefused(prompt))

    def show_message(self, text: str) -> None:
        """See ``Prompter.show_message``."""
        self.say(HolderNotice(text))

    def show_greeting(self, text: str) -> None:
        """See ``Prompter.show_greeting``."""
        self.say(HolderNotice(text, greeting=True))


def _log_in(request: HolderRequest, asker: Prompter) -> ParamikoConnection:
    *way, hop = request.hops
    if not way:
        return dial_paramiko(hop, request.files, asker, request.timeout)
    below = KeptLogins(request.files).find(way, asker)
    if below is None:
        raise lost(way[-1].title, "the login there ended meanwhile")
    return dial_paramiko(hop, request.files, asker, request.timeout, below)


def _record(request: HolderRequest, connection: ParamikoConnection, relay: Relay) -> KeptLogin:
    way, (*before, (title, how)) = request.hops[:-1], connection.passed
    return KeptLogin(
        id=login_id(request.hops),
        title=title,
        passed=(*before, (title, f"{how} at {time.strftime('%H:%M')}")),
        pid=os.getpid(),
        since=time.time(),
        keep_s=request.files.keep_login_s,
        asks_codes=connection.asks_codes,
        through=login_id(way) if way else "",
        began=began(),
        key=relay.public_key,
    )


def _let_go_of_standard_streams() -> None:
    """The terminal of the program that started this one can close."""
    operating_system.silence()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _accept(listener: socket.socket, relay: Relay) -> None:
    try:
        while relay.alive:
            try:
                sock, _ = listener.accept()
            except ConnectionAbortedError:  # someone who may not, or who left at once
                continue
            except OSError:  # too many open files
                time.sleep(_PAUSE_S)
                continue
            relay.serve(sock)
    finally:  # nobody can come any more
        relay.end()


def stay(relay: Relay, folder: Path, keep_s: int) -> None:
    """Return when the login has to end."""
    used, was_in_use, unanswered, asked = _Moment(), True, 0, _Moment()
    relay.ping()
    while relay.alive and unanswered < _PINGS:
        relay.changed.clear()
        in_use = relay.programs > 0
        try:
            if in_use or was_in_use:
                used = _Moment()
                note_use(folder)
            last_use(folder)
        except OSError:  # a logout has removed it
            return
        was_in_use = in_use
        left = keep_s - used.ago()
        if left <= 0:
            return
        if asked.ago() >= _PING_EVERY_S:
            unanswered = unanswered + 1 if relay.heard < asked.steady else 0
            asked = _Moment()
            relay.ping()
        relay.changed.wait(_PING_EVERY_S if in_use else min(_PING_EVERY_S, left))


class _Moment:
    """Now. By the calendar's clock as well: the other one may stand still while a laptop sleeps."""

    def __init__(self) -> None:
        self.steady = time.monotonic()
        self._calendar = time.time()

    def ago(self) -> float:
        """Returns how many seconds have gone by since then."""
        return max(time.monotonic() - self.steady, time.time() - self._calendar)


if __name__ == "__main__":
    sys.exit(main())
