"""Who is asked in these tests, an agent, and a network that can freeze."""

from __future__ import annotations

import selectors
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from clew_gui.ssh.prompts import Prompt, PromptKind
from tests.integration.ssh.servers import PASSPHRASE, PASSWORD, one_time_code

Answer = str | Callable[[], str | None] | None


def current_code() -> str:
    return one_time_code(time.time())


class Person:
    """Answers as told, and keeps what was asked. Without an answer for a kind, being asked fails the test."""

    def __init__(self, answers: Mapping[PromptKind, Answer]) -> None:
        self.answers = dict(answers)
        self.asked: list[Prompt] = []

    def ask(self, prompt: Prompt) -> str | None:
        self.asked.append(prompt)
        answer = self.answers[prompt.kind]
        return answer() if callable(answer) else answer

    @property
    def kinds(self) -> list[PromptKind]:
        """The kinds of what was asked, in order."""
        return [prompt.kind for prompt in self.asked]


def well_informed() -> Person:
    """Knows everything, confirms nothing."""
    return Person({PromptKind.PASSWORD: PASSWORD, PromptKind.PASSPHRASE: PASSPHRASE, PromptKind.CODE: current_code})


class Agent:
    """A real ssh-agent with some keys."""

    def __init__(self, address: Path, *keys: str) -> None:
        self._process = subprocess.Popen(
            ["ssh-agent", "-D", "-a", str(address)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not _answers(address):
            time.sleep(0.01)
        for key in keys:
            environment = {"SSH_AUTH_SOCK": str(address), "PATH": "/usr/bin"}
            subprocess.run(["ssh-add", "-q", key], env=environment, check=True, stderr=subprocess.DEVNULL)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def _answers(address: Path) -> bool:
    """Whether someone listens there: the socket's file exists a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(address)) == 0


class Network:
    """A port that leads to another one, until it is frozen: then nothing passes and nobody is told.

    What was sent meanwhile arrives after ``thaw``.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._frozen = threading.Event()
        self._still = threading.Event()
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._others: dict[socket.socket, socket.socket] = {}
        self.accepted = 0
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)
        self._thread.start()

    def freeze(self) -> None:
        """Nothing passes after this."""
        self._still.clear()
        self._frozen.set()
        assert self._still.wait(30.0), "the network's thread hangs"

    def thaw(self) -> None:
        self._frozen.clear()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for sock in (self._listener, *self._others):
            sock.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._ended.is_set():
                if self._frozen.is_set():
                    self._still.set()
                    time.sleep(0.02)
                    continue
                for key, _ in selector.select(0.02):
                    if isinstance(key.fileobj, socket.socket):
                        self._serve(key.fileobj, selector)

    def _serve(self, sock: socket.socket, selector: selectors.BaseSelector) -> None:
        if sock is self._listener:
            near, _ = sock.accept()
            self.accepted += 1
            far = socket.create_connection(("127.0.0.1", self._target))
            self._others |= {near: far, far: near}
            selector.register(near, selectors.EVENT_READ)
            selector.register(far, selectors.EVENT_READ)
            return
        if sock not in self._others:  # its other end was found closed in the same turn
            return
        data = b""
        with suppress(OSError):
            data = sock.recv(65536)
            self._others[sock].sendall(data)
        if not data:
            other = self._others.pop(sock)
            self._others.pop(other, None)
            for end in (sock, other):
                with suppress(KeyError):
                    selector.unregister(end)
                end.close()
