"""A command of this computer as a stream, where tests have it for a site's login node."""

from __future__ import annotations

import io
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


class LocalStream:
    """Standard input and output of a program in a session of its own, as sshd starts one."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            words,
            env=environment,
            cwd=folder,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def recv(self, limit: int) -> bytes:
        out = self._process.stdout
        assert isinstance(out, io.BufferedReader)
        try:
            return out.read1(limit)
        except ValueError:  # it was closed meanwhile
            return b""

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # nobody reads it any more
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def end(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def last_words(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing of it is left."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
