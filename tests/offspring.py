"""Programs that a test started and leaves behind on purpose, above all agents, which outlive their windows."""

from __future__ import annotations

from contextlib import suppress

import psutil

_BOUND_S = 30.0


class Offspring:
    """The children of this process from now on. Those that were there before, such as a shared server, stay."""

    def __init__(self) -> None:
        self._before = {child.pid for child in psutil.Process().children()}

    def end(self) -> None:
        """Kill and await the new ones, whether they have ended or not."""
        for child in psutil.Process().children():
            if child.pid not in self._before:
                with suppress(psutil.Error):
                    child.kill()
                    child.wait(_BOUND_S)
