"""``clew desktop-entry``: puts Clew among the programs of the desktop, and takes it out again."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from clew_gui.base import desktop_entry as entries
from clew_gui.base.desktop_entry import DesktopEntry
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError, check_qt, problem

_WITHIN_S = 60.0
"""Bound on a desktop's own programs; PowerShell alone takes seconds to begin."""


class _Desktop(NamedTuple):
    """How a system is told of a program, in which folder, and where a person finds it."""

    make: entries.Make
    folder: Callable[[Places], Path]
    where: str


def _data_home(_: Places) -> Path:
    named = os.environ.get("XDG_DATA_HOME", "")
    return Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "share"


_LINUX = _Desktop(entries.linux, _data_home, "among the programs of the desktop")
_DESKTOPS: Mapping[str, _Desktop] = {
    "win32": _Desktop(entries.windows, lambda places: places.home, "in the start menu"),
    "darwin": _Desktop(entries.macos, lambda _: Path.home() / "Applications", "in the Applications of your own folder"),
}


def desktop_entry(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew desktop-entry [--remove]``."""
    about = (
        "Put Clew among the programs of the desktop, with its icon, so that a click opens the window, and a click on"
    )
    parser = Parser("clew desktop-entry", f"{about} a hand-in checks it there. --remove takes all of it away again.")
    parser.add_argument("--remove", action="store_true", help="take it away again")
    options = parser.parse_args(list(argv))
    if not options.remove and (found := check_qt()) is not None:
        raise ProblemError(found)
    desktop = _DESKTOPS.get(operating_system.NAME, _LINUX)
    entry = desktop.make(entries.window_program(), desktop.folder(context.places))
    try:
        (_remove if options.remove else _add)(entry)
    except OSError as error:
        text = f"{error.filename or 'The entry'} cannot be changed: {error.strerror or error}."
        raise problem("start.entry", text, "Make it writable, or make room there.") from None
    context.say(f"Clew is {'no longer ' if options.remove else ''}{desktop.where}.")
    return OK


def _add(entry: DesktopEntry) -> None:
    for path, content in entry.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if content.startswith(b"#!"):
            path.chmod(0o755)
    _tell(entry, entry.script)


def _remove(entry: DesktopEntry) -> None:
    for path in entry.made:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    _tell(entry, entry.removal)


def _tell(entry: DesktopEntry, script: str) -> None:
    for command in entry.announce:
        with suppress(OSError, subprocess.TimeoutExpired):
            _run(command)
    if script:
        # As bytes of UTF-16: what comes through standard input is read in the console's own code page.
        encoded = base64.b64encode(script.encode("utf-16-le")).decode()
        done = _run(["powershell", "-NoProfile", "-NonInteractive", "-EncodedCommand", encoded])
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"]
            raise OSError(0, lines[0], "The start menu")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WITHIN_S, check=False)
