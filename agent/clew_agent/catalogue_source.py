"""The cards that this agent offers: the built-in ones at once, a folder's own from a child that imports the files."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

import msgspec

from clew_agent import posix
from clew_shared.cards import Catalogue
from clew_shared.catalogue import decode, load_builtin
from clew_shared.problem import ProblemError, problem

_log = logging.getLogger(__name__)

_LIMIT_S = 300.0
"""For the whole catalogue. Each file has a shorter limit of its own inside."""


class CatalogueSource:
    """``ready`` never waits; ``get`` is for when it said yes. Without a folder the built-in catalogue is enough."""

    def __init__(self, exercises: Path | None = None, catalogue: Catalogue | None = None) -> None:
        self._catalogue = catalogue
        self._child: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._deadline = 0.0
        self._failure = ""
        try:
            if catalogue is None and exercises is None:
                self._catalogue = load_builtin()
        except ProblemError as error:
            _log.info("%s The exercise files are asked instead.", error)
        if self._catalogue is None:
            self._begin(exercises)

    def ready(self) -> bool:
        """Whether ``get`` has an answer."""
        if self._child is None:
            return True
        code = self._child.poll()
        if code is None and time.monotonic() < self._deadline:
            return False
        self._finish(code)
        return True

    def get(self) -> Catalogue:
        """The catalogue. Raises ``ProblemError`` when it could not be made."""
        if self._catalogue is None:
            raise problem("catalogue.failed", f"The catalogue could not be made: {self._failure}.", "See agent.log.")
        return self._catalogue

    def close(self) -> None:
        """End the child if it is still at work."""
        if self._child is not None:
            self._finish(None)

    def _begin(self, exercises: Path | None) -> None:
        command = [sys.executable, "-P", "-m", "clew_agent", "catalogue", "--json"]
        command += ["--exercises", str(exercises)] if exercises else []
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # closed in _finish
        self._deadline = time.monotonic() + _LIMIT_S
        self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._output, **posix.own_session())

    def _finish(self, code: int | None) -> None:
        child, output = self._child, self._output
        self._child = self._output = None
        if child is None or output is None:
            return
        if code is None:
            child.kill()
            child.wait(timeout=10)
        with output:
            output.seek(0)
            data = output.read()
        try:
            self._catalogue = decode(data)
        except msgspec.DecodeError as error:
            self._failure = f"exit code {code}, {error}" if code is not None else f"not done after {_LIMIT_S:.0f} s"
