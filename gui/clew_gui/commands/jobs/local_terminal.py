"""The terminal that a command runs in, joined to one elsewhere: every key goes there, and it is always restored."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

from clew_gui.ssh.connection import UNKNOWN, Size, Terminal
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError

_CHUNK = 4096
_STATUS_S = 10.0
_RESIZED, _ENDED, _STOP = b"r", b"e", b"s"


def own_size(handle: int = 0, out: int = 1) -> Size | None:
    """The size of the terminal that this program runs in; None when it is in none."""
    found = operating_system.terminal_size(handle, out)
    return Size(columns=found.columns or 80, rows=found.lines or 24) if found is not None else None


def join(terminal: Terminal, raw: bool, handle: int = 0, out: int = 1) -> int:
    """Pass on what is typed (descriptor ``handle``) and show what comes (``out``) until the other end is over; returns
    its exit status. ``raw``: this is a terminal, and gets no meaning of its own from any key meanwhile.

    Raises ``ProblemError`` when the link died. Only in the main thread.
    """
    reading, ringing = os.pipe()

    def ring(what: bytes) -> None:
        with suppress(OSError):  # full: it was rung already
            os.write(ringing, what)

    found: list[ProblemError] = []
    shower = threading.Thread(target=_show, args=(terminal, out, found, ring), name="terminal", daemon=True)
    try:
        with _signals(ring, ringing), operating_system.raw_terminal(handle, out) if raw else nullcontext():
            shower.start()
            ended = _pass_on(terminal, handle, out, reading)
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


def _pass_on(terminal: Terminal, handle: int, out: int, bell: int) -> bool:
    """Whether the other end was over, rather than that this program was asked to end."""
    watched, size = [bell, handle], own_size(handle, out)
    while True:
        ready = operating_system.wait_for_input(*watched)
        rung = os.read(bell, _CHUNK) if bell in ready else b""
        if _ENDED in rung or _STOP in rung:
            return _ENDED in rung
        if (now := own_size(handle, out)) != size and now is not None:
            size = now
            terminal.resize(now)
        data = operating_system.read_input(handle, _CHUNK) if handle in ready else None
        if data:
            terminal.send(data)
        elif data is not None:
            terminal.end()
            watched.remove(handle)


@contextmanager
def _signals(ring: Callable[[bytes], None], ringing: int) -> Iterator[None]:
    """A window that changes its size, and being asked to end: both wake the loop."""
    meanings: dict[int, bytes] = dict.fromkeys(operating_system.stop_signals(), _STOP)
    del meanings[signal.SIGINT]
    if operating_system.RESIZED is not None:
        meanings[operating_system.RESIZED] = _RESIZED

    def note(number: int, _frame: FrameType | None) -> None:
        ring(meanings[number])

    before = {number: signal.signal(number, note) for number in meanings}
    try:
        with operating_system.woken_by_signals(ringing):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
