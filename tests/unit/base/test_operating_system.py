"""What systems do differently is in one package, and both sides of it offer the same."""

from __future__ import annotations

import ast
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew_shared.base import file_lock, operating_system
from clew_shared.base.private_files import write_private
from clew_shared.base.problem import ProblemError

ROOT = Path(__file__).resolve().parents[3]
HOME = Path(operating_system.__file__).parent
ASKS = {
    "sys.platform",
    "os.name",
    "os.getuid",
    "os.geteuid",
    "os.killpg",
    "os.fork",
    "os.setsid",
    "os.getppid",
    "os.fsync",
    "platform.system",
    "operating_system.NAME",
}
GUESSED_AT = {"os", "signal", "socket", "subprocess", "asyncio"}
ONE_SYSTEM_ONLY = {"ctypes", "fcntl", "msvcrt", "pty", "pwd", "resource", "termios", "tty", "winreg"}
ALLOWED = {
    ("gui/clew_gui/base/terminal_program.py", "operating_system.NAME"): "a table of other people's programs",
    ("gui/clew_gui/commands/jobs/open.py", "operating_system.NAME"): "a table of display servers",
    ("gui/clew_gui/commands/desktop_entry.py", "operating_system.NAME"): "a table of desktops",
    ("gui/clew_gui/commands/start.py", "operating_system.NAME"): "a table of display servers",
    ("gui/clew_gui/doctor/this_computer.py", "operating_system.NAME"): "a table of advice",
    ("gui/clew_gui/doctor/this_computer.py", "platform.system"): "it is shown",
    ("shared/clew_shared/base/installation.py", "operating_system.NAME"): "a table of other people's programs",
    ("gui/clew_gui/deploy/probe_there.py", "platform.system"): "a program of a site, which reports it",
    ("agent/clew_agent/scripts/clew_log.py", "os.getppid"): "a file that has nothing of Clew's beside it",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(path for folder in ("shared", "agent", "gui") for path in (ROOT / folder).rglob("*.py")):
        if path.parent != HOME:
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def asked(tree: ast.AST) -> Iterator[str]:
    """Where code asks which system it runs on, or uses what only one of them has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ASKS:
            yield ast.unparse(node)
        if isinstance(node, ast.Call) and node.args:
            called, first = ast.unparse(node.func), ast.unparse(node.args[0])
            if (called in ("hasattr", "getattr") and first in GUESSED_AT) or (
                called == "suppress" and ast.unparse(node).endswith("OSError, AttributeError)")
            ):
                yield ast.unparse(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            yield from (name for name in names if name.partition(".")[0] in ONE_SYSTEM_ONLY)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("if sys.platform == 'win32': pass", ["sys.platform"]),
        ("user = os.getuid() if hasattr(os, 'getuid') else 0", ["hasattr(os, 'getuid')", "os.getuid"]),
        ("number = getattr(signal, 'SIGHUP', None)", ["getattr(signal, 'SIGHUP', None)"]),
        ("with suppress(OSError, AttributeError): pass", ["suppress(OSError, AttributeError)"]),
        ("def f():\n    import termios, os", ["termios"]),
        ("os.kill(pid, signal.SIGINT); getattr(spec, 'x', 0)", []),
    ],
)
def test_a_question_which_system_it_is_is_found(code: str, found: list[str]) -> None:
    assert sorted(asked(ast.parse(code))) == sorted(found)


def test_nothing_outside_its_package_asks_which_system_it_runs_on() -> None:
    found = {(name, what) for name, tree in modules() for what in asked(tree)}
    assert found == ALLOWED.keys()


def offered(*names: str) -> set[str]:
    """What the modules' ``__all__`` list."""
    found = set()
    for name in names:
        for node in ast.parse((HOME / f"{name}.py").read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found |= set(ast.literal_eval(node.value))
    return found


def test_each_system_offers_the_same() -> None:
    assert offered("posix") == offered("windows")
    assert offered("posix_terminal") == offered("windows_console")


def signature(module: str) -> dict[str, str]:
    tree = ast.parse((HOME / f"{module}.py").read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.unparse(node.args) for node in found if not node.name.startswith("_")}


@pytest.mark.unix("numbers of files that select does not know")
def test_input_of_a_file_with_a_high_number_is_seen() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    reading, writing = os.pipe()
    try:
        os.write(writing, b"x")
        os.dup2(reading, 2000)
        assert operating_system.wait_for_input(2000, writing) == [2000]
        os.close(writing)
        assert os.read(2000, 1) == b"x"
        assert operating_system.wait_for_input(2000) == [2000], "its end"
        os.close(2000)
    finally:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("one", "other"), [("posix", "windows"), ("posix_terminal", "windows_console")])
def test_each_system_takes_the_same_arguments(one: str, other: str) -> None:
    first, second = signature(one), signature(other)
    names = first.keys() & second.keys() & offered(one)
    assert {name: first[name] for name in names} == {name: second[name] for name in names}


def test_no_date_is_written_with_a_mark_that_only_some_systems_know() -> None:
    """``%-d`` ends a program on Windows, where the C library takes it for an error."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "%-" in node.value
    ]
    assert found == []


def test_no_process_means_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the system 0 means all processes of one's own group, and -1 nearly all that there are."""
    ended = []
    for name in ("kill", "killpg"):
        monkeypatch.setattr(os, name, lambda *words: ended.append(words), raising=False)
    for nobody in (0, -1):
        operating_system.kill_process(nobody)
        operating_system.kill_group(nobody)
    assert ended == []


@pytest.mark.unix("Windows has no signals")
def test_a_group_is_asked_once_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """To some programs a second request means: at once."""
    asked = []
    monkeypatch.setattr(os, "getpgid", lambda pid: pid)
    for name in ("kill", "killpg"):
        monkeypatch.setattr(os, name, lambda *words: asked.append(words))
    operating_system.kill_group(77, politely=True)
    assert asked == [(77, signal.SIGTERM)]


def ends_lines_its_own_way(node: ast.Call) -> bool:
    """Whether a call writes a text file with the line ends of the system that it runs on."""
    words = {word.arg for word in node.keywords}
    if "newline" in words or not isinstance(node.func, ast.Attribute):
        return False
    modes = {one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    opened = node.func.attr in ("open", "fdopen") and "encoding" in words and bool(modes & {"w", "a", "x"})
    return (opened or node.func.attr == "write_text") and "/proc/" not in ast.unparse(node.func)


def test_a_file_has_the_same_bytes_whichever_system_wrote_it() -> None:
    """Python writes other line ends on Windows, where hashes of a run's files and its hand-in would not agree."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ends_lines_its_own_way(node) and not name.endswith("_there.py")  # on sites
    ]
    assert found == []


# --- What it does -----------------------------------------------------------------------------------------------------

CHILD = """
import time
from clew_shared.base import operating_system
operating_system.die_with_parent(by_force=True)
print(1, flush=True)
time.sleep(600)
"""
PARENT = f"""
import subprocess, sys, time
from clew_shared.base import operating_system
child = operating_system.start_session([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
FIRST_OF_TWO = """
import subprocess, sys
second = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
print(second.pid, flush=True)
second.returncode = 0
"""
LISTENER = """
import time
from clew_shared.base import operating_system
found = []
with operating_system.stop_requests(found.append):
    print(1, flush=True)
    while not found:
        time.sleep(0.01)
"""
BOUND_S = 60.0


def ended(pid: int) -> bool:
    deadline = time.monotonic() + BOUND_S
    while operating_system.is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not operating_system.is_alive(pid)


def first_number(process: subprocess.Popen[bytes]) -> int:
    """What a program prints in its first line."""
    assert process.stdout is not None
    with process.stdout:
        return int(process.stdout.readline())


def test_a_process_ends_with_its_parent_if_it_asks_for_that() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, **operating_system.own_session())
    child = first_number(parent)
    operating_system.kill_process(parent.pid)
    parent.wait(BOUND_S)
    assert ended(child)


def test_a_session_ends_as_a_whole_even_when_its_first_process_has_ended() -> None:
    first = operating_system.start_session([sys.executable, "-c", FIRST_OF_TWO], stdout=subprocess.PIPE)
    second = first_number(first)
    assert first.wait(BOUND_S) == 0
    assert operating_system.is_alive(second)
    operating_system.kill_session(first)
    assert ended(second)


def test_a_request_to_stop_reaches_a_process_in_a_session_of_its_own() -> None:
    words = [sys.executable, "-c", LISTENER]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, **operating_system.own_session())
    assert child.stdout is not None
    with child.stdout:
        child.stdout.readline()
        operating_system.pass_on(child, signal.SIGINT)
        assert child.wait(BOUND_S) == 0


def test_a_file_that_somebody_reads_meanwhile_is_replaced(tmp_path: Path) -> None:
    """Windows replaces no open file: it is tried again until whoever looks has looked."""
    path = tmp_path / "file"
    write_private(path, b"old")
    reader = path.open("rb")
    done = threading.Timer(0.2, reader.close)
    done.start()
    write_private(path, b"new")
    done.join()
    assert path.read_bytes() == b"new"


def test_programs_of_this_computer_talk_through_a_socket_of_a_path(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pytest.raises(OSError):
        operating_system.connect_locally(path)
    with operating_system.listen_locally(path, 4) as listener:
        with pytest.raises(OSError):  # it is taken
            operating_system.listen_locally(path, 4)
        with operating_system.connect_locally(path) as one, listener.accept()[0] as other:
            one.setblocking(True)
            other.sendall(b"?")
            assert one.recv(9) == b"?"
    with pytest.raises(OSError):
        operating_system.connect_locally(path)


def test_a_stranger_on_the_same_computer_is_not_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Unix socket knows who connects. One of a path that is a port, as on Windows, has a secret in its file."""
    path = tmp_path / "s"
    with operating_system.listen_locally(path, 4) as listener:
        if listener.family != socket.AF_INET:
            assert stat.S_ISSOCK(path.stat().st_mode)
            with operating_system.connect_locally(path) as other:
                mine = os.geteuid()
                monkeypatch.setattr("os.geteuid", lambda: mine + 1)
                with pytest.raises(ConnectionAbortedError):
                    listener.accept()
                other.setblocking(True)
                assert other.recv(1) == b""
            return
        with socket.create_connection(listener.getsockname()) as stranger:
            stranger.sendall(b"0" * 32)
            with pytest.raises(ConnectionAbortedError):
                listener.accept()
            assert stranger.recv(1) == b""


def test_whoever_gets_no_lock_is_told_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "_WAIT_S", 0)
    refused = pytest.raises(ProblemError, match="locked for a minute")
    with (tmp_path / "file").open("wb") as first, file_lock.exclusive(first):
        with (tmp_path / "file").open("wb") as second, refused, file_lock.exclusive(second):
            second.write(b"x")
        assert (tmp_path / "file").read_bytes() == b""
