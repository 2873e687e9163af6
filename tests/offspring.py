"""Programs that a test started and leaves behind on purpose, above all agents, which outlive their windows."""

from __future__ import annotations

from contextlib import suppress

import psutil

_BOUND_S = 30.0


class Offspring:
    """The children that this process starts from now on. Earlier ones, such as a shared server, stay."""

    def __init__(self) -> None:
        self._before = {child.pid for child in psutil.Process().children()}

    def end(self) -> None:
        """Kill the new ones if they still run, and wait for them."""
        for child in psutil.Process().children():
            if child.pid not in self._before:
                with suppress(psutil.Error):
                    child.kill()
                    child.wait(_BOUND_S)
