"""A viewer in a process of its own, for the benchmark of observation: ``tests.bench.reader [--paint EXERCISE]``.

It follows all runs of the agent of ``CLEW_HOME``, which it starts when there is none, until its standard input ends.
Without ``--paint`` it is a session alone: it fetches, checks, mirrors and folds, and draws nothing.
"""

from __future__ import annotations

import select
import sys
import time
from contextlib import suppress

import psutil

from clew_gui.session.session import Session
from clew_shared.base.places import Places, find_places
from clew_shared.catalogue import load_builtin

_TICK_S = 0.033
_END_S = 10.0
_SERVES = {"clew_agent", "serve"}
"""Words of an agent's command."""


def told_to_end() -> bool:
    """Whether standard input has ended."""
    return bool(select.select([sys.stdin], [], [], 0)[0]) and not sys.stdin.readline()


def follow(places: Places) -> None:
    """Take in what comes, thirty times a second."""
    session = Session(places, load_builtin())
    session.start()
    while not told_to_end():
        session.tick()
        time.sleep(_TICK_S)
    session.close()


def paint(places: Places, exercise: str) -> None:
    """The same with the real window, offscreen, which draws the newest run."""
    from tests.bench.watched import Watched

    window = Watched(places, exercise)
    window.until(told_to_end, bound=3600)
    window.close()


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


def main() -> None:
    """Follow, then end the agent as well: its home is a folder of this benchmark."""
    places = find_places()
    try:
        if sys.argv[1:2] == ["--paint"]:
            paint(places, sys.argv[2])
        else:
            follow(places)
    finally:
        end_agent(places)


if __name__ == "__main__":
    main()
