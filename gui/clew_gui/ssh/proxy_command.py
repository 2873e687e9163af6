"""The way to a server that a ProxyCommand makes, as a socket: what paramiko sends goes into the command, and back.

A command has pipes, for which not every system can wait with a time limit; so two threads pass bytes on.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress

from clew_gui.ssh.connection import Hop
from clew_gui.ssh.prompts import plain
from clew_shared.base import operating_system

_CHUNK = 65536
_SHOWN = 400
_END_S = 2.0
"""Seconds for the threads to end after the command. What it left running may hold its output open."""


class ProxyCommand(socket.socket):
    """A connection through the command of ``hop``. Closing it ends the command and all that it has started."""

    def __init__(self, hop: Hop) -> None:
        self.words = ""
        """The last line that the command wrote to its standard error, once it was closed."""
        near, self._far = socket.socketpair()
        super().__init__(near.family, near.type, near.proto, near.detach())
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed by ``close``
        pipe = subprocess.PIPE
        self._process = operating_system.start_session(  # noqa: S604  # the person has agreed to it
            _expanded(hop), bufsize=0, stdin=pipe, stdout=pipe, stderr=self._said, shell=True
        )
        assert self._process.stdin is not None  # noqa: S101  # pipes
        assert self._process.stdout is not None  # noqa: S101
        self._input, self._output = self._process.stdin, self._process.stdout
        self._closing = threading.Lock()
        self._threads = [self._start(self._send_on), self._start(self._receive)]

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name="ProxyCommand", daemon=True)
        thread.start()
        return thread

    def _send_on(self) -> None:
        with suppress(OSError), self._input:
            while data := self._far.recv(_CHUNK):
                while data:
                    data = data[self._input.write(data) :]

    def _receive(self) -> None:
        with suppress(OSError, ValueError):  # closed meanwhile
            while data := self._output.read(_CHUNK):
                self._far.sendall(data)
            self._far.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close it, and end the command."""
        super().close()
        with self._closing:
            if not self._said.closed:
                self._end()

    def _end(self) -> None:
        operating_system.kill_session(self._process)
        self._process.wait()
        for thread in self._threads:
            thread.join(_END_S)
        for file in (self._far, self._output):
            file.close()
        with self._said as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - _CHUNK))
            self.words = "".join(plain(said.read().decode(errors="replace")).strip().splitlines()[-1:])[-_SHOWN:]


def _expanded(hop: Hop) -> str:
    """The command with the tokens that stand for its host (ssh_config(5), TOKENS)."""
    values = {"h": hop.host, "n": hop.name or hop.host, "p": str(hop.port), "r": hop.login}
    tokens = {"%": "%", **{letter: shlex.quote(value) for letter, value in values.items()}}
    return re.sub("%(.)", lambda found: tokens.get(found[1], found[0]), hop.proxy_command)
