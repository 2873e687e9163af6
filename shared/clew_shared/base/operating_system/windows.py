"""Windows: no sessions, no signals between processes, no fork; an open file can neither be replaced nor removed."""

from __future__ import annotations

import sys

assert sys.platform == "win32"  # noqa: S101  # for mypy, which reads the rest for Windows only

import _thread
import ctypes
import hmac
import msvcrt
import os
import platform
import secrets
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ctypes import wintypes
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

from clew_shared.base.operating_system.common import Child

_Result = TypeVar("_Result")

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
for _name in ("CreateEventW", "CreateJobObjectW", "OpenProcess"):
    getattr(_kernel, _name).restype = wintypes.HANDLE
_kernel.CreateEventW.argtypes = [wintypes.LPVOID, wintypes.BOOL, wintypes.BOOL, wintypes.LPCWSTR]
_kernel.CloseHandle.argtypes = _kernel.SetEvent.argtypes = _kernel.ResetEvent.argtypes = [wintypes.HANDLE]
_kernel.OpenProcess.argtypes = [wintypes.DWORD, wintypes.BOOL, wintypes.DWORD]
_kernel.CreateJobObjectW.argtypes = [wintypes.LPVOID, wintypes.LPCWSTR]
_kernel.SetInformationJobObject.argtypes = [wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD]
_kernel.GetConsoleMode.argtypes = _kernel.GetNumberOfConsoleInputEvents.argtypes = [wintypes.HANDLE, wintypes.LPDWORD]
_kernel.PeekNamedPipe.argtypes = [
    wintypes.HANDLE, wintypes.LPVOID, wintypes.DWORD, wintypes.LPVOID, wintypes.LPVOID, wintypes.LPVOID,
]  # fmt: skip
_kernel.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
_kernel.TerminateJobObject.argtypes = [wintypes.HANDLE, wintypes.UINT]
_kernel.WaitForMultipleObjects.argtypes = [
    wintypes.DWORD, ctypes.POINTER(wintypes.HANDLE), wintypes.BOOL, wintypes.DWORD,
]  # fmt: skip
_nt = ctypes.WinDLL("ntdll")
_nt.NtResumeProcess.argtypes = [wintypes.HANDLE]
_FOR_EVER = 0xFFFFFFFF
_CREATE_SUSPENDED = 0x00000004
_QUOTA_TERMINATE_RESUME = 0x0100 | 0x0001 | 0x0800
_KILL_ON_JOB_CLOSE, _EXTENDED_LIMITS = 0x00002000, 9
_OPEN_S = 2.0
"""Seconds for which a file that somebody has open is tried again: a virus scanner or an index looks at a new file for
less than one, and another program of Clew's reads for some milliseconds."""
_RETRY_S = 0.01
_GREETING_S = 1.0
"""Seconds within which a program of this computer says why it may connect."""
_FAR = 1 << 40
"""Windows locks bytes, and then nobody else can read them: one far after the content is locked."""

QT_WITHOUT_SCREEN = "minimal:enable_fonts"
"""Here Qt's ``offscreen`` finds no fonts, and draws a box for each letter."""
SHELL_QUOTES = False
"""Whether words are quoted as a shell has them: on Windows a backslash is part of a path."""
HAS_UNIX_SOCKETS = False
LONGEST_SOCKET_PATH = 259
HAS_MENU_BAR = False
FORKS_SAFELY = False


class _JobLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION, of which only the flags are used."""

    _fields_ = (("times", ctypes.c_int64 * 2), ("flags", wintypes.DWORD), ("others", ctypes.c_size_t * 15))


# --- Processes --------------------------------------------------------------------------------------------------------


def own_session() -> dict[str, Any]:
    """Options for ``subprocess.Popen``: the child gets a console of its own that nobody sees, so that neither Ctrl+C
    nor closing the window reaches it, and it outlives this process."""
    return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}


def new_console() -> dict[str, Any]:
    """Options for ``subprocess.Popen`` of a program that opens a window of its own for what it reads and writes."""
    return {"creationflags": subprocess.CREATE_NEW_CONSOLE}


class _Session(subprocess.Popen[bytes]):
    """A program in a job object: a set of processes that ends as a whole, at the latest when nobody holds it any more.
    What its processes start belongs to it as well."""

    def __init__(self, command: Sequence[str], creationflags: int, **options: Any) -> None:
        self._job = int(_kernel.CreateJobObjectW(None, None) or 0)
        self._let_go = weakref.finalize(self, _kernel.CloseHandle, self._job)
        limits = _JobLimits(flags=_KILL_ON_JOB_CLOSE)
        _kernel.SetInformationJobObject(self._job, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits))
        super().__init__(command, creationflags=creationflags | _CREATE_SUSPENDED, **options)
        process = int(_kernel.OpenProcess(_QUOTA_TERMINATE_RESUME, False, self.pid) or 0)
        _kernel.AssignProcessToJobObject(self._job, process)
        _nt.NtResumeProcess(process)
        _kernel.CloseHandle(process)

    def end(self) -> None:
        """End all of its processes."""
        _kernel.TerminateJobObject(self._job, 1)


def start_session(command: Sequence[str], ends_with_parent: bool = False, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that ``kill_session`` ends together with all that it starts, and that ends with this process.
    ``options`` are those of ``subprocess.Popen``. Raises ``OSError``."""
    return _Session(command, **options, **own_session())


def kill_session(child: Child) -> None:
    """End a child that was started by ``start_session``, and what it has started.

    Works also when the child has ended and its own children go on.
    """
    child.end() if isinstance(child, _Session) else child.kill()


def kill_group(pid: int, politely: bool = False) -> None:
    """End the process, with what it has started by ``start_session``; here nobody can be asked ``politely``."""
    kill_process(pid)


def kill_process(pid: int) -> None:
    """End a process at once; one that has ended already is no error."""
    with suppress(OSError):
        if pid > 0:
            os.kill(pid, signal.SIGTERM)  # which is TerminateProcess here


def _stop_event(pid: int) -> int:
    """The event by which the process ``pid`` is asked to stop; made by whoever needs it first."""
    return int(_kernel.CreateEventW(None, False, False, f"Local\\clew-stop-{pid}") or 0)


def ask_to_stop(pid: int, number: int = signal.SIGINT) -> None:
    """Ask a process to stop, as Ctrl+C does: by an event, because keys reach a console's own programs only.

    The event stays open as long as this process, for one that has only just begun and does not listen yet.
    """
    if event := _stop_event(pid):
        _kernel.SetEvent(event)


def pass_on(process: Child, number: int) -> None:
    """Pass a stop request on to a child in a session of its own; a child that has ended already is no error."""
    if process.poll() is None:
        ask_to_stop(process.pid, number)


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals by which a program is asked to end: Ctrl+C, Ctrl+Break or the console closed."""
    return (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)


@contextmanager
def stop_requests(note: Callable[[int], None]) -> Iterator[None]:
    """Call ``note(signal number)`` for each request to stop instead of dying of it. Only in the main thread."""

    def handle(number: int, _frame: FrameType | None) -> None:
        note(number)

    before = {number: signal.signal(number, handle) for number in stop_signals()}
    with ExitStack() as stack:
        for number, handler in before.items():
            stack.callback(signal.signal, number, handler)
        over = int(_kernel.CreateEventW(None, True, False, None) or 0)
        events = (over, *(_stop_event(pid) for pid in _own_ids()))
        listener = threading.Thread(target=_listen, args=(events,), name="stop-requests", daemon=True)
        listener.start()
        try:
            yield
        finally:
            _kernel.SetEvent(over)
            listener.join()
            for event in events:
                _kernel.CloseHandle(event)


def _listen(events: Sequence[int]) -> None:
    handles = (wintypes.HANDLE * len(events))(*events)
    while 0 < _kernel.WaitForMultipleObjects(len(events), handles, False, _FOR_EVER) < len(events):
        _thread.interrupt_main(signal.SIGINT)  # also wakes a main thread that sleeps


def _own_ids() -> tuple[int, ...]:
    """Under which ids others know this process. The python.exe of a virtual environment only starts the real one: its
    id is the one that whoever started it has."""
    return (os.getpid(), os.getppid()) if _is_launched() else (os.getpid(),)


def _is_launched() -> bool:
    base = str(getattr(sys, "_base_executable", sys.executable))
    return os.path.normcase(base) != os.path.normcase(sys.executable)


def parent_id() -> int:
    """The id of the process that started this one; where a virtual environment's python.exe came between, of the one
    that started that."""
    import psutil

    with suppress(psutil.Error):
        return int(psutil.Process(os.getppid()).ppid()) if _is_launched() else os.getppid()
    return 0


def open_files(pid: int) -> list[Path]:
    """None that is known. psutil asks for each in a thread, which it ends by force after a tenth of a second; what that
    thread has locked stays so, and this process waits for it for ever."""
    return []


def die_with_parent(by_force: bool = False) -> None:
    """A process that was started by ``start_session`` ends with its parent anyway."""


def wait_for_input(*handles: int) -> list[int]:
    """Wait until one of the pipes, files or consoles has something to read, or its end; returns which ones. Looks again
    and again: while one thread waits in a read of standard input, no other can load a library, which asks what standard
    input is."""
    while not (ready := [one for one in handles if _has_input(msvcrt.get_osfhandle(one))]):
        time.sleep(_RETRY_S)
    return ready


def _has_input(handle: int) -> bool:
    there, mode = wintypes.DWORD(), wintypes.DWORD()
    if _kernel.GetConsoleMode(handle, ctypes.byref(mode)):
        return not _kernel.GetNumberOfConsoleInputEvents(handle, ctypes.byref(there)) or there.value > 0
    return not _kernel.PeekNamedPipe(handle, None, 0, None, ctypes.byref(there), None) or there.value > 0


def restore_sigchld() -> None:
    """Windows always says how a child has ended."""


class Forked:
    """What ``fork`` would return; there is none."""

    pid: int
    returncode: int | None

    def __init__(self, pid: int) -> None:
        raise NotImplementedError

    def _none(self, *_: object, **__: object) -> Any:
        raise NotImplementedError

    poll = terminate = kill = wait = send_signal = _none


def fork(work: Callable[[], int]) -> Forked:
    """Raises ``OSError``: Windows cannot copy a process."""
    raise OSError("Windows cannot copy a process")


def adopt_orphans() -> None:
    """Processes have no parents here that would matter."""


def wait_for_adoption(parent: int, by: int) -> bool:
    """Nobody becomes the parent of another's process here."""
    return False


def end_before_others() -> None:
    """Windows has no rule for which process ends when memory runs out."""


def end_by_force() -> NoReturn:
    """End this process so that nothing of it can act any more."""
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(1)


def signal_name(exit_code: int) -> str:
    """No process ends by a signal here."""
    return ""


def thread_count() -> int:
    """The system reports it, but nobody here must know before a fork: 0."""
    return 0


def stay_awake(why: str) -> Callable[[], None]:
    """Windows takes no time from a window that nobody sees."""
    return lambda: None


# --- The machine ------------------------------------------------------------------------------------------------------


def usable_cores() -> int:
    """Returns how many of the processor's cores this process may use."""
    return os.cpu_count() or 1


def processor() -> str:
    """Model and number of cores that this process may use: how sums are split, and so rounded, depends on both."""
    return f"{platform.processor() or platform.machine() or 'unknown'}, {usable_cores()} cores"


def boot_id() -> str:
    """Windows has no such id."""
    return ""


def raise_descriptor_limit() -> None:
    """Windows has no such limit."""


# --- Users and folders ------------------------------------------------------------------------------------------------


def user_id() -> str:
    """What tells this user from the others of the computer, for the name of a folder."""
    return os.environ.get("USERNAME", "user")


def is_superuser() -> bool:
    """Whether this process may do everything."""
    return False


def is_mine(state: os.stat_result) -> bool:
    """Whether a file belongs to this user: Clew's folders are in the user's profile, which is the user's alone."""
    return True


def is_mine_alone(state: os.stat_result) -> bool:
    """Whether nobody but this user can use a file of the user's profile; a mode says nothing here."""
    return True


def others_may_write(state: os.stat_result) -> bool:
    """Whether the mode of a file or folder lets other users write to it; a mode says nothing here."""
    return False


def shut_out_others(folder: Path, state: os.stat_result) -> None:
    """Folders below the user's profile are the user's alone already."""


class _Guarded(socket.socket):
    """A port of this computer that lets in only who has read its file."""

    def __init__(self, path: Path, backlog: int) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._secret = secrets.token_hex(16).encode()
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            self.bind(("127.0.0.1", 0))
            self.listen(backlog)
            with path.open("xb") as file:
                file.write(b"%d %s" % (self.getsockname()[1], self._secret))
        except OSError:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises ``ConnectionAbortedError`` for somebody who does not know the secret."""
        connection, address = super().accept()
        said, until = b"", time.monotonic() + _GREETING_S
        with suppress(OSError):
            while missing := len(self._secret) - len(said):
                connection.settimeout(max(0.001, until - time.monotonic()))
                if not (part := connection.recv(missing)):
                    break
                said += part
            connection.settimeout(None)
        if not hmac.compare_digest(said, self._secret):
            connection.close()
            raise ConnectionAbortedError("this program may not connect here")
        return connection, address


def listen_locally(path: Path, backlog: int) -> socket.socket:
    """A socket for programs of this computer that may read the file ``path``, which is made. Raises ``OSError``."""
    return _Guarded(path, backlog)


def connect_locally(path: Path) -> socket.socket:
    """A socket connected to the one whose file is ``path``: at once, or never. Raises ``OSError``."""
    number, _, secret = path.read_bytes().partition(b" ")
    if not number.isdigit():  # it is being written
        raise ConnectionRefusedError(f"nobody listens at {path} yet")
    connection = socket.create_connection(("127.0.0.1", int(number)), _GREETING_S)
    connection.sendall(secret)
    connection.setblocking(False)
    return connection


def packet_pair() -> tuple[socket.socket, socket.socket]:
    """Raises ``OSError``: only copies of a process talk that way, and there are none."""
    raise OSError("Windows has no sockets of packets")


def share_port(sock: socket.socket) -> None:
    """SO_REUSEADDR lets others have the port here already."""


def private_folder() -> Path:
    """The folder, on this computer's own disk, for keys and locks. What is in %TEMP% is removed by and by."""
    local = os.environ.get("LOCALAPPDATA")
    return (Path(local) if local else Path.home() / "AppData" / "Local") / "clew" / "private"


# --- Files ------------------------------------------------------------------------------------------------------------


OPEN_FLAGS = os.O_NOINHERIT | os.O_BINARY
OPEN_NOW = 0


def replace_file(source: Path, target: Path) -> Path:
    """Give ``source`` the name ``target``; what had it is gone. Returns ``target``. Tries again for a while, because
    Windows replaces no file that somebody has open."""
    return _when_closed(lambda: source.replace(target))


def remove_file(path: Path) -> None:
    """Remove a file, if it exists. Tries again for a while, because Windows removes no file that somebody has open."""
    _when_closed(lambda: path.unlink(missing_ok=True))


def _when_closed(change: Callable[[], _Result]) -> _Result:
    deadline = time.monotonic() + _OPEN_S
    while True:
        try:
            return change()
        except PermissionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_S)


def give_up_locked(path: Path, handle: int) -> None:
    """Remove the file ``path`` that this process has locked, and close its ``handle``: in that order, for Windows
    removes no open file. If another has opened it in between, it stays."""
    os.close(handle)
    with suppress(PermissionError):
        path.unlink(missing_ok=True)


def sync(handle: int) -> None:
    """Return when the file's content is on the disk."""
    os.fsync(handle)


def sync_folder(folder: Path) -> None:
    """Windows makes names last by itself."""


def write_parts(handle: int, parts: Sequence[bytes]) -> int:
    """Write several pieces in one call; returns how many bytes the disk has taken."""
    return os.write(handle, b"".join(parts))


# --- Locks ------------------------------------------------------------------------------------------------------------


def unlock(handle: int) -> None:
    """Let go of the lock."""
    _at_far_byte(handle, msvcrt.LK_UNLCK)


def lock(handle: int) -> None:
    """Lock the open file now. Raises ``OSError`` when another process has it."""
    _at_far_byte(handle, msvcrt.LK_NBLCK)


lock_for_process = lock


def _at_far_byte(handle: int, mode: int) -> None:
    place = os.lseek(handle, 0, os.SEEK_CUR)
    os.lseek(handle, _FAR, os.SEEK_SET)
    try:
        msvcrt.locking(handle, mode, 1)
    finally:
        os.lseek(handle, place, os.SEEK_SET)
