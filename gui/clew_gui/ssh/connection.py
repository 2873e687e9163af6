"""The interface of every SSH connection: commands, files, streams, a further hop.

Every call takes its own time limit in seconds and raises ``ProblemError``; nothing here may be called from the window's
thread.
"""

from __future__ import annotations

import getpass
import secrets
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from clew_gui.base.settings import local_settings
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError, problem

NOISE_LIMIT = 65536
"""The number of bytes that a login shell may print before the command's own output is given up, per stream."""

Command = Sequence[str] | str


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """One SSH server on the way, with everything that ``~/.ssh/config`` said about it already resolved.

    ``name`` is what the person calls it. ``keys`` are private key files that were asked for by name: they come first.
    ``fingerprints`` are those the site publishes: shown beside the question, never trusted. ``known_hosts`` are files
    to read beside the usual ones. ``proxy_command`` was consented to before.
    ``certificates`` are for keys, ``missing_keys`` were named and are not there. ``agent`` is the address of an SSH
    agent, ``none`` for none; empty: the usual one. ``unsupported`` names what the configuration asks for and Clew does
    not do, as the end of a sentence.
    """

    host: str
    port: int = 22
    user: str = ""
    name: str = ""
    keys: tuple[str, ...] = ()
    identities_only: bool = False
    host_key_alias: str = ""
    known_hosts: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    proxy_command: str = ""
    certificates: tuple[str, ...] = ()
    missing_keys: tuple[str, ...] = ()
    agent: str = ""
    unsupported: str = ""

    @property
    def login(self) -> str:
        """The user's name there: as given, else the one on this computer."""
        return self.user or getpass.getuser()

    @property
    def title(self) -> str:
        """Returns the hop's name for people: "student@login"."""
        return f"{self.login}@{self.name or self.host}"


class SshFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files and folders on this computer that SSH uses.

    Keys of hosts that the person accepted go into ``known_hosts``, Clew's own file; ``also_known`` are only read.
    ``runtime`` is for sockets.
    ``keep_login_s``: so many seconds after its last use a login stays that asked a person something; 0: none stays.
    """

    known_hosts: Path
    runtime: Path
    also_known: tuple[Path, ...] = ()
    default_keys: tuple[Path, ...] = ()
    keep_login_s: int = 0


def ssh_files(places: Places) -> SshFiles:
    """The usual ones: the user's own and the system's, as OpenSSH has them."""
    folder, settings = Path.home() / ".ssh", local_settings(places)
    keep_login = settings.load().keep_login
    return SshFiles(
        known_hosts=places.config / "known_hosts",
        runtime=places.private,
        also_known=(folder / "known_hosts", folder / "known_hosts2", Path("/etc/ssh/ssh_known_hosts")),
        default_keys=tuple(folder / name for name in ("id_ed25519", "id_ecdsa", "id_rsa")),
        keep_login_s=0 if settings.problem is not None else max(0, keep_login) * 60,
    )


class Finished(msgspec.Struct, frozen=True):
    """A command that ended. What the login shell printed before it is in neither output.

    The status of a command that died of a signal is -1.
    """

    exit_status: int
    stdout: bytes
    stderr: bytes


class RemoteFile(msgspec.Struct, frozen=True):
    """The facts about a file there; ``modified`` in seconds since 1970, ``mode`` the permission bits."""

    size: int
    modified: float
    mode: int
    folder: bool = False


class Stream(Protocol):
    """Bytes in both directions. One thread may read while another writes; ``close`` may come from any and wakes
    both."""

    def recv(self, limit: int) -> bytes:
        """The next bytes; empty at the end. Raises ``ProblemError`` when the link died."""

    def send(self, data: bytes) -> None:
        """Send all of it; waits while the other side does not read."""

    def end(self) -> None:
        """Ends sending; reading goes on."""

    def close(self) -> None:
        """Closes both directions at once; a second call does no harm."""

    def last_words(self) -> str:
        """Returns what its command wrote to its standard error last, in one line; empty for a port. Waits a moment."""


UNKNOWN = 255
"""The exit status of ``ssh`` if it does not know the command's."""


class Size(msgspec.Struct, frozen=True):
    """The size of a terminal, in characters."""

    columns: int = 80
    rows: int = 24


class Terminal(Stream, Protocol):
    """A ``Stream`` with a screen at its end. ``recv`` gives what the command prints; empty: it has ended."""

    def resize(self, size: Size) -> None:
        """Tells the other end the window's new size. Does nothing if there is no terminal."""

    def exit_status(self, timeout: float) -> int:
        """Returns the command's exit status, after its end: 255 if it is not known within ``timeout`` seconds."""


def route_words(passed: tuple[tuple[str, str], ...]) -> str:
    """The route for people: "student@login (key ~/.ssh/id_ed25519), then student@node1 (password)"."""
    return ", then ".join(f"{title} ({how})" for title, how in passed)


class Connection(Protocol):
    """One SSH connection, through as many hops as it took."""

    passed: tuple[tuple[str, str], ...]
    """The titles of the hops that it goes through, the server's own last, each with how it let one in."""

    @property
    def alive(self) -> bool:
        """False when the link is known to have ended; a dead network shows only in ``probe``."""

    @property
    def asks_codes(self) -> bool:
        """Whether dialling it again would ask a person for a one-time code."""

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        """Run a command: a list is quoted, a string is a line for ``/bin/sh``.

        A time-out ends the call, not the link; the command itself may go on.
        """

    def open(self, command: Command, timeout: float = 30.0) -> Stream:
        """A long-lived command's standard input and output; ``timeout`` is for its start."""

    def connect(self, host: str, port: int, timeout: float = 10.0) -> Stream:
        """A connection from there to ``host:port``."""

    def terminal(self, command: Command, term: str, size: Size | None, timeout: float = 30.0) -> Terminal:
        """A command before a terminal of the kind ``term`` (``xterm-256color``) and of this size; without a size it
        gets pipes. What the login shell prints comes first. ``timeout`` is for its start."""

    def hop(self, hop: Hop, timeout: float = 30.0) -> Connection:
        """A further SSH server, reached through this one. Closing it leaves this one open."""

    def read(self, path: str, offset: int = 0, limit: int | None = None, timeout: float = 60.0) -> bytes:
        """A file's bytes from ``offset`` on, ``limit`` at most."""

    def write(
        self, path: str, data: bytes | Path, *, mode: int = 0o600, offset: int = 0, timeout: float = 600.0
    ) -> None:
        """Write a file; with ``offset`` the file is cut there first and goes on with ``data``."""

    def stat(self, path: str, timeout: float = 30.0) -> RemoteFile | None:
        """Returns the facts about a file; None if there is none."""

    def probe(self, timeout: float = 5.0) -> bool:
        """Whether the other end answers within ``timeout``: a real round trip."""

    def close(self) -> None:
        """End it and everything on it; at once, also when the network is dead."""


# --- Commands whose output is separated from a login shell's noise ---------------------------------------------------


def shell_line(command: Command) -> str:
    """The command as one line for ``/bin/sh``."""
    return command if isinstance(command, str) else shlex.join(command)


def new_mark() -> bytes:
    """The mark between a login shell's noise and a command's output: unguessable, so that no noise contains it."""
    return f"<clew {secrets.token_hex(8)}>".encode()


def marked(command: Command, mark: bytes) -> str:
    """Returns the line for the remote login shell, whichever it is: both outputs begin with ``mark``, then the command
    runs."""
    text = shlex.quote(mark.decode())
    return for_login_shell(f"printf %s {text}; printf %s {text} >&2; {shell_line(command)}")


def for_login_shell(script: str) -> str:
    """A command line that runs ``script`` with ``/bin/sh``, for a login shell of any kind."""
    # A C shell understands neither a line break nor an exclamation mark within quotes.
    inner = f'eval "$(printf %b "{_in_octal(script)}")"' if "\n" in script or "!" in script else script
    return f"exec /bin/sh -c {shlex.quote(inner)}"


def _in_octal(script: str) -> str:
    """Encodes a script for ``printf %b``: plain letters stay, everything else becomes its number."""
    safe = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ./-_=:,")
    return "".join(chr(byte) if byte in safe else f"\\0{byte:03o}" for byte in script.encode())


def after_mark(output: bytes, mark: bytes) -> bytes | None:
    """Returns what follows ``mark``; None if it is not there."""
    _, found, rest = output.partition(mark)
    return rest if found else None


def unmarked(status: int, stdout: bytes, stderr: bytes, mark: bytes, title: str) -> Finished:
    """The result of a ``marked`` command. Raises ``ProblemError`` when the login shell never came to it."""
    out, err = after_mark(stdout, mark), after_mark(stderr, mark)
    if out is None:
        raise no_shell(title, stdout + stderr)
    return Finished(status, out, err if err is not None else stderr)


def skip_noise(recv: Callable[[int], bytes], mark: bytes, title: str) -> bytes:
    """Read up to ``mark`` and return what came after it. Raises ``ProblemError`` when it does not come."""
    seen = b""
    while (rest := after_mark(seen, mark)) is None:
        data = recv(4096) if len(seen) < NOISE_LIMIT else b""
        if not data:
            raise no_shell(title, seen)
        seen += data
    return rest


def no_shell(title: str, noise: bytes) -> ProblemError:
    """The login shell printed something and ran nothing: an ``exit`` in ``.bashrc``, ``nologin``, no account."""
    words = noise.decode(errors="replace").strip()
    said = f" It said: {words[-500:]}" if words else ""
    text = f"The login on {title} works, but its shell ends before it runs a command.{said}"
    hint = "Look for exit or exec in ~/.bashrc there, or ask the site whether this account may run commands."
    return problem("ssh.shell", text, hint, title)


def lost(title: str, why: str = "") -> ProblemError:
    """Returns the error for a link that is dead."""
    text = f"The connection to {title} was lost{f': {why}' if why else ''}."
    return problem("ssh.lost", text, "Clew connects again as soon as the network allows.", title)


def timed_out(title: str, what: str, seconds: float) -> ProblemError:
    """Returns the error for a call that took too long."""
    text = f"{title} did not finish within {seconds:g} s: {what}."
    return problem("ssh.timeout", text, "The site may be busy. Try again.", title)
