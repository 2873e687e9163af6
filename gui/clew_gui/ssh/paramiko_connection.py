"""An SSH connection through paramiko: no program is needed, and one thread serves any number of streams."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from clew_gui.ssh import errors
from clew_gui.ssh.channels import (
    ChannelStream,
    ChannelTerminal,
    Reader,
    StdinWriter,
    pieces,
    read_all,
    sftp_read,
    sftp_stat,
    sftp_write,
    words_of,
)
from clew_gui.ssh.connection import (
    Command,
    Finished,
    Hop,
    RemoteFile,
    Size,
    SshFiles,
    for_login_shell,
    lost,
    marked,
    new_mark,
    shell_line,
    skip_noise,
    timed_out,
    unmarked,
)
from clew_gui.ssh.errors import (
    busy,
    cannot_connect,
    incompatible,
    no_file,
    no_further_command,
    no_such_name,
    not_reached,
    proxy_failed,
    refused_channel,
    when_there_is_room,
    with_unsupported,
)
from clew_gui.ssh.host_keys import HostKey, HostKeys
from clew_gui.ssh.login import Login, ServerHungUp
from clew_gui.ssh.prompts import Prompter, Unattended
from clew_gui.ssh.proxy_command import ProxyCommand
from clew_gui.ssh.transport import Bound, SshTransport
from clew_shared.base.problem import ProblemError

T = TypeVar("T")

_KNOCK_S = 4.0
"""The seconds that a server may take to accept a connection before it is asked again."""
_DIALS = 4
"""The number of times that a hop is dialled if the server hangs up in the middle of the login."""
_PIECE = 4 << 20
"""Bytes that one command carries up."""

# The path is an argument of the shell, never a part of its text. tail counts from 1, and needs no block size.
_READ = 'test -d "$1" && { echo "Is a directory" >&2; exit 1; }; '
_READ_ALL = _READ + 'exec tail -c "+$2" -- "$1"'
_READ_SOME = _READ + 'test -r "$1" || exec cat -- "$1"; tail -c "+$2" -- "$1" | head -c "$3"'
_CREATE = 'umask 077; if test -f "$1"; then :; else : >"$1"; fi && chmod "$2" "$1" && : >"$1" && exec cat >>"$1"'
_EXTEND = (
    'test -f "$1" && { truncate -s "$2" -- "$1" || exec dd if=/dev/null of="$1" bs=1 seek="$2"; } && exec cat >>"$1"'
)
_STAT = 'LC_ALL=C exec stat -L -c "%s %Y %a %F" -- "$1"'


def dial_paramiko(
    hop: Hop, files: SshFiles, asker: Prompter, timeout: float = 30.0, through: ParamikoConnection | None = None
) -> ParamikoConnection:
    """Connect to a server and log in; ``timeout`` is for what needs no person.

    Raises ``ProblemError``, or ``PersonNeeded`` with an ``Unattended`` asker.
    """

    def connect() -> Any:
        return _dial(hop, timeout) if through is None else through.tcp_channel(hop.host, hop.port, timeout)

    try:
        return _log_in(hop, files, asker, timeout, connect, through)
    except ProblemError as error:
        raise with_unsupported(hop, error) from error.__cause__


def _dial(hop: Hop, timeout: float) -> socket.socket:
    if hop.proxy_command:
        return ProxyCommand(hop)
    started = time.monotonic()
    while True:
        left = timeout - (time.monotonic() - started)
        try:
            # The system itself would pause ever longer between its attempts, and miss a network that is back.
            sock = socket.create_connection((hop.host, hop.port), max(min(left, _KNOCK_S), 0.1))
            break
        except socket.gaierror as error:
            raise no_such_name(hop) from error
        except OSError as error:
            if not isinstance(error, TimeoutError) or left <= _KNOCK_S:
                raise not_reached(hop, error) from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _log_in(
    hop: Hop,
    files: SshFiles,
    asker: Prompter,
    timeout: float,
    dial: Callable[[], Any],
    below: ParamikoConnection | None,
) -> ParamikoConnection:
    login = Login(hop, files, asker)
    hung_up = ServerHungUp()
    for _ in range(_DIALS):
        link = _shake_hands(hop, files, asker, timeout, dial)
        try:
            how = login.run(link)
        except ServerHungUp as error:
            hung_up = error
            link.end()
            continue
        except BaseException:
            link.end()
            raise
        later = asker.asker if isinstance(asker, Unattended) else asker  # for hops that are wanted afterwards
        passed = (*(below.passed if below is not None else ()), (hop.title, how))
        return ParamikoConnection(link, hop, passed, files, later, login.asked_codes, below)
    raise login.given_up(hung_up)


def _shake_hands(hop: Hop, files: SshFiles, asker: Prompter, timeout: float, dial: Callable[[], Any]) -> SshTransport:
    """A link whose server has shown a key that is known; nothing of the person's was sent yet."""
    keys = HostKeys(hop, files)
    for pause in (0.0, *errors.BUSY_PAUSES_S):
        time.sleep(pause)
        sock = dial()
        link = SshTransport(sock, hop.title)
        link.certificate_first = keys.has_authority()
        prefer(link, keys.known_types())
        link.banner_timeout = link.handshake_timeout = timeout
        try:
            link.start_client(timeout=timeout)
            shown = link.get_remote_server_key()
            certificate = shown.public_blob.key_blob if shown.public_blob is not None else b""
            keys.check(HostKey(shown.get_name(), shown.asbytes()), asker, certificate)
            return link
        except IncompatiblePeer as error:
            link.end()
            raise incompatible(hop, str(error), link.offered) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            link.end()
            if isinstance(sock, ProxyCommand) and sock.words:
                raise proxy_failed(hop, sock.words) from error
            if not _is_busy(error):
                raise _no_handshake(hop, error, timeout) from error
        except BaseException:
            link.end()
            raise
    raise busy(hop)


def prefer(link: SshTransport, known: list[str]) -> None:
    """Ask for a key of a type that is known, or a server with several would look like one that changed. Then for a
    cipher that authenticates as well: where a processor has no instructions for SHA-256, that took half of all time."""
    options = link.get_security_options()
    options.ciphers = sorted(options.ciphers, key=lambda name: "-gcm" not in name)
    types = list(options.key_types)
    wanted = [name for name in types if _plain_type(name) in known]
    options.key_types = wanted + [name for name in types if name not in wanted]


def _plain_type(name: str) -> str:
    return "ssh-rsa" if name.startswith("rsa-sha2-") else name


def _is_busy(error: Exception) -> bool:
    """Whether the server hung up before its greeting. Of a greeting that does not come paramiko says the same words."""
    return "protocol banner" in str(error) and not isinstance(error.__context__, TimeoutError)


def _no_handshake(hop: Hop, error: Exception, timeout: float) -> ProblemError:
    late = ("Negotiation failed", "No existing session", "protocol banner")
    if isinstance(error, EOFError) or any(words in str(error) for words in late):
        return timed_out(hop.title, "the first greeting", timeout)
    return not_reached(hop, error)


class ParamikoConnection:
    """A ``Connection`` through paramiko; its files go through SFTP, or a shell where there is none. Made by
    ``dial_paramiko``, ``hop`` and ``connect_to_relay``.

    ``below`` is the one that it goes through, if any; ``asker`` is for hops that are wanted afterwards, ``asks_codes``
    says whether this hop asked for a code.
    """

    def __init__(
        self,
        link: SshTransport,
        hop: Hop,
        passed: tuple[tuple[str, str], ...],
        files: SshFiles,
        asker: Prompter,
        asks_codes: bool,
        below: ParamikoConnection | None,
    ) -> None:
        self.passed: tuple[tuple[str, str], ...] = passed
        self.asks_codes: bool = asks_codes or (below is not None and below.asks_codes)
        self.owns_below = False
        """Whether closing this one closes the hops that it goes through."""
        self._title = hop.title
        self._files = files
        self._asker = asker
        self._below = below
        self.link = link
        """What speaks SSH underneath."""
        self._sftp_is_there = True
        self._resting: paramiko.SFTPClient | None = None
        """An SFTP session that nobody uses just now, for the next file."""
        self._resting_lock = threading.Lock()

    @property
    def alive(self) -> bool:
        """See ``Connection.alive``."""
        return self.link.is_active()

    # --- Commands ----------------------------------------------------------------------------------------------------

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        """See ``Connection.run``. The status is -1 when the command died of a signal."""
        mark = new_mark()
        with self._session(f"the command {_short(command)}", timeout) as channel:
            channel.exec_command(marked(command, mark))
            err = Reader(channel.recv_stderr)
            writer = StdinWriter(channel, stdin)
            out = read_all(channel.recv)
            noise = err.result()
            status = channel.recv_exit_status()
            writer.join()
        if status == -1 and self.link.has_ended(channel):
            raise lost(self._title, self.link.goodbye)
        return unmarked(status, out, noise, mark, self._title)

    def open(self, command: Command, timeout: float = 30.0) -> ChannelStream:
        """See ``Connection.open``."""
        mark = new_mark()
        with self._session(f"the command {_short(command)}", timeout, keep=True) as channel:
            channel.exec_command(marked(command, mark))
            rest = skip_noise(channel.recv, mark, self._title)
        return ChannelStream(self.link, channel, self._title, rest, mark)

    def terminal(self, command: Command, term: str, size: Size | None, timeout: float = 30.0) -> ChannelTerminal:
        """See ``Connection.terminal``."""
        with self._session(f"the command {_short(command)}", timeout, keep=True) as channel:
            if size is not None:
                channel.get_pty(term, size.columns, size.rows)
            else:
                channel.set_combine_stderr(True)
            channel.exec_command(for_login_shell(shell_line(command)))
        return ChannelTerminal(self.link, channel, self._title)

    # --- Streams and hops --------------------------------------------------------------------------------------------

    def connect(self, host: str, port: int, timeout: float = 10.0) -> ChannelStream:
        """See ``Connection.connect``."""
        return ChannelStream(self.link, self.tcp_channel(host, port, timeout), self._title)

    def tcp_channel(self, host: str, port: int, timeout: float) -> paramiko.Channel:
        """A bare channel to ``host:port``, for a further hop. Raises ``ProblemError``."""
        try:
            return self.link.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=timeout)
        except paramiko.ChannelException as error:
            raise refused_channel(self._title, host, port, error.code, self.link.refusal) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            if self._is_over(error):
                raise lost(self._title, self.link.goodbye) from error
            raise cannot_connect(self._title, host, port, f"no answer within {timeout:g} s") from error

    def hop(self, hop: Hop, timeout: float = 30.0) -> ParamikoConnection:
        """See ``Connection.hop``."""
        return dial_paramiko(hop, self._files, self._asker, timeout, self)

    # --- Files -------------------------------------------------------------------------------------------------------

    def read(self, path: str, offset: int = 0, limit: int | None = None, timeout: float = 60.0) -> bytes:
        """See ``Connection.read``."""

        def by_shell() -> bytes:
            script, rest = (_READ_ALL, []) if limit is None else (_READ_SOME, [str(limit)])
            return self._done(self.run(_sh(script, path, str(offset + 1), *rest), timeout=timeout), path).stdout

        return self._by_sftp(lambda sftp: sftp_read(sftp, path, offset, limit), by_shell, path, timeout)

    def write(
        self, path: str, data: bytes | Path, *, mode: int = 0o600, offset: int = 0, timeout: float = 600.0
    ) -> None:
        """See ``Connection.write``. A new file is its owner's alone before anything is in it."""

        def by_shell() -> None:
            begin = _sh(_EXTEND, path, str(offset)) if offset else _sh(_CREATE, path, f"{mode:o}")
            for number, piece in enumerate(pieces(data, _PIECE)):
                command = _sh('exec cat >>"$1"', path) if number else begin
                self._done(self.run(command, stdin=piece, timeout=timeout), path)

        self._by_sftp(lambda sftp: sftp_write(sftp, path, data, mode, offset), by_shell, path, timeout)

    def stat(self, path: str, timeout: float = 30.0) -> RemoteFile | None:
        """See ``Connection.stat``."""

        def by_shell() -> RemoteFile | None:
            done = self.run(_sh(_STAT, path), timeout=timeout)
            if done.exit_status != 0 and any(text in done.stderr for text in (b"No such file", b"Not a directory")):
                return None
            size, modified, mode, kind = self._done(done, path).stdout.decode(errors="replace").strip().split(" ", 3)
            return RemoteFile(int(size), float(modified), int(mode, 8) & 0o7777, kind == "directory")

        return self._by_sftp(lambda sftp: sftp_stat(sftp, path), by_shell, path, timeout)

    def _done(self, done: Finished, path: str) -> Finished:
        if done.exit_status != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise no_file(path, self._title, said or ["it cannot be used"])
        return done

    def _by_sftp(
        self, sftp: Callable[[paramiko.SFTPClient], T], shell: Callable[[], T], path: str, timeout: float
    ) -> T:
        """Works through SFTP; through the shell if there is no SFTP, or a noisy login shell spoils it."""
        client = self._sftp_client(path, timeout)
        if client is None:
            return shell()
        channel = client.get_channel()
        if channel is None:
            raise lost(self._title, self.link.goodbye)
        with self._bounded(channel, path, timeout, keep=True, started=time.monotonic()):
            try:
                found = sftp(client)
            except (OSError, paramiko.SFTPError) as error:
                if channel.closed:
                    raise
                raise no_file(path, self._title, [words_of(error)]) from error
        self._rest(client)
        return found

    def _sftp_client(self, path: str, timeout: float) -> paramiko.SFTPClient | None:
        """Returns an idle SFTP client, or a new one: a login node may need half a second for that. None if there is no
        SFTP."""
        with self._resting_lock:
            client, self._resting = self._resting, None
        if client is not None and _is_open(client):
            return client
        if not self._sftp_is_there:
            return None
        with self._session(path, timeout, keep=True) as channel:
            try:
                channel.invoke_subsystem("sftp")
                return paramiko.SFTPClient(channel)
            except (paramiko.SSHException, paramiko.SFTPError, EOFError, OSError) as error:
                if not self.link.is_active():
                    raise lost(self._title, self.link.goodbye) from error
            channel.close()
        self._sftp_is_there = False
        return None

    def _rest(self, client: paramiko.SFTPClient | None) -> bool:
        """Keep ``client`` for the next file and end the one that rests, if any; whether there was one."""
        with self._resting_lock:
            before, self._resting = self._resting, client
        if before is not None:
            with suppress(paramiko.SSHException, EOFError, OSError):
                before.close()
        return before is not None

    # --- The link ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _session(self, what: str, timeout: float, keep: bool = False) -> Iterator[paramiko.Channel]:
        """A session channel whose whole use is bounded. Its errors come out as ``ProblemError``."""
        started = time.monotonic()
        channel = when_there_is_room(lambda: self._open_session(what, timeout), timeout)
        with self._bounded(channel, what, timeout, keep, started):
            yield channel

    @contextmanager
    def _bounded(
        self, channel: paramiko.Channel, what: str, timeout: float, keep: bool, started: float
    ) -> Iterator[None]:
        """Use of a channel within ``timeout`` after it ``started``; the channel is closed afterwards, unless all went
        well and it is to be kept."""
        good = False
        bound = Bound(self.link, channel, timeout - (time.monotonic() - started))
        try:
            with bound:
                yield
            good = True
        except (paramiko.SSHException, paramiko.SFTPError, EOFError, OSError) as error:
            if bound.expired:
                raise timed_out(self._title, what, timeout) from error
            raise lost(self._title, self.link.goodbye) from error
        finally:
            if not (good and keep):
                with suppress(paramiko.SSHException, EOFError, OSError):
                    channel.close()
        if bound.expired:
            raise timed_out(self._title, what, timeout)

    def _open_session(self, what: str, timeout: float) -> paramiko.Channel:
        try:
            return self.link.open_session(timeout=timeout)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if _is_refused(error):
                if self._rest(None):  # its session is of more use now
                    return self._open_session(what, timeout)
                raise no_further_command(self._title, self.link.refusal) from error
            if self._is_over(error):
                raise lost(self._title, self.link.goodbye) from error
            raise timed_out(self._title, what, timeout) from error

    def _is_over(self, error: Exception) -> bool:
        """Whether a channel was not opened because the link has ended: who sends may notice it before who reads."""
        return not self.link.is_active() or not isinstance(error, paramiko.SSHException)

    def probe(self, timeout: float = 5.0) -> bool:
        """See ``Connection.probe``."""
        return self.link.is_active() and self.link.ping(timeout)

    def close(self) -> None:
        """See ``Connection.close``."""
        self.link.end()
        if self.owns_below and self._below is not None:
            self._below.close_all()

    def close_all(self) -> None:
        """Close this one and all hops that it goes through."""
        self.owns_below = True
        self.close()


def _is_refused(error: Exception) -> bool:
    """Whether the server opened no channel. Of threads that are refused together paramiko tells one the reason."""
    return isinstance(error, paramiko.ChannelException) or "Unable to open channel" in str(error)


def _is_open(client: paramiko.SFTPClient) -> bool:
    channel = client.get_channel()
    return channel is not None and not channel.closed and not channel.eof_received


def _short(command: Command) -> str:
    words = command if isinstance(command, str) else " ".join(command)
    return words if len(words) <= 60 else f"{words[:57]}..."


def _sh(script: str, *arguments: str) -> list[str]:
    return ["/bin/sh", "-c", script, "clew", *arguments]
