"""Starts peers and ends them: processes of this node, or of a program (srun, pbsdsh, aprun) that runs them on another.

Which processes were started is written down, so that the guard of a killed trainer can end all of them.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from clew_agent.peers.hosts import JobHosts
from clew_agent.peers.messages import Index, address_file, folder_of, log_of
from clew_shared.base import operating_system
from clew_shared.base.foreign import from_json
from clew_shared.base.places import Places, find_places
from clew_shared.base.private_files import write_private
from clew_shared.base.process_identity import began, still_runs
from clew_shared.journal.run_folder import RunFolder

_TENSORFLOW_OF_SEVERAL = {"GRPC_FAIL_FAST": "use_caller", "TF_GRPC_REUSE_PORT": "1"}
"""TensorFlow's own server may take a port that is kept for it, and calls to a process that has gone fail at once."""
PEER = (sys.executable, "-P", "-m", "clew_agent", "peer")
"""``-P``: a file in the current folder must not replace a module."""
_END_S = 5.0
"""Seconds that a program that runs a peer elsewhere gets to end it there."""


class StartedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that was started: its id, when it began (ids are used again), and whether it is the peer itself."""

    pid: int
    began: float
    local: bool


def prepare_for_several() -> None:
    """Have TensorFlow in this process and in those that it starts be one of several; what the user has set stays."""
    for name, value in _TENSORFLOW_OF_SEVERAL.items():
        os.environ.setdefault(name, value)


StartPeer = Callable[[Sequence[str], Path], operating_system.Child]
"""Starts the peer of this node that these words name, which prints into a file. Raises ``OSError``."""


def spawn(words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a peer of this node as a fresh interpreter. Raises ``OSError``."""
    return run_command((*PEER, *words), log)


def run_command(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program that prints into ``log``. Raises ``OSError``."""
    with log.open("ab") as file:
        return operating_system.start_session(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)


class PeerProcess:
    """The process of one peer: ``child``, which is the peer itself or the program that runs it on another node."""

    def __init__(self, child: operating_system.Child, local: bool) -> None:
        self._child = child
        self.local = local

    def exit_code(self) -> int | None:
        """Returns the exit code, None while the process runs; negative: a signal ended it, here or where it ran."""
        code = self._child.poll()
        return 128 - code if code is not None and not self.local and 128 < code < 160 else code

    def started(self) -> StartedProcess | None:
        """Returns what is needed to find the process again; None when it has ended."""
        with suppress(psutil.Error):
            return StartedProcess(pid=self._child.pid, began=began(self._child.pid), local=self.local)
        return None

    def ask_to_end(self) -> None:
        """End it: a peer that runs here at once, one elsewhere through the program that runs it."""
        if self.local:
            operating_system.kill_session(self._child)
        elif self._child.poll() is None:
            self._child.terminate()

    def end(self, within: float = _END_S) -> None:
        """End it and wait for that; by force when it takes longer than ``within`` seconds."""
        self.ask_to_end()
        try:
            self._child.wait(within)
        except subprocess.TimeoutExpired:
            operating_system.kill_session(self._child)
            self._child.wait(_END_S)  # SIGKILL cannot be refused; a bound for a dead disk


class PortKeeper:
    """A port that this process keeps until TensorFlow's own server has taken it as well.

    Both allow that (``SO_REUSEPORT``), and connections go to the one that listens: nobody else can take it meanwhile.
    ``port`` 0: any.
    """

    def __init__(self, address: str, port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the process that had it before is gone
        operating_system.share_port(self._socket)
        self._socket.bind((address, port))
        self.address = address
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Gives up the port, which TensorFlow has now."""
        self._socket.close()


class PeerStarter:
    """Starts the peers of one attempt, and writes down which were started."""

    def __init__(
        self, folder: RunFolder, attempt: int, hosts: JobHosts, exercises: Path | None, start_here: StartPeer
    ) -> None:
        self._folder, self._attempt = folder, attempt
        self._hosts, self._exercises = hosts, exercises
        self._start_here = start_here
        self._latest = dict[Index, PeerProcess]()

    def start(self, index: Index, host: str, port: int = 0) -> PeerProcess:
        """Start the peer ``index`` on ``host`` (empty: here); it is to keep ``port`` for TensorFlow (0: any) and
        prints into its own log. Raises ``OSError``."""
        words = [str(self._folder.path), "--attempt", str(self._attempt), "--index", str(index)]
        words += ["--port", str(port)] if port else []
        words += ["--exercises", str(self._exercises)] if self._exercises else []
        log = log_of(self._folder, index)
        if host:
            command = self._hosts.command(host, (*PEER, *words), os.environ)
            started = PeerProcess(run_command(command, log), local=False)
        else:
            started = PeerProcess(self._start_here(words, log), local=True)
        self._latest[index] = started
        note_started(self._folder, self._attempt, list(self._latest.values()))
        return started


def _list_file(folder: RunFolder, attempt: int) -> Path:
    return folder_of(folder) / f".processes-{attempt:04d}.json"


def note_started(folder: RunFolder, attempt: int, processes: Sequence[PeerProcess]) -> None:
    """Write down which peers were started. Raises ``OSError``."""
    note_processes(folder, attempt, [one for process in processes if (one := process.started()) is not None])


def note_processes(folder: RunFolder, attempt: int, found: Sequence[StartedProcess]) -> None:
    """Write down what the guard is to end should the trainer die. Raises ``OSError``."""
    write_private(_list_file(folder, attempt), msgspec.json.encode((operating_system.boot_id(), found)), lasting=False)


def script_log_file(folder: RunFolder, attempt: int) -> Path:
    """Returns the file to which a training script appends what it logs."""
    return folder_of(folder) / f"script-{attempt:04d}.jsonl"


def clear(folder: RunFolder, attempt: int) -> None:
    """Remove the files that exist only while an attempt has peers, or a script."""
    logged = script_log_file(folder, attempt)
    for path in (_list_file(folder, attempt), address_file(folder, attempt), logged, Path(f"{logged}.stop")):
        path.unlink(missing_ok=True)


def allow_list(places: Places, folder: RunFolder, attempt: int) -> Path:
    """The folder with the keys that the chief of an attempt lets in."""
    return places.private / "peers" / folder.private_name(attempt)


def end_left(folder: RunFolder, attempt: int) -> None:
    """End the peers of a chief that is gone, and remove what it left; for its guard, before files are recorded."""
    boot, started = "", list[StartedProcess]()
    with suppress(OSError, msgspec.DecodeError):
        boot, started = from_json(_list_file(folder, attempt).read_bytes(), tuple[str, list[StartedProcess]])
    left = [one for one in started if boot == operating_system.boot_id() and still_runs(one.pid, one.began)]
    for one in left:
        operating_system.kill_group(one.pid, politely=not one.local)
    deadline = time.monotonic() + _END_S
    while any(operating_system.is_alive(one.pid) for one in left) and time.monotonic() < deadline:
        time.sleep(0.02)
    for one in left:
        if operating_system.is_alive(one.pid):
            operating_system.kill_group(one.pid)
    clear(folder, attempt)
    shutil.rmtree(allow_list(find_places(), folder, attempt), ignore_errors=True)
