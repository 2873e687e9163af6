"""The terminal that a command runs in, joined to one elsewhere: every key goes there, and it is always restored."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from clew_gui.ssh.connection import Size, Terminal
from clew_gui.ssh.terminals import UNKNOWN
from clew_shared.base.problem import ProblemError

_CHUNK = 4096
_STATUS_S = 10.0
_RESIZED, _ENDED, _STOP = b"r", b"e", b"s"


def own_size(handle: int = 0, out: int = 1) -> Size | None:
    """The size of the terminal that this program runs in; None when it is in none, and on Windows."""
    if os.name != "posix" or not (os.isatty(handle) and os.isatty(out)):
        return None
    found = os.get_terminal_size(out)
    return Size(columns=found.columns or 80, rows=found.lines or 24)


def join(terminal: Terminal, raw: bool, handle: int = 0, out: int = 1) -> int:
    """Pass on what is typed (descriptor ``handle``) and show what comes (``out``) until the other end is over; returns
    its exit status. ``raw``: this is a terminal, and gets no meaning of its own from any key meanwhile.

    Raises ``ProblemError`` when the link died. Only in the main thread.
    """
    reading, ringing = os.pipe()
    os.set_blocking(ringing, False)

    def ring(what: bytes) -> None:
        with suppress(OSError):  # full: it was rung already
            os.write(ringing, what)

    found: list[ProblemError] = []
    shower = threading.Thread(target=_show, args=(terminal, out, found, ring), name="terminal", daemon=True)
    try:
        with _signals(ring, ringing), _raw(handle if raw else -1):
            shower.start()
            ended = _pass_on(terminal, handle, reading)
        status = terminal.exit_status(_STATUS_S) if ended else UNKNOWN
    finally:
        terminal.close()
        shower.join(_STATUS_S)
        os.close(reading)
        os.close(ringing)
    if found:
        raise found[0]
    return status


def _show(terminal: Terminal, out: int, found: list[ProblemError], ring: Callable[[bytes], None]) -> None:
    try:
        while data := terminal.recv(_CHUNK):
            while data:
                data = data[os.write(out, data) :]
    except ProblemError as error:
        found.append(error)
    except OSError:  # nobody looks any more
        pass
    finally:
        ring(_ENDED)


def _pass_on(terminal: Terminal, handle: int, bell: int) -> bool:
    """Whether the other end was over, rather than that this program was asked to end."""
    watched = [handle, bell]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if bell in ready:
            rung = os.read(bell, _CHUNK)
            if _ENDED in rung or _STOP in rung:
                return _ENDED in rung
            if _RESIZED in rung and (size := own_size()) is not None:
                terminal.resize(size)
        if handle in ready:
            data = os.read(handle, _CHUNK)
            if data:
                terminal.send(data)
            else:
                terminal.end()
                watched.remove(handle)


@contextmanager
def _signals(ring: Callable[[bytes], None], ringing: int) -> Iterator[None]:
    """A window that changes its size, and being asked to end: both wake the loop. Python itself writes into ``ringing``
    as soon as a signal comes: its handlers wait for the main thread, which may sleep when another thread got it."""
    meanings = {signal.SIGTERM: _STOP}
    if os.name == "posix":
        meanings |= {signal.SIGHUP: _STOP, signal.SIGWINCH: _RESIZED}

    def note(number: int, _frame: FrameType | None) -> None:
        ring(meanings[signal.Signals(number)])

    before = {number: signal.signal(number, note) for number in meanings}
    woken = signal.set_wakeup_fd(ringing, warn_on_full_buffer=False) if os.name == "posix" else -1
    try:
        yield
    finally:
        if os.name == "posix":
            signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _raw(handle: int) -> Iterator[None]:
    if handle < 0:
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(handle)
    try:
        _undisturbed(lambda: tty.setraw(handle, termios.TCSADRAIN))  # what was typed ahead stays
        yield
    finally:
        _undisturbed(lambda: termios.tcsetattr(handle, termios.TCSADRAIN, before))
        sys.stdout.flush()


def _undisturbed(change: Callable[[], object]) -> None:
    """Change the terminal, again when a signal came meanwhile: a closed window sends two at once, and Python repeats
    other calls of the system by itself, but not these."""
    import termios

    while True:
        try:
            change()
        except termios.error as error:
            if error.args[0] == errno.EINTR:
                continue
            raise
        return
