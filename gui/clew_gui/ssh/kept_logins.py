"""Logins that stay for a while after the command that made them, so that a code is asked once and not once per command.

A process of Clew's own for each hop holds one (``holder_program``), and ends some time after its last use. What is
decided here is when one may be used. Each has a folder named by the whole way to its hop, so that a site that was
changed finds none; the folder and all above it must be the user's alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
import psutil

from clew_gui.ssh.connection import Hop, SshFiles, lost
from clew_gui.ssh.holder import HolderRequest, hold
from clew_gui.ssh.prompts import ANSWER_WITHIN_S, Prompter
from clew_shared.base import operating_system
from clew_shared.base.file_lock import lock_now
from clew_shared.base.foreign import read_json
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem, ProblemError, os_refused, problem
from clew_shared.base.process_identity import still_runs
from clew_shared.base.remedies import log_out

if TYPE_CHECKING:
    from clew_gui.ssh.paramiko_connection import ParamikoConnection

SOCKET = "s"
"""The name of the socket through which programs use a login that is held by Clew's own process."""

_ANSWERS_S = 5.0
"""The seconds in which a kept login must answer a command that would like to use it."""
_ANSWERS_AT_LAST_S = 15.0
"""The further seconds before a silent login is ended. By then a new login got as far as a person, so the network works;
but an old link still sleeps for up to 24 s after a cut of half a minute."""
_TURN_S = 0.1
_EXPLAIN_S = 1.0
_OTHER_S = ANSWER_WITHIN_S + 60.0
"""The seconds for which another command may be logging in: a person has most of that for an answer."""
_BELOW_RUNTIME = 43
"""The bytes in a socket's path for folders, name and what ssh adds while it makes one."""
_END_S = 2.0
_POLL_S = 0.02
_LOCK = ".lock"
_RECORD = "login.json"


class KeptLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login and its way. ``through`` is the id of the one before it on the way, empty for the first.

    ``since`` and ``used``, when it was last used, are in seconds since 1970; it stays for ``keep_s`` after that. The
    process ``pid``, which began at ``began``, holds it, and shows the public key ``key`` to programs.
    """

    id: str
    title: str
    passed: tuple[tuple[str, str], ...]
    pid: int
    since: float
    keep_s: int
    asks_codes: bool
    through: str = ""
    used: float = 0.0
    began: float = 0.0
    key: bytes = b""

    @property
    def until(self) -> float:
        """Returns when the login ends unless it is used again."""
        return self.used + self.keep_s


def login_id(hops: Sequence[Hop]) -> str:
    """The name of the login at the last of ``hops``: a different one if anything on the route differs."""
    way = [msgspec.structs.replace(hop, user=hop.login, fingerprints=()) for hop in hops]  # those are shown only
    return hashlib.sha256(msgspec.json.encode(way)).hexdigest()[:10]


def write_record(folder: Path, login: KeptLogin) -> None:
    """Write it into its folder. Raises ``OSError``."""
    write_private(folder / _RECORD, msgspec.json.encode(login), lasting=False)


def read_record(folder: Path) -> KeptLogin | None:
    """Reads the record in a login's folder; None while it is being made, or if that was cut short."""
    return read_json(folder / _RECORD, KeptLogin)


def note_use(folder: Path) -> None:
    """Its record's time is that of its last use."""
    os.utime(folder / _RECORD)


def last_use(folder: Path) -> float:
    """Returns when a login was last used, in seconds since 1970. Raises ``OSError``."""
    return (folder / _RECORD).stat().st_mtime


class KeptLogins:
    """The kept logins of this user, for one Clew home: anyone who trusts other servers' keys has other logins."""

    def __init__(self, files: SshFiles) -> None:
        self._files = files
        runtime = files.runtime
        if len(os.fsencode(runtime)) > operating_system.LONGEST_SOCKET_PATH - _BELOW_RUNTIME:
            runtime = Path(tempfile.gettempdir()) / f"clew-{operating_system.user_id()}"
        home = hashlib.sha256(os.fsencode(files.known_hosts)).hexdigest()
        self.folder = runtime / f"l-{home[:8]}"

    # --- Using one ----------------------------------------------------------------------------------------------------

    def find(self, hops: Sequence[Hop], asker: Prompter, answers_s: float = 0.0) -> ParamikoConnection | None:
        """A login at the last of ``hops`` that lives and answers, else None. Asks nobody; ``asker`` is for later hops.

        Raises ``ProblemError`` when someone else could have a hand in it.
        """
        known = self._known(login_id(hops))
        if known is None:
            return None
        from clew_gui.ssh.relay import connect_to_relay  # a tenth of a second

        timeout = answers_s or _ANSWERS_S
        with suppress(OSError, ProblemError):
            sock = operating_system.connect_locally(self.folder / known.id / SOCKET)
            connection = connect_to_relay(
                sock, known.key, hops[-1], known.passed, self._files, asker, known.asks_codes, timeout
            )
            if connection.probe(timeout):
                return connection
            connection.close()
        return None

    def log_in(self, hops: Sequence[Hop], asker: Prompter, timeout: float) -> ParamikoConnection:
        """Log in at each of ``hops`` where no login answers, and have processes hold it.

        One command at a time does so; others wait, and use its login. Raises ``ProblemError``.
        """
        with self._writing(hops[-1].title):
            for folder in (self.folder.parent, self.folder):
                make_private(folder)
        below: ParamikoConnection | None = None
        for way in (hops[:number] for number in range(1, len(hops) + 1)):
            name = login_id(way)
            try:
                with self._writing(hops[-1].title), self._alone(name, hops[-1].title, asker):
                    found = self._awaited(way, name, asker)
                    connection = found or self._new(way, name, asker, timeout)
            finally:
                if below is not None:  # the next one goes through its login, and needs no more of this program
                    below.close()
            below = connection
        if found is None:
            minutes = f"{self._files.keep_login_s / 60:g} min"
            stays = f"You stay logged in to {hops[-1].title} until {minutes} after the last use"
            asker.show_message(f"{stays}, also when Clew is closed. Logging out ends it.")
        return connection

    def _writing(self, title: str) -> AbstractContextManager[None]:
        """Says where a login cannot be kept."""
        hint = "Make room there, or let no login stay: keep_login = 0 in the settings."
        return os_refused("ssh.kept", f"The login to {title} cannot be kept in {self.folder}", hint, title)

    def _awaited(self, way: Sequence[Hop], name: str, asker: Prompter) -> ParamikoConnection | None:
        """Finds a login as ``find`` does, with more patience for one that is silent."""
        found, title = self.find(way, asker), way[-1].title
        if found is None and self._known(name) is not None:
            asker.show_message(f"The login to {title} does not answer. In {_ANSWERS_AT_LAST_S:g} s a new one is made.")
            found = self.find(way, asker, _ANSWERS_AT_LAST_S)
        return found

    def _new(self, way: Sequence[Hop], name: str, asker: Prompter, timeout: float) -> ParamikoConnection:
        """Log in; an earlier login of this name, which does not answer, is ended, and nothing of one that fails
        stays."""
        self._clear(name)
        try:
            hold(HolderRequest(tuple(way), self._files, make_private(self.folder / name), timeout), asker)
            found = self.find(way, asker)
            if found is None:
                raise lost(way[-1].title, "the login ended at once")
            return found
        except BaseException:
            self._clear(name)
            raise

    @contextmanager
    def _alone(self, name: str, title: str, asker: Prompter) -> Iterator[None]:
        """Makes sure that no other program logs in there meanwhile. Raises ``ProblemError`` if one does so for very
        long."""
        with self._lock_file(name) as file:
            started, explained = time.monotonic(), False
            while not lock_now(file.fileno()):
                waited = time.monotonic() - started
                if waited > _OTHER_S:
                    text = f"Another of your commands has been logging in to {title} for {waited / 60:.0f} minutes."
                    raise problem("ssh.busy", text, "Answer its question or end it, then try again.", title)
                if waited > _EXPLAIN_S and not explained:
                    asker.show_message(f"Another of your commands is logging in to {title}. This one waits for it.")
                    explained = True
                time.sleep(_TURN_S)
            yield

    # --- Looking, and ending ------------------------------------------------------------------------------------------

    def all(self) -> list[KeptLogin]:
        """Returns the logins that are alive and may be used, the oldest first."""
        known: list[KeptLogin | None] = []
        for path in self._folders():
            with suppress(ProblemError):
                known.append(self._known(path.name))
        return sorted((one for one in known if one is not None), key=lambda one: one.since)

    def unknown(self) -> dict[str, Problem]:
        """Returns, by the name of each login of which it is unknown whether it is alive, what stands in the way."""
        found: dict[str, Problem] = {}
        for path in self._folders():
            try:
                known, record = self._known(path.name), read_record(path)
                with self._lock_file(path.name) as file:  # another command holds it while it makes the login
                    if known is None and (record is None or _runs(record)) and lock_now(file.fileno()):
                        found[path.name] = _strange(path, "is not complete").problems[0]
            except ProblemError as error:
                found[path.name] = error.problems[0]
        return found

    def end(self, ids: Collection[str]) -> list[KeptLogin]:
        """End these, and return them. One that a further login goes through stays while that one is there."""
        left = {one.id: one for one in self.all()}
        ended: list[KeptLogin] = []
        while free := [one for one in left if one in ids and all(other.through != one for other in left.values())]:
            for one in free:
                self._clear(one)
                ended.append(left.pop(one))
        return ended

    def clear(self) -> None:
        """End and remove all, also what may not be used, but for logins that a command is making just now.

        Raises ``ProblemError`` for what cannot be removed.
        """
        if not os.path.lexists(self.folder):
            return
        for folder in (self.folder.parent, self.folder):
            make_private(folder)
        for path in self._folders():
            with self._lock_file(path.name) as file:
                if lock_now(file.fileno()):
                    self._clear(path.name)
                    if path.exists():
                        raise _strange(path)

    def forget(self, login: KeptLogin) -> None:
        """Remove the folder of a login that has ended, in the process that held it. If a command is just logging in
        there, or has done so, the folder is not this login's any more. Raises ``OSError``."""
        with self._lock_file(login.id) as file:
            folder = self.folder / login.id
            if lock_now(file.fileno()) and read_record(folder) == login:
                shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> list[Path]:
        """Returns the folders of logins, whatever state they are in."""
        there = self.folder.iterdir() if self.folder.is_dir() else ()
        return [path for path in there if path.suffix != _LOCK]

    def _clear(self, name: str) -> None:
        """End the login of this name and remove its folder, if they are there."""
        folder = self.folder / name
        if folder.is_symlink():
            folder.unlink()
        elif folder.exists():
            if (record := read_record(folder)) is not None:
                _end_holder(record)
            shutil.rmtree(folder, ignore_errors=True)

    def _known(self, name: str) -> KeptLogin | None:
        """Reads the record of a live login. Raises ``ProblemError`` if it does not belong to the user alone."""
        folder = self.folder / name
        if not os.path.lexists(folder):
            return None
        for path in (self.folder.parent, self.folder, folder):
            _check(path, stat.S_ISDIR)
        record = read_record(folder)
        if record is None:
            return None
        address = folder / SOCKET
        if not os.path.lexists(address):
            return None
        _check(address, lambda mode: stat.S_ISSOCK(mode) or stat.S_ISREG(mode))  # what ``listen_locally`` makes
        with suppress(OSError):  # it ends in this moment
            return msgspec.structs.replace(record, used=last_use(folder)) if _runs(record) else None
        return None

    def _lock_file(self, name: str) -> IO[bytes]:
        return open(self.folder / f"{name}{_LOCK}", "ab", opener=lambda path, flags: os.open(path, flags, 0o600))


def _runs(login: KeptLogin) -> bool:
    """Whether the process that holds it runs."""
    return still_runs(login.pid, login.began) and operating_system.is_alive(login.pid)


def _end_holder(login: KeptLogin) -> None:
    """End the process that holds it with its ProxyCommand, and wait for its end."""
    with suppress(psutil.Error):
        holder = psutil.Process(login.pid) if _runs(login) else None
        for process in [*holder.children(recursive=True), holder] if holder is not None else ():
            process.kill()
    deadline = time.monotonic() + _END_S
    while _runs(login) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _check(path: Path, is_kind: Callable[[int], bool]) -> None:
    """Raise ``ProblemError`` unless it is of this kind and nobody else can reach it."""
    try:
        state = path.lstat()
    except OSError:
        return  # gone: so is the login
    if not is_kind(state.st_mode) or not operating_system.is_mine_alone(state):
        raise _strange(path)


def _strange(path: Path, why: str = "is not yours alone") -> ProblemError:
    text = f"{path} belongs to a kept login, and {why}. It is not used, and nothing was sent."
    return problem("ssh.kept", text, "Log out. If someone else made it, tell your administrator.", str(path), log_out())
