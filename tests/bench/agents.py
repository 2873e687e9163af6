"""Ends the agent of a benchmark's home."""

from __future__ import annotations

from contextlib import suppress

import psutil

from clew_shared.base.places import Places

_END_S = 10.0
_SERVES = {"clew_agent", "serve"}
"""Words of an agent's command."""


def end_agent(places: Places) -> None:
    """End the agent of a benchmark's home, also one that has just been started and cannot be found by its file yet."""
    agents = [process for process in psutil.process_iter() if _serves(process, places)]
    for process in agents:
        with suppress(psutil.Error):
            process.terminate()
    psutil.wait_procs(agents, _END_S)


def _serves(process: psutil.Process, places: Places) -> bool:
    try:
        home = process.environ().get("CLEW_HOME", "")
        return home == str(places.home) and set(process.cmdline()) >= _SERVES
    except psutil.Error:
        return False
