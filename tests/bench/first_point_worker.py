"""One contender of the benchmark of the first point: ``tests.bench.first_point_worker EXERCISE CONTENDER [play]``.

``warm``, ``no-fork`` and ``fresh`` keep a real window and a real agent, and press Run for each line on standard input;
``plain`` starts ``plain_first_step.py``. Each answer is a table of seconds by stage. ``play``: *Play* is on, and
another seed is chosen instead; the answer is the time until its first point is painted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from clew_gui.targets.local_agent import find_agent
from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import Places, find_places
from clew_shared.journal.events import Attempt, Log, Points
from clew_shared.journal.files import Record, journal_path, read_journal
from clew_shared.journal.lifecycle import TERMINAL
from tests.bench.agents import end_agent

_BOUND_S = 120.0
_IDLE_S = 1.0
AGENTS = {"warm": (), "no-fork": ("--no-fork",), "fresh": ("--fresh",)}
"""The options of the agents."""
CLICK, TAKEN, BEGUN, BLOCK, ARRIVED, PAINTED = (
    "click",
    "click → run taken by the agent",
    "→ first frame of the journal",
    "→ first block",
    "→ values in the window",
    "→ painted",
)
STAGES = {
    "data": "→ data read",
    "import": "→ TensorFlow and the exercise imported",
    "build": "→ model built",
    "compile": "→ compiled, warmed up",
}


def split(marks: dict[str, float]) -> dict[str, float]:
    """Seconds between marks that follow each other in time, by the later one's name; the first is where it begins."""
    ordered = sorted(marks.items(), key=lambda item: item[1])
    return {name: at - ordered[place][1] for place, (name, at) in enumerate(ordered[1:])}


def journal_marks(path: Path) -> dict[str, float]:
    """The wall-clock times at which a run's stages ended, as its journal tells them, up to the first block."""
    marks: dict[str, float] = {}
    for item in read_journal(path):
        event = item.event if isinstance(item, Record) else None
        if isinstance(event, Attempt):
            marks[BEGUN] = event.time
        elif isinstance(event, Log) and event.stage in STAGES:
            marks[STAGES[event.stage]] = event.time
        elif isinstance(event, Points):
            return marks | {BLOCK: event.time}
    return marks


class Clicker:
    """A window of a home of its own, in which Run is pressed again and again."""

    def __init__(self, exercise: str, options: Sequence[str]) -> None:
        from tests.bench.watched import Watched

        self._places = find_places()
        command = [sys.executable, "-P", "-m", "clew_agent", "serve", *options]
        self._window = Watched(self._places, exercise, LocalTarget(self._places, command))
        form = self._window.program.window.next_run
        self._window.until(form.run.isEnabled, _BOUND_S)
        self._window.until(lambda: find_agent(self._places) is not None, _BOUND_S)
        self._window.until(_quiet(self._places), _BOUND_S)

    def press(self) -> dict[str, float]:
        """Press Run; seconds by stage, once the run is over."""
        session, window = self._window.program.session, self._window
        assert session is not None
        known, arrived, marks = set(session.runs), list[float](), {CLICK: time.time()}
        window.program.window.next_run.run.click()
        window.until(lambda: set(session.runs) != known, _BOUND_S)
        (run,) = set(session.runs) - known
        model = session.runs[run]

        def painted() -> bool:
            if not arrived and len(model.history.column("loss").steps):
                arrived.append(time.time())
            return window.first_paint(run) is not None

        window.until(painted, _BOUND_S)
        window.until(lambda: model.state in TERMINAL, _BOUND_S)
        marks[TAKEN] = (self._places.runs / run / "spec.toml").stat().st_mtime
        marks |= journal_marks(journal_path(self._places.runs / run, 1))
        marks[ARRIVED], marks[PAINTED] = arrived[0], window.first_paint(run) or 0.0
        window.until(_quiet(self._places), _BOUND_S)  # what it prepares next must not disturb the others
        return split(marks)

    def play(self) -> dict[str, float]:
        """Change the seed while *Play* is on; seconds until the try that follows is painted."""
        window, form = self._window, self._window.program.window.next_run
        form.play.setChecked(True)
        session = self._window.program.session
        assert session is not None
        known, begin = set(session.runs), time.time()
        form.seed.set_values({"seed": int(begin) % 100_000})

        def painted() -> bool:
            return any(window.first_paint(run) is not None for run in set(session.runs) - known)

        window.until(painted, _BOUND_S)
        (run,) = set(session.runs) - known
        rest = time.monotonic() + _IDLE_S
        window.until(lambda: time.monotonic() > rest, _BOUND_S)
        return {PAINTED: (window.first_paint(run) or 0.0) - begin}

    def close(self) -> None:
        """Close the window; the agent goes on, and nothing trains."""
        self._window.program.window.next_run.play.setChecked(False)
        self._window.until(_quiet(self._places), _BOUND_S)
        self._window.close()


def _quiet(places: Places) -> Callable[[], bool]:
    """Says whether the agent and all it has started have stopped working for a second: what can be warm is warm."""
    seen: list[tuple[float, float]] = []

    def look() -> bool:
        now = time.monotonic()
        if seen and now - seen[-1][0] < 0.2:
            return False
        seen.append((now, _work_of(places)))
        return any(now - at >= _IDLE_S and seen[-1][1] - work < 0.1 for at, work in seen[:-1])

    return look


def _work_of(places: Places) -> float:
    """Processor seconds of the agent and all it started."""
    address = find_agent(places)
    try:
        agent = psutil.Process(address.pid) if address is not None else None
        family = [agent, *agent.children(recursive=True)] if agent is not None else []
        return sum(sum(process.cpu_times()[:2]) for process in family)
    except psutil.Error:
        return 0.0


def plain(exercise: str) -> dict[str, float]:
    """A plain TensorFlow script, from its start to its first loss."""
    script = Path(__file__).with_name("plain_first_step.py")
    begin = time.time()
    done = subprocess.run(
        [sys.executable, str(script), exercise],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return split({CLICK: begin, **json.loads(done.stdout.splitlines()[-1])})


def main() -> None:
    """Answer each line on standard input, until it ends."""
    exercise, who, *play = sys.argv[1:]
    home = Path(tempfile.mkdtemp(prefix="clew-bench-"))
    os.environ["CLEW_HOME"] = str(home)
    clicker: Clicker | None = None
    try:
        if who in AGENTS:
            clicker = Clicker(exercise, AGENTS[who])
        for _ in sys.stdin:
            act = plain(exercise) if clicker is None else clicker.play() if play else clicker.press()
            print(json.dumps(act), flush=True)
    finally:
        if clicker is not None:
            clicker.close()
        end_agent(find_places())  # also when the window did not get so far
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
