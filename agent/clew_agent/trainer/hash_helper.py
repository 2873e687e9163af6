"""SHA-256 of a journal that grows fast, computed from the file by a process of its own.

Hashing is most of what it costs to record steps that take a tenth of a microsecond. A trainer whose journal grows so
fast starts this program, which reads at once what the trainer has written: the digests are in the journal at the usual
places. Where the program ends or is silent, the trainer hashes the file itself.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from clew_shared.journal.prefix_hash import PrefixHash

COMMAND = (sys.executable, "-P", "-m", "clew_agent.trainer.hash_helper")
_PATIENCE_MS = 10_000
"""What an answer may take: a MiB is read and hashed in milliseconds, and training waits once the queue is full."""
_ANNOUNCE_EVERY = 1 << 18
_ANSWER = 65
"""Bytes of an answer: 64 digits and the end of the line."""


class HashHelper:
    """Replaces a ``hashlib`` object whose bytes are the first ``size`` bytes of ``path``, and all that come.

    POSIX only. Raises ``OSError`` when the program cannot be started.
    """

    def __init__(self, path: Path, size: int, command: tuple[str, ...] = COMMAND) -> None:
        self._path = path
        self._size = self._announced = size
        self._own: PrefixHash | None = None
        self._process = subprocess.Popen(
            [*command, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self._requests = cast("BinaryIO", self._process.stdin)
        self._answers = cast("BinaryIO", self._process.stdout)
        self._say(f"{size}\n")

    @property
    def pid(self) -> int:
        """Of the program."""
        return self._process.pid

    def update(self, data: bytes, /) -> None:
        """``data`` has been written to the file. The program learns it now and then, so it need not hurry later."""
        self._size += len(data)
        if self._own is None and self._size - self._announced >= _ANNOUNCE_EVERY:
            self._announced = self._size
            self._say(f"{self._size}\n")

    def hexdigest(self) -> str:
        """SHA-256 of all that was written. Raises ``OSError`` when the file cannot be read back."""
        if self._own is None:
            self._say(f"{self._size}?\n")
            found = self._answer()
            if found:
                return found
            self._own = PrefixHash(self._path)
        found = self._own.sha256(self._size)
        if self._own.size < self._size:
            raise OSError(errno.EIO, f"{self._path.name} is shorter than what was written")
        return found

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()
        if self._own is not None:
            self._own.close()

    def _say(self, line: str) -> None:
        with suppress(OSError):  # that it has ended is seen when an answer is wanted
            self._requests.write(line.encode("ascii"))

    def _answer(self) -> str:
        """The digest; empty when the program has none, has ended, or does not answer."""
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        line = os.read(self._answers.fileno(), _ANSWER) if poll.poll(_PATIENCE_MS) else b""
        return line.decode("ascii").strip()


def serve(path: Path, lines: BinaryIO, answers: BinaryIO) -> None:
    """Hash ``path`` as far as each line says, and answer those that end with a question mark; until the lines end.

    The answer is empty when the file is shorter.
    """
    with PrefixHash(path) as prefix:
        for line in lines:
            size, asked, _ = line.decode("ascii").partition("?")
            found = prefix.sha256(int(size))
            if asked:
                answers.write(found.encode("ascii") + b"\n" if prefix.size == int(size) else b"\n")
                answers.flush()


def main() -> None:
    """``python -m clew_agent.trainer.hash_helper JOURNAL``: ends with its trainer, whatever signals come before."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
