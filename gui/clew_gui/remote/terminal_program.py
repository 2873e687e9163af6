"""The user's own terminal program, and how it is told to run one of Clew's commands in a window of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from clew_shared.problem import problem

_PROGRAMS = (
    ("x-terminal-emulator", "-e"),  # Debian's name for whichever the user has chosen
    ("gnome-terminal", "--"),
    ("konsole", "-e"),
    ("xfce4-terminal", "-x"),
    ("xterm", "-e"),
)
_EARLY_S = 1.5
"""A terminal program that ends so soon, and not well, has shown no window."""
_KEEP = 's=$?; [ $s -eq 0 ] || { printf "\\nIt ended with status %s. Press Enter to close this. " $s; read -r _; }'
"""Whoever is refused wants to read why before the window closes."""
_KEPT = ("CLEW_HOME", "SSH_AUTH_SOCK")
"""Not every terminal program hands on what it was started with."""

Which = Callable[[str], str | None]


def own_command(words: Sequence[str]) -> list[str]:
    """``clew`` with these words, by the very program that runs now."""
    if getattr(sys, "frozen", False):
        return [sys.executable, *words]
    # -P: a file of the current folder must not stand in for a module.
    return [sys.executable, "-P", "-m", "clew_gui", *words]


def terminal_command(
    command: Sequence[str], environ: Mapping[str, str], system: str, which: Which = shutil.which
) -> list[str] | None:
    """What opens a terminal window with ``command`` in it; None where no terminal program is found.

    ``system`` is ``sys.platform``. macOS and Windows by their documentation: only Linux could be tried.
    """
    if system == "win32":
        # Word by word: in a line that is one word Popen makes \" of its quotes, which cmd does not know.
        # start takes its first word as the title only when it stands in quotes: the blank brings them.
        found = which("wt")
        return [*([found] if found else ["cmd", "/c", "start", "Clew terminal"]), "cmd", "/k", *command]
    line = f"{_line(command, environ)}; {_KEEP}"
    if system == "darwin":
        script = f'tell application "Terminal" to do script {_apple(line)}'
        return ["osascript", "-e", script, "-e", 'tell application "Terminal" to activate']
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return None
    for name, before in _PROGRAMS:
        if found := which(name):
            return [found, before, "sh", "-c", line]
    return None


def open_terminal(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Open a terminal window with ``clew`` and these words in it. Waits a moment; raises ``ProblemError``."""
    command = terminal_command(own_command(words), os.environ, sys.platform)
    if command is None:
        raise problem("terminal.none", "No terminal program was found.", "Type the command in one of your own.")
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        text = f"{command[0]} cannot be started: {error.strerror}."
        raise problem("terminal.start", text, "Type the command in a terminal of your own.") from error
    try:
        status = process.wait(_EARLY_S)
    except subprocess.TimeoutExpired:
        return process
    if status:
        text = f"{command[0]} ended at once, with status {status}."
        raise problem("terminal.start", text, "Type the command in a terminal of your own.")
    return process


def _line(command: Sequence[str], environ: Mapping[str, str]) -> str:
    kept = [f"{name}={environ[name]}" for name in _KEPT if environ.get(name)]
    return shlex.join(["env", *kept, *command] if kept else command)


def _apple(text: str) -> str:
    """A text in AppleScript's quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
