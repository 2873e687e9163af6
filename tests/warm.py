"""``clew-agent run`` for tests that start it often: each begins as a copy of one process that has imported TensorFlow.

An import takes 2 to 3 seconds of the processor, and a hundred tests need a trainer. As the product's nursery does, and
with its code, ``python -m tests.warm FD`` imports TensorFlow once and computes nothing; what it is asked for runs in a
copy of it, and that copy's trainer is a copy as well. All else is the command's own: words, environment, files,
signals, exit code. Some tests start a fresh interpreter all the same.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew_agent.processes import guard
from clew_agent.processes.nursery_messages import OWN_ENVIRONMENT, ROOM_FOR_TITLES
from clew_shared.base import operating_system
from clew_shared.journal.run_folder import RunFolder

if TYPE_CHECKING:
    from clew_agent.processes.nursery import WarmImports

_REAP_MS = 20
_MAX_BYTES = 1 << 18
_START_S = 120.0
"""Bound on the import and on a copy: two busy cores are slow."""


class Asked(msgspec.Struct, frozen=True):
    """What a copy does: a command's words, where, and with which environment."""

    words: list[str]
    folder: str
    environment: dict[str, str]


# --- In the tests -----------------------------------------------------------------------------------------------------


class WarmProcess:
    """A command in a copy of the warm process, with the ways of ``subprocess.Popen`` that the tests use."""

    def __init__(self, pid: int, answer: socket.socket, files: Sequence[Path]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._answer, self._files = answer, files

    def poll(self) -> int | None:
        """Its exit code if it has ended; negative: the signal that ended it."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, as soon as it has ended."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("clew-agent", timeout or 0.0)
        return code

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            ready, _, _ = select.select([self._answer], [], [], timeout)
            if ready:
                self.returncode = msgspec.json.decode(self._answer.recv(_MAX_BYTES), type=int)
                self._answer.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Output and errors, once it has ended."""
        self.wait(timeout)
        output, errors = (path.read_text(encoding="utf-8") for path in self._files)
        return output, errors

    def send_signal(self, number: int) -> None:
        """Send it a signal; nothing happens when it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(_START_S)


class WarmAgent:
    """The warm process, until the ``with`` block ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._channel, theirs = operating_system.packet_pair()
        root = Path(__file__).parents[1]
        words = [sys.executable, "-P", "-m", "tests.warm", str(theirs.fileno()), ROOM_FOR_TITLES]
        environment = os.environ | OWN_ENVIRONMENT | {"PYTHONPATH": str(root)}
        with theirs:
            self._process = subprocess.Popen(words, env=environment, pass_fds=[theirs.fileno()])

    def start(self, *words: object) -> WarmProcess:
        """``clew-agent WORDS``, with this process's folder and environment of now."""
        files = [Path(tempfile.mkstemp(dir=self._folder)[1]) for _ in range(2)]
        asked = Asked([*map(str, words)], str(Path.cwd()), dict(os.environ))
        answer, theirs = operating_system.packet_pair()
        answer.settimeout(_START_S)
        with theirs, files[0].open("wb") as output, files[1].open("wb") as errors:
            descriptors = [theirs.fileno(), output.fileno(), errors.fileno()]
            socket.send_fds(self._channel, [msgspec.json.encode(asked)], descriptors)
        return WarmProcess(msgspec.json.decode(answer.recv(_MAX_BYTES), type=int), answer, files)

    def __enter__(self) -> WarmAgent:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._process.wait(_START_S)


# --- The warm process -------------------------------------------------------------------------------------------------


def main(channel: socket.socket) -> None:
    """Serve the tests at the other end until they go."""
    from clew_agent.processes.nursery import WarmImports

    operating_system.set_title("clew-agent nursery of tests")  # before the environment changes: it is how room is found
    os.environ.update(guard.TRAINER_DEFAULTS | os.environ)
    warm = WarmImports()
    begun: dict[int, tuple[operating_system.Forked, socket.socket]] = {}
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    while True:
        events = poll.poll(_REAP_MS if begun else None)
        if any(event & ~select.POLLIN for _, event in events):
            return
        if events:
            data, descriptors, _, _ = socket.recv_fds(channel, _MAX_BYTES, 3)
            if not data:
                return
            answer = socket.socket(fileno=descriptors[0])
            asked, files = msgspec.json.decode(data, type=Asked), descriptors[1:]
            copy = operating_system.fork(lambda asked=asked, files=files: _work(asked, files, warm))  # type: ignore[misc]
            for file in files:
                os.close(file)
            begun[copy.pid] = copy, answer
            answer.send(msgspec.json.encode(copy.pid))
        for pid, (copy, answer) in list(begun.items()):
            if (code := copy.poll()) is not None:
                del begun[pid]
                with suppress(OSError):  # nobody waits for it any more
                    answer.send(msgspec.json.encode(code))
                answer.close()


def _work(asked: Asked, files: Sequence[int], warm: WarmImports) -> int:
    """Be the command, in a copy of the warm process."""
    from clew_agent.cli.main import main as command

    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked.folder)
    os.environ.clear()
    os.environ.update(asked.environment)
    operating_system.set_title(f"clew-agent {' '.join(asked.words)}")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in every Python that has just been started

    def spawn(folder: RunFolder, attempt: int, exercises: Path | None) -> operating_system.Forked:
        def train() -> int:
            os.environ.update(guard.trainer_environment())
            operating_system.set_title(f"clew-agent trainer {folder.path} --attempt {attempt}")
            operating_system.print_to(folder.log)
            return warm.train(folder, attempt, exercises)

        return operating_system.fork(train)

    guard.spawn = spawn  # type: ignore[assignment]  # the one line that a fresh interpreter would do otherwise
    return command(asked.words)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
