"""Finds out whether there is a display that a window could open on. Qt ends the whole process if there is none."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from clew_shared.base import operating_system

_CONNECT_S = 3.0
"""A forwarded display behind a slow line answers later than a local one, but it does answer."""
_INVISIBLE = ("offscreen", "minimal", "vnc")


def has_display(environ: Mapping[str, str], system: str) -> bool:
    """Whether a window can be seen: the answer of the display server under X11 and Wayland, always on Windows.

    ``system`` is ``operating_system.NAME``. On macOS a shell that came over ssh has no screen.
    """
    platform = environ.get("QT_QPA_PLATFORM", "")
    if platform.split(":")[0] in _INVISIBLE:
        return False
    if system == "win32":
        return True
    if system == "darwin":
        return "SSH_CONNECTION" not in environ
    return _wayland(environ) or _x11(environ.get("DISPLAY", ""))


def _wayland(environ: Mapping[str, str]) -> bool:
    name = environ.get("WAYLAND_DISPLAY")
    folder = environ.get("XDG_RUNTIME_DIR", "")
    return bool(name) and _answers_unix(str(Path(folder) / str(name)))


def _x11(display: str) -> bool:
    """``:0`` and ``unix:0`` are local sockets, ``localhost:10.0`` is what ssh -X makes."""
    match = re.fullmatch(r"(?P<host>[^:/]*|\[.*\]):(?P<number>\d{1,5})(\.\d+)?", display)
    if match is None:
        return False
    number, host = int(match["number"]), match["host"].strip("[]")
    if host in ("", "unix"):
        path = f"/tmp/.X11-unix/X{number}"  # noqa: S108  # where every X server listens
        return _answers_unix(path) or _answers_unix(f"\0{path}")
    with suppress(OSError, OverflowError), socket.create_connection((host, 6000 + number), _CONNECT_S):
        return True
    return False


def _answers_unix(path: str) -> bool:
    try:
        operating_system.connect_locally(Path(path)).close()
    except BlockingIOError:  # so many wait for an answer already
        return True
    except (OSError, ValueError):  # a name without a file, which Windows does not have
        return False
    return True
