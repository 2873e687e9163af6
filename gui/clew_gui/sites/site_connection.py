"""A site as commands and files: the way to its login node, its scheduler's language, and where things are there."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Self, TypeVar

import msgspec
from msgspec.structs import replace

from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.job import JobRef, JobSpec, keeper
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.schedulers.scheduler import NOT_FOUND, Command, Question, environment, without_exports
from clew_gui.schedulers.state import JobState, Output, Phase
from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.hops import way_to
from clew_gui.sites.site import Site, job_of
from clew_gui.ssh.config import resolve
from clew_gui.ssh.connection import Connection, Hop, Stream, lost, ssh_files
from clew_gui.ssh.dial import ReconnectingConnection, dial
from clew_gui.ssh.prompts import Prompter
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.remedies import read_consent

T = TypeVar("T")


class SiteLayout(msgspec.Struct, frozen=True):
    """The folders on a site. ``home`` is what the agent there gets as ``CLEW_HOME``: on a file system that login node
    and nodes share."""

    home: str

    @property
    def software(self) -> str:
        """Returns the folder of what was installed: the agent, one folder for each version of it, and packages that the
        site lacks."""
        return f"{self.home}/software"

    @property
    def launcher(self) -> str:
        """Starts the agent that was installed last, for job scripts of the user's own."""
        return f"{self.home}/bin/clew-agent"

    @property
    def data(self) -> str:
        """The user's data sets there, where the agent looks for them by itself."""
        return f"{self.home}/data"

    @property
    def staged(self) -> str:
        """Files of the laptop, each in a folder named by its SHA-256."""
        return f"{self.home}/staged"

    def job(self, job: str) -> str:
        """The folder of one job: its script, its runs' specs, its records and logs."""
        return f"{self.home}/jobs/{job}"

    def job_runs(self, job: str) -> str:
        """Specs that the job's agent begins by itself, ``<run>.toml``: also when nobody watches."""
        return f"{self.job(job)}/runs"

    def address(self, job: str) -> str:
        """Returns the file that a viewer needs to reach the job's agent, whose id is the job's (``AgentAddress``)."""
        return f"{self.home}/agents/{job}.json"

    def agent_files(self, job: str) -> tuple[str, ...]:
        """Returns the files of the job's agent beside its log while it serves: its address, its queue, and who is let
        in."""
        return self.address(job), f"{self.home}/agents/{job}.queue", f"{self.home}/agents/{job}.allow"

    def run(self, run: str) -> str:
        """A run's folder."""
        return f"{self.home}/runs/{run}"


# --- Site line --------------------------------------------------------------------------------------------------------
# A site as commands and files: the way to its login node, its scheduler's language, and where things lie there.
#
# Everything here waits for the network and is called from worker threads only.


_REMOVE = 'ls "$1" | grep -q "^record\\.\\|\\.log$" || rm -rf -- "$1"'
STILL_S = 120.0
"""The seconds in which nothing of a command moves before it is given up; how long it takes while something moves
depends on the site's disks alone (decision 258)."""
_BYTES = 1 << 16
# Says every few seconds that something has moved: processor time, page faults or the number of the processes that the
# command has started, which are those of the session. The loop is in a session of its own, and so are its programs.
_WORK = r"""mark=$1 pause=$2; shift 2
setsid sh -c 'while sleep "$3" >/dev/null 2>&1; do
    now=$(cat "/proc/$1/stat" /proc/[0-9]*/stat 2>/dev/null | awk "
        { sub(/.*[)] /, \"\") } NR == 1 { own = \$4 } \$4 == own { sum += 1 + \$8 + \$10 + \$12 + \$13 }
        END { print sum }")
    kill -0 "$1" 2>/dev/null || exit
    [ "$now" = "$last" ] || printf "%s\n" "$2"
    last=$now
done' sh "$$" "$mark" "$pause" </dev/null &
"$@" 2>&1
code=$?
kill -- "-$!" && wait "$!"
printf '\n%s %s\n' "$mark" "$code"
"""
CALL_LIMIT_S = 45.0
"""The bound on one call: a dead controller kept `squeue` for 28 s with short settings; sites have longer ones."""
# Modules are loaded as the keeper does it in a job. One that cannot be loaded is the doctor's to report.
_PATH = """
clew_finish() { :; }
clew_record=$(mktemp -u)
[ $# -eq 0 ] || clew_find_modules
for clew_name in "$@"; do clew_load "$clew_name"; done
printf '\nclew-path %s\n' "$PATH"
"""
_HOME = 'printf "%s\\n%s\\n" "$HOME" "${XDG_DATA_HOME:-}"'


class SiteConnection:
    """Connects to one site; there is one object per site and program. ``ssh`` dials when it is first needed, and
    again after the link died.

    ``hops`` is the way to the login node, that one last.
    """

    def __init__(self, name: str, site: Site, connection: ReconnectingConnection, hops: tuple[Hop, ...] = ()) -> None:
        self.name = name
        self.site = site
        self.hops = hops
        self.scheduler = scheduler_of(site.scheduler)
        self._settings = self.scheduler.settings(site.extra)
        self.ssh = connection
        self._layout: SiteLayout | None = None
        self._login_path: str | None = None
        self._path = ""
        self._account: str | None = None
        self._asking = threading.Lock()

    @property
    def title(self) -> str:
        """The site in words."""
        return self.site.title or self.name

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = CALL_LIMIT_S) -> Output:
        """Run a command on the login node, in one language and one clock. A late one gives ``Output.late``.

        What is not found there as it is, is looked for as a person's own shell would: on the path of a login shell with
        the site's modules. Raises ``ProblemError`` when the site cannot be reached.
        """
        done = self._run(command, stdin, timeout, self._path)
        if done.code != NOT_FOUND or self._path or not (path := self._path_of_login()):
            return done
        done = self._run(command, stdin, timeout, path)
        if done.code != NOT_FOUND:
            self._path = path
        return done

    def ask(self, question: Question[T] | None, timeout: float = CALL_LIMIT_S) -> T | None:
        """The scheduler's answer, by ``run``; None where it cannot be asked that."""
        return question.read(self.run(question.command, timeout=timeout)) if question is not None else None

    def work(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        still: float = STILL_S,
        moved: Callable[[], None] = lambda: None,
    ) -> Output:
        """Run a command that may take long: it is given up, and ``late``, when nothing of it has moved for ``still``
        seconds. ``moved`` is called each time that something has, and may raise to give it up. All that it prints is in
        ``out``. Raises ``ProblemError`` when the site cannot be reached."""
        mark = f"<clew {secrets.token_hex(8)}>".encode()
        watched = ("sh", "-c", _WORK, "sh", mark.decode(), f"{still / 24:g}", *command)
        words = without_exports(watched, self._variables(self._path))
        try:
            stream = self.ssh.open(words, still)
        except ProblemError as error:
            if error.problems[0].code == "ssh.timeout":
                return Output(code=-1, late=True)
            raise
        out, form = b"", re.compile(re.escape(mark) + rb" ([0-9]+)\n")
        end: re.Match[bytes] | None = None
        with _Watchdog(stream, still) as watchdog:

            def send() -> None:
                with suppress(ProblemError):  # the reader meets it, too
                    for start in range(0, len(stdin), _BYTES):
                        stream.send(stdin[start : start + _BYTES])
                        watchdog.heard()
                stream.end()

            # What is not read yet may wait longer than the command moves.
            threading.Thread(target=send, name="site input", daemon=True).start()
            try:
                while (end := form.search(out)) is None and (data := stream.recv(_BYTES)):
                    out += data
                    watchdog.heard()
                    moved()
            except ProblemError as error:
                if not (watchdog.late and error.problems[0].code == "ssh.lost"):
                    raise
        if end is None and not watchdog.late:
            raise lost(self.title)
        text = (out[: end.start()] if end is not None else out).replace(mark + b"\n", b"").decode(errors="replace")
        return Output(int(end[1]), text.removesuffix("\n")) if end is not None else Output(code=-1, out=text, late=True)

    def command(self, command: Command) -> Command:
        """``command`` for a stream or a terminal, with the path on which ``run`` has found the site's programs."""
        return without_exports(command, {**self._settings, **({"PATH": self._path} if self._path else {})})

    def _path_of_login(self) -> str:
        """The search path of a login shell with the site's modules, asked for once; empty when it is unknown."""
        if self._login_path is None:
            done = self.work(("bash", "-l", "-c", keeper() + _PATH, "bash", *self.site.modules))
            self._login_path = done.out.rpartition("\nclew-path ")[2].strip() if "\nclew-path " in done.out else ""
        return self._login_path

    def _variables(self, path: str) -> dict[str, str]:
        return {**environment(), **self._settings, **({"PATH": path} if path else {})}

    def _run(self, command: Command, stdin: bytes, timeout: float, path: str = "") -> Output:
        try:
            done = self.ssh.run(without_exports(command, self._variables(path)), stdin=stdin, timeout=timeout)
        except ProblemError as error:
            if error.problems[0].code == "ssh.timeout":
                return Output(code=-1, late=True)
            raise
        return Output(done.exit_status, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def layout(self) -> SiteLayout:
        """Returns the folders on the site, looked up once. Raises ``ProblemError`` if the site has no home for this
        user."""
        with self._asking:
            if self._layout is None:
                self._layout = SiteLayout(self._find_home())
            return self._layout

    def job_states(self, jobs: Sequence[JobRef]) -> dict[str, JobState]:
        """The state of each job by its id, in one call for each cluster. One that the scheduler does not list is asked
        for in another way before it counts as gone. Raises ``ProblemError`` when the site cannot be reached."""
        states: dict[str, JobState] = {}
        for cluster in dict.fromkeys(job.cluster for job in jobs):
            there = [job for job in jobs if job.cluster == cluster]
            states |= self.scheduler.states(there, self.run(self.scheduler.status(there)))
        gone = [job for job in jobs if states[job.id].phase is Phase.GONE]
        return states | {job.id: state for job in gone if (state := self.asked_again(job)) is not None}

    def asked_again(self, job: JobRef) -> JobState | None:
        """The state of a job that the scheduler does not list, asked for in another way; None if it has no such job."""
        command = self.scheduler.ask_again(job)
        return self.scheduler.heard_again(job, self.run(command)) if command is not None else None

    def job(
        self,
        job: str,
        folder: str,
        agent: tuple[str, ...],
        allocation: AllocationRequest | None = None,
        environment: Mapping[str, str] = {},
    ) -> JobSpec:
        """The job of ``job_of`` on this site. One that names no account is charged to that of the person's own start
        files. Raises ``ProblemError`` when the site cannot be reached."""
        asked = allocation if allocation is not None else self.site.allocation
        charged = replace(asked, account=asked.account or self.account())
        return job_of(self.site, job, folder, agent, charged, environment)

    def account(self) -> str:
        """The account that the person's start files name for all jobs; empty: none. Raises ``ProblemError``."""
        with self._asking:
            if self._account is None:
                variable = self.scheduler.account_variable
                done = self.ssh.run(("printenv", variable), timeout=CALL_LIMIT_S) if variable else None
                self._account = done.stdout.decode(errors="replace").strip() if done is not None else ""
            return self._account

    def make_folder(self, path: str) -> None:
        """Make a folder of one's own with all above it. Raises ``ProblemError`` with what the site says."""
        done = self.run(("sh", "-c", 'umask 077 && mkdir -p -- "$1"', "sh", path))
        if done.failed:
            said = "it did not answer in time" if done.late else done.err
            raise ProblemError(explain_write_error(path, said, self.title))

    def remove_unbegun(self, job: str) -> None:
        """Leave nothing of a job that never began; of one that did, all stays. A site that cannot be reached is left as
        it is."""
        with suppress(ProblemError):
            self.run(("sh", "-c", _REMOVE, "sh", self.layout().job(job)))

    def remove_agent_files(self, job: str) -> None:
        """Remove what an agent that was killed has left, of a job that nobody will start again. A site that cannot be
        reached is left as it is."""
        with suppress(ProblemError):
            self.run(("rm", "-rf", "--", *self.layout().agent_files(job)))

    def close(self) -> None:
        """Hang up; jobs go on."""
        self.ssh.close()

    def _find_home(self) -> str:
        done = self.run(("sh", "-c", _HOME))
        home, _, data = done.out.partition("\n")
        data = data.strip()
        if self.site.scratch:
            base = self.site.scratch.replace("~", home, 1) if self.site.scratch.startswith("~/") else self.site.scratch
        else:
            base = data if data.startswith("/") else f"{home}/.local/share"
        if done.failed or not base.startswith("/"):
            said = f" It said: {done.said.strip()[:300]}" if done.said.strip() else ""
            text = f"{self.title} does not say where the home folder is.{said}"
            raise problem("site.home", text, "Give scratch, an absolute path, in the site.", self.name)
        return f"{base.rstrip('/')}/clew"


class _Watchdog:
    """Closes a stream through which nothing has come for ``still`` seconds, and in the end."""

    def __init__(self, stream: Stream, still: float) -> None:
        self.late = False
        self._stream = stream
        self._still = still
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="site watchdog", daemon=True)
        self.heard()

    def heard(self) -> None:
        """Something has come."""
        self._until = time.monotonic() + self._still

    def _watch(self) -> None:
        while (left := self._until - time.monotonic()) > 0:
            if self._ended.wait(left):
                return
        self.late = True
        self._stream.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._stream.close()


def open_connection(
    name: str,
    site: Site,
    places: Places,
    asker: Prompter,
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> SiteConnection:
    """The line to ``site``; nothing is dialled yet, and then within ``around``. Raises ``ProblemError`` when something
    of it lacks consent."""
    files = ssh_files(places)
    hops = way_to(site, resolve)
    needed = tuple(words for hop in hops for words in words_of(site, hop.proxy_command))
    missing = consents(places).missing(needed)
    if missing:
        shown = "\n".join(f"  {words.kind}: {words.text}" for words in dict.fromkeys(missing))
        text = f"{site.title or name} contains shell commands that you have not approved yet:\n{shown}"
        raise problem("site.consent", text, "Read and approve them.", name, read_consent(name))

    def connect() -> Connection:
        with around():
            return dial(hops, asker, files)

    return SiteConnection(name, site, ReconnectingConnection(connect), hops)


def explain_write_error(folder: str, said: str, title: str = "") -> Problem:
    """Explains the problem from what the system ``said``; ``title`` is the site's, if that is not clear."""
    where = f"{folder} on {title}" if title else folder
    if re.search("quota", said, re.IGNORECASE):
        text = f"Your disk quota is used up: nothing more can be written to {where}."
        return Problem(
            "site.quota", text, "Delete something (quota -s shows how much), or name scratch in the site.", folder
        )
    if re.search("no space left", said, re.IGNORECASE):
        text = f"The disk is full: not a byte can be written to {where}."
        hint = "Make room there (du -sh ~/* shows what is big), or name scratch in the site."
        return Problem("site.full", text, hint, folder)
    if re.search("read-only", said, re.IGNORECASE):
        text = f"{where} lies on a file system that is read-only here."
        return Problem("site.folder", text, "Name a folder that can be written as scratch in the site.", folder)
    last = next(reversed([line.strip() for line in said.splitlines() if line.strip()]), "the site does not say why")
    text = f"{where} cannot be written: {last.rstrip('.')}."
    return Problem("site.folder", text, "Name one of your folders as scratch in the site.", folder)


def local_path(text: str) -> Path:
    """A path of this computer as a person wrote it."""
    return Path(text).expanduser().absolute()
