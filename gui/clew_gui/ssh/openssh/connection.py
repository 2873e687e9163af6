"""SSH through the system's ``ssh``: for servers that paramiko cannot speak to, FIDO keys, Kerberos and ProxyCommand.

One master process per hop holds the login (ControlMaster); commands, streams and further hops go through its socket,
which lies in a folder of the user alone. What it asks is asked through ``askpass_bridge``.
"""

from __future__ import annotations

import io
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from clew_gui.ssh.connection import (
    Command,
    Finished,
    Hop,
    Size,
    SshFiles,
    after_mark,
    for_login_shell,
    lost,
    marked,
    new_mark,
    shell_line,
    skip_noise,
    timed_out,
    unmarked,
)
from clew_gui.ssh.errors import PROHIBITED, cannot_connect, no_further_command, refused_channel, when_there_is_room
from clew_gui.ssh.hop_connection import HopConnection, route_to
from clew_gui.ssh.last_words import LastWords
from clew_gui.ssh.openssh.master import Master, private_folder
from clew_gui.ssh.prompts import AskOnce, PromptKind
from clew_gui.ssh.terminals import ProcessTerminal
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError

_POLL_S = 0.02
_END_S = 2.0
_BUFFER = 1 << 20
"""The buffer size between two processes that pass bytes on in turn: with the system's usual 200 KB each waits for the
other."""
_REASON_S = 0.5
"""The master says why a channel was refused a moment after its client says that it was."""
_CANNOT = 255
"""The exit status of ``ssh`` if it fails itself, and also if the command died of a signal."""
_OPENED = b"master session id"


def has_system_ssh(files: SshFiles) -> bool:
    """Whether there is an OpenSSH that can ask without a terminal (8.4) and keep a master (not on Windows)."""
    if not operating_system.HAS_UNIX_SOCKETS or shutil.which(files.ssh) is None:
        return False
    said = subprocess.run([files.ssh, "-V"], capture_output=True, text=True, check=False, timeout=10.0).stderr
    found = re.search(r"OpenSSH_(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= (8, 4)


def dial_system(
    hop: Hop,
    files: SshFiles,
    asker: AskOnce,
    timeout: float = 30.0,
    through: SystemSsh | None = None,
    because: str = "",
) -> SystemSsh:
    """Connect and log in; ``timeout`` is for what needs no person. Raises ``ProblemError``."""
    how = f"the system's ssh, because {because}" if because else "the system's ssh"
    master = Master(hop, files, private_folder(files.runtime))
    try:
        asked = master.log_in(asker, timeout, through.master if through is not None else None)
    except BaseException:
        master.end()
        raise
    return SystemSsh(master, route_to(hop, how, through), files, asker, PromptKind.CODE in asked, through)


class SystemSsh(HopConnection):
    """A ``Connection`` through the system's ``ssh``. Made by ``dial_system``, ``hop`` and ``KeptLogins``."""

    def __init__(
        self,
        master: Master,
        route: str,
        files: SshFiles,
        asker: AskOnce,
        asks_codes: bool,
        below: SystemSsh | None = None,
    ) -> None:
        super().__init__(master.hop, route, files, asker, asks_codes, below)
        self.master = master
        self._streams: set[ProcessStream] = set()

    @property
    def alive(self) -> bool:
        """See ``Connection.alive``."""
        return self.master.alive

    # --- Commands ----------------------------------------------------------------------------------------------------

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        """See ``Connection.run``. ``ssh`` says 255 of a command that died of a signal."""
        return when_there_is_room(lambda: self._run_once(command, stdin, timeout), timeout)

    def _run_once(self, command: Command, stdin: bytes, timeout: float) -> Finished:
        self._check()
        mark = new_mark()
        process = subprocess.Popen(
            [*self.master.client(), "clew", marked(command, mark)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with process:
            try:
                out, err = process.communicate(stdin, timeout)
            except subprocess.TimeoutExpired as error:
                raise timed_out(self._title, "a command", timeout) from error
            finally:
                process.kill()
        if process.returncode == _CANNOT:
            self._check_started(out, err, mark)
        return unmarked(process.returncode, out, err, mark, self._title)

    def _check_started(self, out: bytes, err: bytes, mark: bytes) -> None:
        """Checks that the command started, because 255 is also the exit status of ``ssh`` itself if it fails."""
        if not self.master.alive:
            raise lost(self._title, self._last_words())
        if b"session request failed" in err and after_mark(out, mark) is None:
            raise no_further_command(self._title)

    def _check(self) -> None:
        if not self.master.alive:
            raise lost(self._title, self._last_words())

    def _last_words(self) -> str:
        return self.master.words().rpartition("\n")[2].rstrip(".")

    def open(self, command: Command, timeout: float = 30.0) -> ProcessStream:
        """See ``Connection.open``."""
        self._check()
        mark = new_mark()
        stream = self._stream(["clew", marked(command, mark)], mark)
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            stream.close()

        timer = threading.Timer(timeout, expire)
        timer.daemon = True
        timer.start()
        try:
            stream.begun = skip_noise(stream.recv, mark, self._title)
        except ProblemError as error:
            stream.close()
            self._check()
            raise (timed_out(self._title, "a command", timeout) if expired.is_set() else error) from None
        finally:
            timer.cancel()
        return stream

    def terminal(self, command: Command, term: str, size: Size | None, timeout: float = 30.0) -> ProcessTerminal:
        """See ``Connection.terminal``."""
        self._check()
        client = [word for word in self.master.client() if word != "-T"]
        kind = ["env", f"TERM={term}"] if term else []
        line = for_login_shell(shell_line(command))
        return ProcessTerminal([*kind, *client, "-tt" if size is not None else "-T", "clew", line], size)

    def _stream(self, arguments: Sequence[str], mark: bytes = b"") -> ProcessStream:
        stream = ProcessStream([*self.master.client(), *arguments], self, mark)
        self._streams.add(stream)
        return stream

    def forget(self, stream: ProcessStream) -> None:
        """A stream was closed."""
        self._streams.discard(stream)

    # --- Streams and hops --------------------------------------------------------------------------------------------

    def connect(self, host: str, port: int, timeout: float = 10.0) -> ProcessStream:
        """See ``Connection.connect``."""
        self._check()
        heard = self.master.heard
        stream = self._stream(["-v", "-W", f"[{host}]:{port}", "clew"])
        if stream.opened(timeout):
            return stream
        ended = stream.has_ended()
        stream.close()
        self._check()
        if not ended:
            raise cannot_connect(self._title, host, port, f"no answer within {timeout:g} s")
        words = self._reason(heard)
        raise refused_channel(self._title, host, port, PROHIBITED if "prohibited" in words else 0, words)

    def _reason(self, heard: int) -> str:
        """Returns what the master said about a channel that was not opened."""
        deadline = time.monotonic() + _REASON_S
        while time.monotonic() < deadline:
            for line in self.master.since(heard):
                if found := re.search(r"open failed: (.*)", line):
                    return re.sub(r": open failed$", "", found[1])
            time.sleep(_POLL_S)
        return ""

    def hop(self, hop: Hop, timeout: float = 30.0) -> SystemSsh:
        """See ``Connection.hop``."""
        self._check()
        return dial_system(hop, self._files, self._asker, timeout, self)

    # --- The link ----------------------------------------------------------------------------------------------------

    def probe(self, timeout: float = 5.0) -> bool:
        """See ``Connection.probe``. A server that has no room for a further command has answered as well."""
        try:
            self._run_once("true", b"", timeout)
        except ProblemError as error:
            return error.problems[0].code not in ("ssh.timeout", "ssh.lost")
        return True

    def end(self) -> None:
        """See ``HopConnection.end``."""
        for stream in tuple(self._streams):
            stream.close()
        self.master.close()


class ProcessStream:
    """A ``Stream`` over a client process of a master; the bytes go through a pair of sockets. With a ``mark`` it is
    that of a command, whose standard error begins with it."""

    def __init__(self, command: Sequence[str], owner: SystemSsh, mark: bytes = b"") -> None:
        self.begun = b""
        self._owner = owner
        self._sock, theirs = socket.socketpair()
        for end in (self._sock, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)  # the system may give less
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                **operating_system.own_session(),
            )
        self._opened = threading.Event()
        self._failed = False
        self._closed = False
        self._said = b""
        errors = self._process.stderr
        assert isinstance(errors, io.BufferedReader)  # noqa: S101  # a pipe
        self._errors = errors
        self._words = LastWords(errors.read1, mark, "ssh client", self._listen)

    def _listen(self, data: bytes) -> None:
        """Handles the client's messages, which show that its channel was opened; empty data is their end."""
        if not data:
            self._errors.close()
            self._failed = not self._opened.is_set()
            self._opened.set()
        elif not self._opened.is_set():
            self._said = self._said[-len(_OPENED) :] + data
            if _OPENED in self._said:
                self._opened.set()

    def last_words(self) -> str:
        """See ``Stream.last_words``."""
        return self._words.text()

    def opened(self, timeout: float) -> bool:
        """Whether the server opened the channel within ``timeout``."""
        return self._opened.wait(timeout) and not self._failed

    def has_ended(self) -> bool:
        """Whether the client has given up, rather than waits."""
        return self._opened.is_set()

    def recv(self, limit: int) -> bytes:
        """See ``Stream.recv``."""
        if self.begun:
            data, self.begun = self.begun[:limit], self.begun[limit:]
            return data
        try:
            data = self._sock.recv(limit)
        except OSError:
            data = b""
        if not data and self._was_lost():
            raise lost(self._owner.master.hop.title)
        return data

    def _was_lost(self) -> bool:
        """Whether this end is that of the link: the client notices a moment before the master has ended."""
        if self._closed:
            return False
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_END_S) == _CANNOT and self._owner.master.has_ended(_END_S)
        return False

    def send(self, data: bytes) -> None:
        """See ``Stream.send``."""
        try:
            self._sock.sendall(data)
        except OSError as error:
            raise lost(self._owner.master.hop.title) from error

    def end(self) -> None:
        """See ``Stream.end``."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """See ``Stream.close``."""
        self._closed = True
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self._process.kill()
        self._process.wait()
        self._words.join(_END_S)
        self._owner.forget(self)
