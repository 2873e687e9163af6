"""The user's own terminal program, and how to make it run one of Clew's commands in a window of its own."""

from __future__ import annotations

import ntpath
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from clew_shared.base import operating_system
from clew_shared.base.problem import os_refused, problem

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
"""Keeps the window open after a failure, because anyone who is refused wants to read why."""
_KEPT = ("CLEW_HOME", "SSH_AUTH_SOCK")
"""The variables to pass on, because some terminal programs do not pass on what they were started with."""

Which = Callable[[str], str | None]


def own_command(words: Sequence[str]) -> list[str]:
    """``clew`` with these words, by the very program that runs now."""
    if getattr(sys, "frozen", False):
        return [sys.executable, *words]
    # -P: a file of the current folder must not stand in for a module.
    return [sys.executable, "-P", "-m", "clew_gui", *words]


def terminal_command(
    command: Sequence[str], environ: Mapping[str, str], system: str, which: Which = shutil.which
) -> list[str] | str | None:
    """Returns the command that opens a terminal window with ``command`` in it; None if no terminal program is found.

    ``system`` is ``operating_system.NAME``. For Windows it is one line, to be started with a console of its own, which
    is shown by the terminal program that the user has chosen there. macOS and Windows by their documentation: only
    Linux could be tried.
    """
    if system == "win32":
        return cmd_line(command, environ)
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


def cmd_line(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """The line that has cmd run ``command``, and wait for a key when that failed.

    cmd takes away the quotes around what follows ``/c``, always with ``/s``: without it only sometimes, among other
    things when there is a bracket in a path. (learn.microsoft.com/windows-server/administration/windows-commands/cmd)
    """
    cmd = ntpath.join(environ.get("SystemRoot") or r"C:\Windows", "System32", "cmd.exe")
    return f'"{cmd}" /d /v:off /s /c "{" ".join(map(cmd_word, command))} || pause"'


def cmd_word(text: str) -> str:
    """``text`` as a word of a line for cmd, which hands it on to a program that takes its words apart as C does.

    In quotes nothing but ``%`` has a meaning for cmd; that, and a quote, are outside of them after a caret. C needs
    backslashes before a quote to be doubled. Line breaks are not possible.
    """
    found = ""
    for part in re.split(r'([%"])', text):
        if part == "%":
            found += "^%"
        elif part == '"':
            found += '\\^"'
        elif part:
            ending = len(part) - len(part.rstrip("\\"))
            found += f'"{part}{chr(92) * ending}"'
    return found or '""'


def open_terminal(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Open a terminal window with ``clew`` and these words in it. Waits a moment; raises ``ProblemError``."""
    command = terminal_command(own_command(words), os.environ, operating_system.NAME)
    if command is None:
        raise problem("terminal.none", "No terminal program was found.", "Open a terminal and type the command there.")
    program = command if isinstance(command, str) else command[0]
    hint = "Open a terminal and type the command there."
    with os_refused("terminal.start", f"{program} cannot be started", hint):
        process = subprocess.Popen(command, **operating_system.new_console())
    try:
        status = process.wait(_EARLY_S)
    except subprocess.TimeoutExpired:
        return process
    if status:
        text = f"{program} ended at once, with status {status}."
        raise problem("terminal.start", text, hint)
    return process


def _line(command: Sequence[str], environ: Mapping[str, str]) -> str:
    kept = [f"{name}={environ[name]}" for name in _KEPT if environ.get(name)]
    return shlex.join(["env", *kept, *command] if kept else command)


def _apple(text: str) -> str:
    """A text in AppleScript's quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
