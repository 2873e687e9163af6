"""What systems do differently is in one package, and both sides of it offer the same."""

from __future__ import annotations

import ast
import os
import signal
import socket
import stat
import subprocess
import symtable
import sys
import threading
import time
from pathlib import Path

import pytest

from clew_shared.base import file_lock, operating_system
from clew_shared.base.private_files import write_private
from clew_shared.base.problem import ProblemError

HOME = Path(operating_system.__file__).parent


def offered(module: str) -> set[str]:
    """The names without an underscore that a module defines, for one system or another."""
    text = (HOME / f"{module}.py").read_text(encoding="utf-8")
    defined = (one for one in symtable.symtable(text, module, "exec").get_symbols() if not one.is_imported())
    return {one.get_name() for one in defined if one.is_assigned() and not one.get_name().startswith("_")}


def test_each_system_offers_the_same() -> None:
    assert offered("posix") - {"wait_within"} == offered("windows"), "but for what terminals need"
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
