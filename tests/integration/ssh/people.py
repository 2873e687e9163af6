"""Who is asked in these tests, an agent, and a network that can freeze."""

from __future__ import annotations

import base64
import hashlib
import selectors
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ed25519

from clew_gui.ssh.prompts import Prompt, Prompter, PromptKind
from tests.integration.ssh.servers import PASSPHRASE, PASSWORD, one_time_code

Answer = str | Callable[[], str | None] | None


def current_code() -> str:
    return one_time_code(time.time())


class Person(Prompter):
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


class SecurityKeyAgent:
    """An ssh-agent with one key on a security key (FIDO), as PROTOCOL.u2f of OpenSSH describes its signatures. Nobody
    has to touch it. ``public`` is its line in authorized_keys."""

    _KIND = b"sk-ssh-ed25519@openssh.com"
    _USED = b"\x01" + struct.pack(">I", 7)
    """Somebody touched it; how often it has signed."""

    def __init__(self, address: Path) -> None:
        self._key = ed25519.Ed25519PrivateKey.generate()
        raw = self._key.public_key().public_bytes_raw()
        self._blob = _strings(self._KIND, raw, b"ssh:")
        self.public = f"{self._KIND.decode()} {base64.b64encode(self._blob).decode()} yubi\n"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(address))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, client.makefile("rwb") as file:
                    while head := file.read(4):
                        file.write(_strings(self._answer(file.read(*struct.unpack(">I", head)))))
                        file.flush()

    def _answer(self, asked: bytes) -> bytes:
        if asked[:1] == b"\x0b":  # which keys there are
            return b"\x0c\0\0\0\x01" + _strings(self._blob, b"yubi")
        assert asked.startswith(b"\x0d" + _strings(self._blob))
        begin = 1 + len(_strings(self._blob))
        (length,) = struct.unpack_from(">I", asked, begin)
        data = asked[begin + 4 : begin + 4 + length]
        signed = hashlib.sha256(b"ssh:").digest() + self._USED + hashlib.sha256(data).digest()
        return b"\x0e" + _strings(_strings(self._KIND, self._key.sign(signed)) + self._USED)


def _strings(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


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
