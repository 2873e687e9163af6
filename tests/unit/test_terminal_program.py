"""The user's terminal program: which one, and what it is told."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clew_gui.remote.terminal_program import open_terminal, own_command, terminal_command
from clew_shared.problem import ProblemError

WORDS = ["clew", "shell", "--site", "it's"]
SEEN = {"DISPLAY": ":0"}


@pytest.mark.parametrize(
    ("there", "begins"),
    [
        ({"xterm", "gnome-terminal"}, ["/bin/gnome-terminal", "--", "sh", "-c"]),
        ({"xterm", "konsole"}, ["/bin/konsole", "-e", "sh", "-c"]),
        ({"xterm"}, ["/bin/xterm", "-e", "sh", "-c"]),
        ({"xterm", "x-terminal-emulator"}, ["/bin/x-terminal-emulator", "-e", "sh", "-c"]),
    ],
)
def test_the_users_choice_goes_first_on_linux(there: set[str], begins: list[str]) -> None:
    found = terminal_command(WORDS, SEEN, "linux", lambda name: f"/bin/{name}" if name in there else None)
    assert found is not None
    assert found[:-1] == begins
    assert found[-1].startswith("clew shell --site 'it'\"'\"'s'; ")


def test_where_nothing_can_be_seen_or_no_program_is_there_none_is_named() -> None:
    assert terminal_command(WORDS, {}, "linux", lambda name: f"/bin/{name}") is None
    assert terminal_command(WORDS, SEEN, "linux", lambda _name: None) is None


def test_the_others_have_their_own_words() -> None:
    mac = terminal_command(WORDS, {}, "darwin")
    assert mac is not None
    assert mac[:2] == ["osascript", "-e"]
    assert mac[2].startswith('tell application "Terminal" to do script "clew shell --site ')
    assert '\\"' in mac[2], "its quotes are AppleScript's"


@pytest.mark.parametrize(
    ("terminal", "before"), [("wt.exe", "wt.exe "), (None, 'cmd /c start "Clew terminal" ')], ids=["wt", "start"]
)
def test_windows_is_told_the_title_and_a_program_with_a_blank_in_its_path_in_quotes(
    terminal: str | None, before: str
) -> None:
    words = [r"C:\Program Files\Python\python.exe", "-P", "-m", "clew_gui", "shell", "--site", "lab"]
    found = terminal_command(words, {}, "win32", lambda _name: terminal)
    assert found is not None
    line = r'cmd /k "C:\Program Files\Python\python.exe" -P -m clew_gui shell --site lab'
    assert subprocess.list2cmdline(found) == before + line


def test_the_line_runs_the_command_in_this_home_and_stays_open_after_a_refusal(tmp_path: Path) -> None:
    told = "import os, sys; print(os.environ['CLEW_HOME'], sys.argv[1]); sys.exit(3)"
    words = [sys.executable, "-c", told, "a word"]
    found = terminal_command(words, SEEN | {"CLEW_HOME": str(tmp_path)}, "linux", lambda name: name)
    assert found is not None
    done = subprocess.run(["sh", "-c", found[-1]], input="\n", capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(f"{tmp_path} a word\n\nIt ended with status 3. Press Enter")


def test_the_program_that_runs_now_is_the_one_that_is_called() -> None:
    done = subprocess.run(own_command(["--version"]), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("clew ")


def test_a_program_that_shows_no_window_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("DISPLAY", ":0")
    program = tmp_path / "x-terminal-emulator"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(ProblemError, match="ended at once"):
        open_terminal(["shell"])
    program.write_text(f"#!/bin/sh\nshift\nprintf '%s\\n' \"$@\" > {shlex.quote(str(tmp_path / 'told'))}\n")
    open_terminal(["shell", "--site", "lab"])
    assert "-m clew_gui shell --site lab; " in (tmp_path / "told").read_text()
