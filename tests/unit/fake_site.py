"""A site without a network: a login node with files and a Slurm that tests can spoil. Nothing waits."""

from __future__ import annotations

import fnmatch
import itertools
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from clew_gui.deploy.install import Installed
from clew_gui.jobs.access import Deployer, SiteAccess
from clew_gui.jobs.job_files import SCRIPT
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.job import UNEXPORT
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Command, Finished, Hop, RemoteFile, Stream
from clew_gui.ssh.dial import ReconnectingConnection
from clew_gui.ssh.prompts import AskOnce, Prompt, Prompter
from clew_shared.base.problem import ProblemError, problem

HOME = "/home/student"
CLEW = f"{HOME}/.local/share/clew"
AWAY = problem("ssh.lost", "The connection to login was lost.")
AGENT = Installed(
    command=("/site/python", "-m", "clew_agent"), environment={"PYTHONPATH": "/there"}, python="3.11", tensorflow="2.19"
)


class Job(msgspec.Struct):
    """A line of ``squeue``."""

    name: str
    state: str = "PENDING"
    reason: str = "Priority"
    nodes: str = ""
    start: str = "N/A"
    end: str = "N/A"


class FakeStream:
    """Says ``first`` and then ends, or stays silent when that is None; when it ``stays`` it is silent after it. Beside
    it stand its last ``words``."""

    def __init__(self, first: bytes | None, stays: bool = False, words: str = "") -> None:
        self._words = words
        self._first = first
        self._stays = stays
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def recv(self, limit: int) -> bytes:
        if self._first is None:
            self._closed.wait(10.0)
            return b""
        data, self._first = self._first[:limit], None if self._stays else b""
        return data

    def send(self, data: bytes) -> None:
        """Nobody reads it."""

    def end(self) -> None:
        self._closed.set()

    def last_words(self) -> str:
        return self._words

    def close(self) -> None:
        self._closed.set()


Answer = Callable[[], Stream]


class Login:
    """The login node and its scheduler; as a connection it dials nothing. ``away`` is raised by every call."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        self.jobs: dict[str, Job] = {}
        self.commands: list[tuple[str, ...]] = []
        self.away: ProblemError | None = None
        self.silent = False
        """The scheduler does not answer."""
        self.before: dict[str, Callable[[], None]] = {}
        """Called before a program of this name runs."""
        self.after: dict[str, Callable[[], None]] = {}
        self.hides = False
        """``squeue`` lists no job, although Slurm has them."""
        self.refusal = ""
        self.exported: dict[str, str] = {}
        """What the start files of the account export."""
        self.partitions = ""
        """What ``sinfo`` lists of them."""
        self.streams: dict[tuple[str, int], Answer] = {}
        self.relay: Answer | None = None
        self.node: Login | ProblemError | None = None
        self.dials = 0
        self.woken = 0

    @property
    def alive(self) -> bool:
        return self.away is None

    # --- As a connection ----------------------------------------------------------------------------------------------

    def connected(self) -> Login:
        self._reach()
        self.dials += 1
        return self

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        words = _without_wrapper(command)
        self._reach()
        name = words[0]
        self.commands.append(tuple(words))
        self.before.get(_program(words), _nothing)()
        self._reach()
        done = self._files_of(command, stdin.decode()) or self._do(name, words)
        self.after.get(_program(words), _nothing)()
        return done

    def _files_of(self, command: Command, lines: str) -> Finished | None:
        """What the question for many files is answered."""
        if SCRIPT not in command:
            return None
        out, words = b"", lines.splitlines()
        for offset, most, pattern in zip(words[::3], words[1::3], words[2::3], strict=True):
            out += b"#\n"
            for path in sorted(fnmatch.filter(self.files, pattern)):
                size = len(self.files[path])
                start = int(offset) if int(offset) >= 0 else max(0, size + int(offset))
                data = self.files[path][start:][: int(most)]
                out += f"{size} {start} {len(data)} {path}\n".encode() + data
        return Finished(0, out + b"clew-end\n", b"")

    def stat(self, path: str, timeout: float = 30.0) -> RemoteFile | None:
        self._reach()
        data = self.files.get(path)
        return None if data is None else RemoteFile(len(data), 0.0, self.modes.get(path, 0o600))

    def read(self, path: str, offset: int = 0, limit: int | None = None, timeout: float = 60.0) -> bytes:
        self._reach()
        if path not in self.files:
            raise problem("ssh.file", f"{path}: there is no such file.")
        data = self.files[path][offset:]
        return data if limit is None else data[:limit]

    def write(
        self, path: str, data: bytes | Path, *, mode: int = 0o600, offset: int = 0, timeout: float = 600.0
    ) -> None:
        self._reach()
        self.files[path] = data if isinstance(data, bytes) else data.read_bytes()
        self.modes[path] = mode

    def connect(self, host: str, port: int, timeout: float = 10.0) -> Stream:
        self._reach()
        answer = self.streams.get((host, port))
        if answer is None:
            raise problem("ssh.connect", f"login cannot reach {host}, port {port}: Connection refused.")
        return answer()

    def open(self, command: Command, timeout: float = 30.0) -> Stream:
        self._reach()
        self.commands.append(tuple(_without_wrapper(command)))
        if self.relay is None:
            raise problem("ssh.shell", "srun: error: Unable to create step.")
        return self.relay()

    def hop(self, hop: Hop, timeout: float = 30.0) -> Login:
        self._reach()
        if isinstance(self.node, Login):
            return self.node
        raise self.node or problem("ssh.auth", f"{hop.title} lets nobody in.")

    def wake(self) -> None:
        self.woken += 1

    def close(self) -> None:
        self.away = self.away or AWAY

    def _reach(self) -> None:
        if self.away is not None:
            raise self.away

    def folders(self) -> set[str]:
        """The jobs of which something lies there."""
        return {path.split("/jobs/")[1].split("/")[0] for path in self.files if "/jobs/" in path}

    # --- As a shell and Slurm -----------------------------------------------------------------------------------------

    @property
    def sent(self) -> int:
        """How often something was submitted."""
        return sum(_program(words) == "sbatch" for words in self.commands)

    def _do(self, name: str, words: Sequence[str]) -> Finished:
        program = _program(words)
        if self.silent and program in ("sbatch", "squeue", "scancel", "scontrol", "sinfo"):
            return _done(1, err="slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
        if program in ("printenv", "printf"):
            return _done(out=f"{HOME}\n\n" if program == "printf" else self.exported.get(words[1], ""))
        if program == "sbatch":
            return self._submit(words)
        if program in ("squeue", "scontrol"):
            return self._queue(words) if program == "squeue" else self._show(words[-1])
        if program == "scancel":
            self.jobs[words[1]].state = "CANCELLED"
        if program == "sinfo":
            all_of_them = any("%P|%l" in word for word in words)
            return _done(out=self.partitions if all_of_them else "2:00|1-infinite|3|short\n")
        if program == "sacct":
            return _done(1, err="Slurm accounting storage is disabled")
        if program == "rm" and not any(path.startswith(words[-1]) and path.endswith(".log") for path in self.files):
            self.files = {path: data for path, data in self.files.items() if not path.startswith(words[-1])}
        if program == "mv":
            self.files[words[-1]] = self.files.pop(words[-2])
        return _done()

    def _submit(self, words: Sequence[str]) -> Finished:
        if self.refusal:
            return _done(1, err=f"sbatch: error: {self.refusal}")
        folder = next(word for word in words if word.startswith("/"))
        name = re.search(r"--job-name=(\S+)", self.files[f"{folder}/job.sh"].decode())
        assert name is not None
        number = str(len(self.jobs) + 1)
        self.jobs[number] = Job(name=name[1])
        return _done(out=f"{number}\n")

    def _show(self, wanted: str) -> Finished:
        """What ``scontrol show job`` says of a job, by its number or its name."""
        form = "JobId={} JobName={} JobState={} Reason={} StartTime={} EndTime={} NodeList={}\n"
        jobs = (
            form.format(number, job.name, job.state, job.reason, job.start, job.end, job.nodes)
            for number, job in self.jobs.items()
            if wanted in (number, job.name)
        )
        found = "".join(jobs)
        return _done(out=found) if found or not wanted.isdecimal() else _done(1, err="Invalid job id specified")

    def _queue(self, words: Sequence[str]) -> Finished:
        lines = []
        for number, job in self.jobs.items():
            wanted = any(word == f"--name={job.name}" for word in words) or any(
                word.startswith("--jobs=") and number in word[7:].split(",") for word in words
            )
            if wanted:
                where = f"{job.nodes}|{job.start}|{job.end}"
                lines.append(f"{number}|{job.state}|{job.reason}|{where}|10:00|1|{job.name}")
        return _done(out="" if self.hides else "\n".join(lines))


def _without_wrapper(command: Command) -> list[str]:
    """The command that is run in an environment of Clew's own."""
    words = [*command]
    if len(words) < 3 or UNEXPORT not in words[2]:
        return words
    return list(itertools.dropwhile(lambda word: re.match("[A-Z_]+=", word), words[4:]))


def _nothing() -> None:
    """The usual."""


def _done(code: int = 0, out: str = "", err: str = "") -> Finished:
    return Finished(code, out.encode(), err.encode())


def _program(words: Sequence[str]) -> str:
    line = " ".join(words)
    names = ("printenv", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "sacct", "printf", "mkdir", "mv", "rm")
    return next((name for name in names if re.search(rf"\b{name}\b", line)), words[0])


def a_site(**fields: Any) -> Site:
    """A site with Slurm."""
    return Site(host="login", title="Lab", scheduler="slurm", allocation=AllocationRequest(time="10"), **fields)


def a_line(login: Login, site: Site | None = None) -> SiteConnection:
    """The line to the fake login node."""
    connection = cast("ReconnectingConnection", login)
    return SiteConnection("lab", site or a_site(), connection, (Hop(host="login", user="student"),))


def a_deployer(**replaced: Any) -> Deployer:
    """Brings nothing, and says where it would be."""
    usual: dict[str, Any] = {
        "ensure_agent": lambda _line, _say: AGENT,
        "stage": lambda _line, path, _say: f"{CLEW}/staged/abc/{Path(path).name}",
        "stage_exercises": lambda _line, _folder, _say: f"{CLEW}/staged/exercises",
        "check_runs": lambda _line, _environment, _runs, _own: None,
    }
    return Deployer(**(usual | replaced))


class NobodyHere(Prompter):
    """Nobody is there to be asked."""

    def ask(self, prompt: Prompt) -> str | None:
        raise AssertionError("nobody is to be asked")


def an_access(
    open_site: Callable[[], SiteConnection], deployer: Deployer | None = None, name: str = "lab"
) -> SiteAccess:
    """A program's access to a site that asks nobody anything."""
    return SiteAccess(name, lambda _access: open_site(), AskOnce(NobodyHere()), deployer=deployer or a_deployer())
