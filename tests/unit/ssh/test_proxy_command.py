"""A ProxyCommand as a socket, with programs that any system has."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from clew_gui.ssh.connection import Hop
from clew_gui.ssh.proxy_command import ProxyCommand

ECHO = """
import sys
while data := sys.stdin.buffer.raw.read(65536):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
print("end of", *sys.argv[1:])
"""
"""Sends back what it gets, and when that has ended its arguments."""


def through(path: Path, text: str, *arguments: str) -> ProxyCommand:
    path.write_text(text)
    command = subprocess.list2cmdline([sys.executable, str(path), *arguments])
    return ProxyCommand(Hop(host="10.0.0.7", port=2222, user="anna", name="lab", proxy_command=command))


def test_bytes_go_both_ways_and_one_end_may_close_first(tmp_path: Path) -> None:
    with closing(through(tmp_path / "echo.py", ECHO, "%r@%h:%p", "%n", "100%%")) as sock:
        data = bytes(range(256)) * 20_000

        def send() -> None:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        got = b"".join(iter(lambda: sock.recv(65536), b""))
        sender.join()
    assert got[: len(data)] == data
    assert got[len(data) :].split() == b"end of anna@10.0.0.7:2222 lab 100%".split()


def test_closing_it_ends_the_command_and_what_that_has_started(tmp_path: Path) -> None:
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])"
    sock = through(tmp_path / "lingers.py", f"{child}; print('on', flush=True); time.sleep(1000)")
    assert sock.recv(2) == b"on"
    started = psutil.Process(sock._process.pid).children(recursive=True)
    assert started
    sock.close()
    assert not psutil.wait_procs(started, 20.0)[1]


@pytest.mark.parametrize("words", ["no route to lab", ""])
def test_one_that_ends_is_an_end_and_has_its_last_words(tmp_path: Path, words: str) -> None:
    sock = through(tmp_path / "fails.py", f"import sys; sys.exit('first\\n' + {words!r} if {words!r} else 1)")
    assert sock.recv(10) == b""
    sock.close()
    sock.close()
    assert sock.words == words
