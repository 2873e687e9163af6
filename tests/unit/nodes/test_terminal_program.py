"""The user's terminal program: which one, and what it is told."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.base.terminal_program import open_terminal, own_command, terminal_command
from clew_shared.base.problem import ProblemError

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


# --- Windows: there is none here, so cmd and C's own parser are modelled from what is written about them --------------

HOME = {"PATH": r"C:\Windows", "USERNAME": "anna", "SystemRoot": r"C:\Windows"}
CMD = r'"C:\Windows\System32\cmd.exe" /d /v:off /s /c '


def heard_by_cmd(line: str) -> tuple[str, str]:
    """What cmd makes of the line behind ``/s /c``: the first command, and what comes behind it. Variables first, then
    quotes and carets (stackoverflow.com/a/4095133, phases 1 and 2 of the command line)."""
    assert line[0] == line[-1] == '"', "these two are taken away"
    line = line[1:-1]
    for name, value in HOME.items():
        line = re.sub(re.escape(f"%{name}%"), value.replace("\\", "/"), line, flags=re.IGNORECASE)
    told, quoted, escaped = "", False, False
    for place, one in enumerate(line):
        if not (quoted or escaped) and one == "^":
            escaped = True
            continue
        if not (quoted or escaped) and one in "&|<>()":
            return told, line[place:]
        quoted ^= one == '"' and not escaped
        escaped = False
        told += one
    return told, ""


def taken_apart(line: str) -> list[str]:
    """The words as C takes them (learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments)."""
    words, word, begun, quoted, slashes = [], "", False, False, 0
    for one in f"{line} ":
        if one == "\\":
            slashes += 1
            continue
        quote = one == '"'
        word += "\\" * (slashes // 2 if quote else slashes)
        begun = begun or slashes > 0 or quote
        if quote and not slashes % 2:
            quoted = not quoted
        elif one in " \t" and not quoted:
            words += [word] if begun else []
            word, begun = "", False
        else:
            word, begun = word + one, True
        slashes = 0
    return words


@pytest.mark.parametrize(
    "python",
    [
        r"C:\Python\python.exe",
        r"C:\Program Files\Python\python.exe",
        r"C:\Program Files (x86)\Python\python.exe",
        r"C:\Users\Anna & Bert\python.exe",
        r"C:\Users\100%\R^D\%USERNAME%\py.exe",
        r"\\server\share one\it's!\py,thon;=.exe",
    ],
)
def test_a_path_with_signs_of_cmds_is_run_as_it_is(python: str) -> None:
    words = [python, "-P", "-m", "clew_gui", "shell", "--site", "lab & co", "--name", 'a "b\\" c\\', "", "%PATH%"]
    found = terminal_command(words, HOME, "win32")
    assert isinstance(found, str)
    assert found.startswith(CMD)
    command, rest = heard_by_cmd(found.removeprefix(CMD))
    assert taken_apart(command) == words
    assert rest == "|| pause", "whoever is refused wants to read why before the window closes"


@given(st.lists(st.text(alphabet="ab \t%\"\\^&|<>()!;=,'PATH"), min_size=1, max_size=4))
def test_no_word_says_anything_else_to_cmd(words: list[str]) -> None:
    found = terminal_command(words, HOME, "win32")
    assert isinstance(found, str)
    command, rest = heard_by_cmd(found.removeprefix(CMD))
    assert (taken_apart(command), rest) == (words, "|| pause")


@pytest.mark.unix("a shell")
def test_the_line_runs_the_command_in_this_home_and_stays_open_after_a_refusal(tmp_path: Path) -> None:
    told = "import os, sys; print(os.environ['CLEW_HOME'], sys.argv[1]); sys.exit(3)"
    words = [sys.executable, "-c", told, "a word"]
    found = terminal_command(words, SEEN | {"CLEW_HOME": str(tmp_path)}, "linux", lambda name: name)
    assert found is not None
    done = subprocess.run(["sh", "-c", found[-1]], input="\n", capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path} a word\n\nIt ended with status 3. Press Enter")


def test_the_program_that_runs_now_is_the_one_that_is_called() -> None:
    done = subprocess.run(own_command(["--version"]), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("clew ")


@pytest.mark.unix("a shell script stands in for a terminal program")
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
