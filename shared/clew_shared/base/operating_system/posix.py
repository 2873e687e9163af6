"""Linux and macOS: sessions, signals, fork, locks by ``flock``."""

from __future__ import annotations

import sys

assert sys.platform != "win32"  # noqa: S101  # for mypy, which reads no further for Windows

import fcntl
import os
import platform
import resource
import select
import signal
import socket
import struct
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from clew_shared.base.operating_system.common import Child, flush_output

_PROCESSORS = Path("/proc/cpuinfo")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_USER_INITIATED = 0x00EFFFFF
"""NSActivityUserInitiatedAllowingIdleSystemSleep, from Apple's NSProcessInfo.h."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 0.001
"""Seconds between two looks at a copy that is about to end."""
_MOST_DESCRIPTORS = 65_536
"""More descriptors than strangers on one node can open in the three seconds after which a silent connection is
dropped."""
_SELECT_KNOWS = 1024
"""``select`` takes numbers of files below this."""
_PARENT_POLL_S = 0.5
_TMP = Path("/tmp")  # noqa: S108  # what is put there is checked to be the user's own

QT_WITHOUT_SCREEN = "offscreen"
"""The platform of Qt that draws letters where nobody sees them."""
SHELL_QUOTES = True
"""Whether words are quoted as a shell has them: on Windows a backslash is part of a path."""
HAS_UNIX_SOCKETS = True
LONGEST_SOCKET_PATH = 107 if sys.platform == "linux" else 103
"""Bytes of a path that ``listen_locally`` takes."""
HAS_MENU_BAR = sys.platform == "darwin"
"""Whether the menus of a window are expected at the top of the screen."""
FORKS_SAFELY = sys.platform == "linux"
"""Whether a copy of a process can go on: Apple's libraries end one that uses them."""

# --- Processes --------------------------------------------------------------------------------------------------------


def own_session() -> dict[str, Any]:
    """Options for ``subprocess.Popen``: the child leaves the terminal's group, so that Ctrl+C does not reach it, and
    it outlives this process."""
    return {"start_new_session": True}


def start_session(command: Sequence[str], ends_with_parent: bool = False, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that ``kill_session`` ends together with all that it starts; ``ends_with_parent``: and that gets
    a request to stop when this thread ends. ``options`` are those of ``subprocess.Popen``. Raises ``OSError``."""
    return subprocess.Popen(
        command, preexec_fn=die_with_parent if ends_with_parent else None, **options, **own_session()
    )


def new_console() -> dict[str, Any]:
    """Options for ``subprocess.Popen`` of a program that opens a window of its own for what it reads and writes."""
    nothing = subprocess.DEVNULL
    return {"stdin": nothing, "stdout": nothing, "stderr": nothing, "start_new_session": True}


def kill_session(child: Child) -> None:
    """End a child that was started by ``start_session``, and what it has started.

    Works also when the child has ended and its own children go on.
    """
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)


def kill_group(pid: int, politely: bool = False) -> None:
    """End the process and, if it was started in its ``own_session``, what it has started there. ``politely``: it is
    only asked to end (SIGTERM), so it can first end what it started."""
    number = signal.SIGTERM if politely else signal.SIGKILL
    with suppress(OSError):
        if pid > 0 and os.getpgid(pid) == pid:
            os.killpg(pid, number)
            return
    _signal(pid, number)


def kill_process(pid: int) -> None:
    """End a process at once; one that has ended already is no error."""
    _signal(pid, signal.SIGKILL)


def ask_to_stop(pid: int, number: int = signal.SIGINT) -> None:
    """Ask a process to stop, as Ctrl+C does; one that has ended already is no error."""
    _signal(pid, number)


def _signal(pid: int, number: int) -> None:
    with suppress(OSError):
        if pid > 0:  # others mean groups of processes, 0 this one's own
            os.kill(pid, number)


def pass_on(process: Child, number: int) -> None:
    """Pass a stop request on to a child in a session of its own; a child that has ended already is no error."""
    with suppress(OSError):
        process.send_signal(number)


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals by which a program is asked to end: Ctrl+C, a polite kill, the terminal closed."""
    return (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_requests(note: Callable[[int], None]) -> Iterator[None]:
    """Call ``note(signal number)`` for each request to stop instead of dying of it. Only in the main thread.

    A closed terminal that is to be ignored (``nohup``) stays ignored.
    """
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()

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
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


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


def wait_for_input(*handles: int) -> list[int]:
    """Wait until one of the pipes, files or terminals has something to read, or its end; returns which ones."""
    return wait_within(handles, None)


def wait_within(handles: Sequence[int], seconds: float | None) -> list[int]:
    """Wait as ``wait_for_input``, at most that many seconds (None: without end)."""
    if max(handles) < _SELECT_KNOWS:  # poll of macOS knows no terminals
        return select.select(handles, [], [], seconds)[0]
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return [handle for handle, _ in poll.poll(None if seconds is None else 1000 * seconds)]


def parent_id() -> int:
    """The id of the process that started this one."""
    return os.getppid()


def open_files(pid: int) -> list[Path]:
    """Returns which files the process has open. Raises ``psutil.Error``."""
    import psutil

    return [Path(file.path) for file in psutil.Process(pid).open_files()]


if sys.platform == "linux":

    def die_with_parent(by_force: bool = False) -> None:
        """Be asked to end, or end ``by_force``, when this process's parent dies. Nothing a child inherits."""
        import ctypes  # late: few processes need it

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL if by_force else signal.SIGTERM))

else:

    def die_with_parent(by_force: bool = False) -> None:
        """Be asked to end, or end ``by_force``, when this process's parent dies. Nothing a child inherits."""
        parent = os.getppid()

        def watch() -> None:  # an orphan gets another parent
            while os.getppid() == parent:
                time.sleep(_PARENT_POLL_S)
            os.kill(os.getpid(), signal.SIGKILL if by_force else signal.SIGTERM)

        threading.Thread(target=watch, name="parent", daemon=True).start()


def adopt_orphans() -> None:
    """Have this process become the parent of each process below it whose own parent ends (Linux)."""
    import ctypes

    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def wait_for_adoption(parent: int, by: int) -> bool:
    """Waits until the process ``parent``, which is about to end, is no longer the parent of this one; whether its
    parent is now ``by``."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    return os.getppid() == by


def end_before_others() -> None:
    """Lets the kernel choose this process when memory runs out, rather than its guard, which can report it."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")


def end_by_force() -> NoReturn:
    """End this process as SIGKILL ends it, so that nothing of it can act any more."""
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)


def signal_name(exit_code: int) -> str:
    """``SIGKILL`` for the exit code -9 that ``subprocess`` gives a killed child; empty when it ended by itself."""
    if exit_code >= 0:
        return ""
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def thread_count() -> int:
    """Threads of this process, those of C libraries as well; 0 where the system does not report it."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 0


if sys.platform == "darwin":

    def stay_awake(why: str) -> Callable[[], None]:
        """Have the system give a window that nobody sees its time (no App Nap) until the returned function is called.
        The computer may sleep all the same."""
        import ctypes

        objc = ctypes.CDLL("/usr/lib/libobjc.dylib")
        objc.objc_getClass.restype = objc.sel_registerName.restype = ctypes.c_void_p

        def send(target: int | None, name: bytes, *words: Any) -> int | None:
            kinds = [type(word) for word in words]
            call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *kinds)
            found: int | None = call(("objc_msgSend", objc))(target, objc.sel_registerName(name), *words)
            return found

        words = send(objc.objc_getClass(b"NSString"), b"stringWithUTF8String:", ctypes.c_char_p(why.encode()))
        info = send(objc.objc_getClass(b"NSProcessInfo"), b"processInfo")
        options = ctypes.c_uint64(_USER_INITIATED)
        activity = send(info, b"beginActivityWithOptions:reason:", options, ctypes.c_void_p(words))
        send(activity, b"retain")

        def end() -> None:
            send(info, b"endActivity:", ctypes.c_void_p(activity))
            send(activity, b"release")

        return end

else:

    def stay_awake(why: str) -> Callable[[], None]:
        """Only macOS takes time from a window that nobody sees."""
        return lambda: None


# --- The machine ------------------------------------------------------------------------------------------------------


if sys.platform == "linux":

    def usable_cores() -> int:
        """Returns how many of the processor's cores this process may use."""
        return len(os.sched_getaffinity(0))

else:

    def usable_cores() -> int:
        """Returns how many of the processor's cores this process may use."""
        return os.cpu_count() or 1


def processor() -> str:
    """Model and number of cores that this process may use: how sums are split, and so rounded, depends on both."""
    model = platform.processor() or platform.machine()
    with (
        suppress(OSError),
        _PROCESSORS.open(encoding="utf-8", errors="replace") as file,
    ):  # the first core's part is enough
        names = (line.partition(":")[2].strip() for line in islice(file, 12) if line.startswith("model name"))
        model = next(names, "") or model
    return f"{model or 'unknown'}, {usable_cores()} cores"


def boot_id() -> str:
    """Changes with every start of the machine; empty where the system has none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def raise_descriptor_limit() -> None:
    """Let this process have as many open files and connections as the system allows it (``ulimit -Hn``)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS names a hard limit that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# --- Users and folders ------------------------------------------------------------------------------------------------


def user_id() -> str:
    """What tells this user from the others of the computer, for the name of a folder."""
    return str(os.getuid())


def is_superuser() -> bool:
    """Whether this process may do everything."""
    return os.geteuid() == 0


def is_mine(state: os.stat_result) -> bool:
    """Whether a file belongs to this user."""
    return state.st_uid == os.geteuid()


def is_mine_alone(state: os.stat_result) -> bool:
    """Whether a file belongs to this user, and its mode lets nobody else use it."""
    return is_mine(state) and not state.st_mode & 0o077


def others_may_write(state: os.stat_result) -> bool:
    """Whether the mode of a file or folder lets other users write to it."""
    return bool(state.st_mode & 0o022)


def shut_out_others(folder: Path, state: os.stat_result) -> None:
    """Takes away other users' access to a folder of one's own."""
    if state.st_mode & 0o077:
        folder.chmod(0o700)


if sys.platform == "darwin":

    def _peer(sock: socket.socket) -> int:
        _version, user = struct.unpack_from("Ii", sock.getsockopt(0, 1, 76))  # SOL_LOCAL, LOCAL_PEERCRED; sys/ucred.h
        return int(user)

else:

    def _peer(sock: socket.socket) -> int:
        _process, user, _group = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(user)


class _Guarded(socket.socket):
    """A Unix socket that lets in only this user's programs, whatever the modes of its folders are."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises ``ConnectionAbortedError`` for another user's program."""
        connection, address = super().accept()
        try:
            if _peer(connection) == os.geteuid():
                return connection, address
        except OSError:  # it has gone already
            pass
        connection.close()
        raise ConnectionAbortedError("this program may not connect here")


def listen_locally(path: Path, backlog: int) -> socket.socket:
    """A socket at ``path``, for programs of this user that may enter its folder. Its file stays. Raises
    ``OSError``."""
    listener = _Guarded(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    return listener


def connect_locally(path: Path) -> socket.socket:
    """A socket connected to the one that listens at ``path``: at once, or never. Raises ``OSError``."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.setblocking(False)
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def packet_pair() -> tuple[socket.socket, socket.socket]:
    """Two sockets that are connected: each packet arrives whole, and an end whose process dies is noticed. Raises
    ``OSError``."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def share_port(sock: socket.socket) -> None:
    """Let other sockets have the same port, if they allow it as well."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


if sys.platform == "darwin":

    def private_folder() -> Path:
        """The folder, on this computer's own disk, for keys and locks. macOS removes from $TMPDIR what was not used
        for three days, also the mark of a run that takes longer."""
        return Path.home() / "Library" / "Application Support" / "clew" / "private"

else:

    def private_folder() -> Path:
        """The folder, on this computer's own disk, for keys and locks: the same for all processes, also when it is
        full just now.

        ``tempfile.gettempdir`` takes another one then, and a run's guard would not be found by its agent.
        """
        named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
        parent = next((Path(name).absolute() for name in named if name and Path(name).is_dir()), _TMP)
        return parent / f"clew-{user_id()}"


# --- Files ------------------------------------------------------------------------------------------------------------


OPEN_FLAGS = os.O_CLOEXEC
"""What ``os.open`` needs beside what one wants: no child inherits the file, and bytes stay as they are."""
OPEN_NOW = os.O_NONBLOCK
"""A flag of ``os.open`` that does not wait for the other end of a FIFO."""


def replace_file(source: Path, target: Path) -> Path:
    """Give ``source`` the name ``target``; what had it is gone. Returns ``target``."""
    return source.replace(target)


def remove_file(path: Path) -> None:
    """Remove a file, if it exists."""
    path.unlink(missing_ok=True)


def give_up_locked(path: Path, handle: int) -> None:
    """Remove the file ``path`` that this process has locked, and close its ``handle``: in this order, because after it
    is closed the file may be another's."""
    try:
        path.unlink(missing_ok=True)
    finally:
        os.close(handle)


if sys.platform == "darwin":

    def sync(handle: int) -> None:
        """Return when the file's content is on the disk. On macOS ``fsync`` leaves it in the disk's own memory."""
        try:
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        except OSError:  # a file system of the network may not have it
            os.fsync(handle)

else:

    def sync(handle: int) -> None:
        """Return when the file's content is on the disk."""
        os.fsync(handle)


def sync_folder(folder: Path) -> None:
    """Make new names in ``folder`` last through a power cut, where the system has a way to say so."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_parts(handle: int, parts: Sequence[bytes]) -> int:
    """Write several pieces in one call; returns how many bytes the disk has taken."""
    return os.writev(handle, parts)


# --- Locks ------------------------------------------------------------------------------------------------------------


def unlock(handle: int) -> None:
    """Let go of the lock."""
    fcntl.flock(handle, fcntl.LOCK_UN)


def lock(handle: int) -> None:
    """Lock the open file now; children inherit the lock. Raises ``OSError`` when another process has it."""
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_for_process(handle: int) -> None:
    """Lock the open file now, for this process alone. Raises ``OSError`` when another process has it."""
    fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
