"""Everything that depends on the operating system; the other modules are the same everywhere.

Linux is where it has been tried. Windows has no sessions, no SIGKILL and no boot id: each function says what it does.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Protocol

POSIX = os.name == "posix"
_PROCESSORS = Path("/proc/cpuinfo")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 0.001
"""Seconds between two looks at a copy that is about to end."""
_MOST_DESCRIPTORS = 65_536
"""More descriptors than strangers on one node can open in the three seconds after which a silent connection is
dropped."""


def own_session() -> dict[str, Any]:
    """Options for ``subprocess.Popen``: the child leaves the terminal's group, so that Ctrl+C does not reach it."""
    if POSIX:
        return {"start_new_session": True}
    return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}


def kill_session(child: Child) -> None:
    """End a child that was started in its ``own_session``, and what it has started there; on Windows the child alone.

    Works also when the child has ended and its own children go on.
    """
    with suppress(OSError):
        if POSIX:
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals by which a program is asked to end: Ctrl+C, a polite kill, the terminal closed (where it exists)."""
    hang_up = getattr(signal, "SIGHUP", None)
    broken = getattr(signal, "SIGBREAK", None)
    return (signal.SIGINT, signal.SIGTERM, *(extra for extra in (hang_up, broken) if extra is not None))


@contextmanager
def stop_requests(note: Callable[[int], None]) -> Iterator[None]:
    """Call ``note(signal number)`` for each request to stop instead of dying of it. Only in the main thread.

    A closed terminal that is to be ignored (``nohup``) stays ignored.
    """
    hang_up = getattr(signal, "SIGHUP", None)
    ignored = {hang_up} if hang_up is not None and signal.getsignal(hang_up) is signal.SIG_IGN else set()

    def handle(number: int, _frame: FrameType | None) -> None:
        note(number)

    before = {number: signal.signal(number, handle) for number in stop_signals() if number not in ignored}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def restore_sigchld() -> None:
    """Let this process learn how its children end even if its parent ignored SIGCHLD. Only in the main thread."""
    ended = getattr(signal, "SIGCHLD", None)
    if ended is not None and signal.getsignal(ended) is signal.SIG_IGN:
        signal.signal(ended, signal.SIG_DFL)


class Child(Protocol):
    """A process that this one has started: what of ``subprocess.Popen`` its guard or its chief needs."""

    @property
    def pid(self) -> int:
        """Its id."""

    def poll(self) -> int | None:
        """Its exit code when it has ended (negative: the signal that ended it), else None."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal; nothing happens when it has ended."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""

    def wait(self, timeout: float) -> int:
        """Its exit code, as soon as it has ended. Raises ``subprocess.TimeoutExpired`` after so many seconds."""


class Forked:
    """A child made by ``fork``, with the ways of ``subprocess.Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code when it has ended (negative: the signal that ended it), else None."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send it a signal; nothing happens when it has ended."""
        if self.poll() is None:  # a child that has not been waited for keeps its id
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Its exit code, as soon as it has ended. Raises ``subprocess.TimeoutExpired`` after so many seconds."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(_LOOK_S)
        return code


def fork(work: Callable[[], int]) -> Forked:
    """Do ``work`` in a copy of this process, in a session of its own; what it returns is the copy's exit code.

    Only for a process with one thread: another thread's locks would stay locked in the copy for ever. The copy begins
    with the system's answers to stop requests, and nothing of this process's clean-up is done at its end. Raises
    ``OSError`` when the system refuses.
    """
    flush_output()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals())  # the copy must not answer with our handlers
    try:
        pid = os.fork()
        if not pid:
            _live_as_copy(work, blocked)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return Forked(pid)


def _live_as_copy(work: Callable[[], int], blocked: set[int | signal.Signals]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        for number in stop_signals():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        code = work()
    except BaseException:  # noqa: BLE001  # the border of the process: its exit code and its log are all that is left
        traceback.print_exc()
    finally:
        flush_output()
        os._exit(code)


def flush_output() -> None:
    """Write out what has been printed; a closed or full output is no error."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def print_to(path: Path) -> None:
    """Adds whatever this process prints from now on, also from C libraries, to the file ``path``."""
    flush_output()
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)


def thread_count() -> int:
    """Threads of this process, those of C libraries as well; 0 where the system does not report it."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 0


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Be asked to end (by this signal) when the process that started this one dies. Nothing a child inherits."""
    if not POSIX:
        return
    import ctypes  # late: few processes need it

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))


def adopt_orphans() -> None:
    """Have this process become the parent of each process below it whose own parent ends (Linux)."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def wait_for_adoption(parent: int, by: int) -> bool:
    """Waits until the process ``parent``, which is about to end, is no longer the parent of this one; whether its
    parent is now ``by``."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    return os.getppid() == by


def set_title(title: str) -> None:
    """Has ``ps`` show this title. A site may lack the package for it: titles are for people."""
    with suppress(ImportError):
        from setproctitle import setproctitle

        setproctitle(title)


def end_before_others() -> None:
    """Lets the kernel choose this process when memory runs out, rather than its guard, which can report it."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def pass_on(process: Child, number: int) -> None:
    """Send a stop request to a child in a session of its own; a child that has ended already is no error."""
    wanted = number if POSIX else int(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))
    with suppress(ProcessLookupError, OSError):
        process.send_signal(wanted)


def signal_name(exit_code: int) -> str:
    """``SIGKILL`` for the exit code -9 that ``subprocess`` gives a killed child; empty when it ended by itself."""
    if exit_code >= 0 or not POSIX:
        return ""
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def host_name() -> str:
    """The node's own name."""
    return platform.node()


def processor() -> str:
    """Model and number of cores that this process may use: how sums are split, and so rounded, depends on both."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    model = platform.processor() or platform.machine()
    with (
        suppress(OSError),
        _PROCESSORS.open(encoding="utf-8", errors="replace") as file,
    ):  # the first core's part is enough
        names = (line.partition(":")[2].strip() for line in islice(file, 12) if line.startswith("model name"))
        model = next(names, "") or model
    return f"{model or 'unknown'}, {cores} cores"


def boot_id() -> str:
    """Changes with every start of the machine; empty where the system has none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists and has not ended (a zombie has)."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def raise_descriptor_limit() -> None:
    """Let this process have as many open files and connections as the system allows it (``ulimit -Hn``)."""
    if not POSIX:
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS names a hard limit that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def silence() -> None:
    """Discards whatever this process prints from now on, also from C libraries: its log file is being recorded."""
    flush_output()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def end_by_force() -> None:
    """End this process as SIGKILL ends it, so that nothing of it can act any more."""
    if POSIX:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)


def exit_at_once(code: int) -> None:
    """End this process without any clean-up; its guard does the rest."""
    os._exit(code)
