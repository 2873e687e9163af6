"""A journal of ten million points: append, verify, read, fold into curves, replay, and its picture in the window.

10,000,000 points are two metrics in float32 over 5,000,000 steps, in blocks of 500 steps as
`softmax` records them. Each figure is the median of the rounds in one process; the file lies in the page cache,
nothing is synced before its seal. *Read* finds and checks every frame. *Fold* does that and makes the curves, as
every command that looks at a run does (`read_run`). *Verify* checks frames, digests, seal and recorded files.
*Replay* is what the window's threads do with their copy of a journal, without a window: mirror, run model, and the
pyramids that are drawn from. The pictures are those of the real window, offscreen, in a process of its own with
nothing but this run: from the moment at which the plots are there to the first painted values, and to the painted
picture of all of them. The window takes in no more than a few milliseconds' worth in each thirtieth of a second, so
that it stays usable meanwhile. Limits: one process on a quiet core and a warm file; a file that comes from a disk or a
network takes what these take.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from clew_gui.session.links.mirror import Mirror
from clew_shared.base.places import Places
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Points, Schema, State
from clew_shared.journal.files import JournalWriter, Record, journal_path, read_journal
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from tests.bench.measure import Measured, Table, machine, short
from tests.unit.runs import RUN, begin_run, describe, end_run

POINTS, BLOCK = 10_000_000, 500
GOAL_RATE, GOAL_PICTURE_S = 5e6, 1.0
_WINDOW_S = 120.0


def make_folder(folder: Path, points: int = POINTS) -> float:
    """A run folder with a sealed journal of ``points`` points; returns the seconds that appending the points took."""
    card = find_card(load_builtin().exercises, "softmax")
    metrics = tuple(metric for metric in card.metrics if metric.per_step)
    steps = points // len(metrics)
    begun = begin_run(folder, params={"steps": steps})
    blocks = _blocks(steps)
    with JournalWriter.create(journal_path(folder, 1)) as writer:
        writer.append(describe(begun, steps=steps, time=1e9))
        writer.append(Schema(id=1, metrics=metrics, batch_size=100, samples_per_epoch=50_000, steps=steps))
        writer.append(State(state=RunState.RUNNING, time=1e9))
        begin = time.perf_counter()
        for block in blocks:
            writer.append(block)
        seconds = time.perf_counter() - begin
        end_run(begun, writer, time=1e9 + 1000)
    return seconds


def _blocks(steps: int) -> list[Points]:
    """A noisy decaying loss and a rising accuracy, a tenth of a millisecond a step."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.2, steps).astype(np.float32)
    loss = ((2 * np.exp(-6 * np.arange(steps) / steps) + 0.3) * np.exp(noise)).astype("<f4")
    accuracy = np.clip(1 - loss / 3, 0, 1).astype("<f4")
    return [
        Points(
            schema=1,
            first=first,
            count=(count := min(BLOCK, steps - first)),
            seconds=1e-4 * count,
            clock=1e-4 * (first + count),
            values=tuple(column[first : first + count].tobytes() for column in (loss, accuracy)),
            time=1e9 + 1e-4 * (first + count),
        )
        for first in range(0, steps, BLOCK)
    ]


def read(folder: Path) -> None:
    """Every frame of the journal."""
    assert all(isinstance(item, Record) for item in read_journal(journal_path(folder, 1)))


def verify(folder: Path) -> None:
    """All that ``clew verify`` does."""
    report = verify_run(folder)
    assert report.ok, report.findings


def fold(folder: Path) -> None:
    """The whole history."""
    assert len(read_run(folder).column("loss").steps) == POINTS // 2


def replay(folder: Path) -> None:
    """Mirror, model and pyramids, in the window's pieces."""
    history, edges = History(), np.linspace(0, POINTS // 2, 900)
    for items in Mirror(folder).read(1):
        for item in items:
            assert isinstance(item, Record)
            history.feed(1, item.event)
        for metric in ("loss", "accuracy"):
            curve = history.pyramid(metric)
            if curve is not None:
                curve.view(edges)
    assert len(history.column("loss").steps) == POINTS // 2


def seconds_of(work: Callable[[Path], None], folder: Path) -> float:
    """What one call takes."""
    begin = time.perf_counter()
    work(folder)
    return time.perf_counter() - begin


def pictures(home: Path) -> tuple[float, float]:
    """Seconds from a window with its plots to the first painted values, and to the picture of all."""
    command = [sys.executable, "-m", "tests.bench.bench_journal", str(home)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=2 * _WINDOW_S, check=True)
    first, all_of_it = json.loads(done.stdout.splitlines()[-1])
    return float(first), float(all_of_it)


def _window(home: Path) -> None:
    """In a process of its own: print both times."""
    from tests.bench.watched import NoAgent, Watched

    window = Watched(Places(home, home / "private"), "softmax", NoAgent())
    steps = POINTS // 2
    window.until(lambda: bool(window.painted.get((RUN, "loss"), [(0, 0.0)])[-1][0] >= steps), _WINDOW_S)
    times = [at - window.began for _, at in window.painted[RUN, "loss"]]
    window.close()
    print(json.dumps([times[0], times[-1]]), flush=True)


def rows(found: dict[str, list[float]]) -> list[tuple[str, str, str, str]]:
    """The table's lines."""
    result = []
    for name, times in found.items():
        seconds = median(times)
        rate = "" if "picture" in name else f"{short(POINTS / seconds / 1e6)} million"
        goal = {"read": f"{GOAL_RATE / 1e6:g} million", "first picture": f"{GOAL_PICTURE_S:g} s"}.get(name, "")
        result.append((name, f"{seconds:.2f}", rate, goal))
    return result


def report(rounds: int, quick: bool) -> Measured:
    """Writes and reads a journal in each round."""
    rounds = 2 if quick else min(rounds, 5)
    found: dict[str, list[float]] = {}
    size = 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as home:
            folder = Path(home) / "mirrors" / RUN
            found.setdefault("append", []).append(make_folder(folder))
            size = journal_path(folder, 1).stat().st_size
            for work in (read, fold, verify, replay):
                found.setdefault(work.__name__, []).append(seconds_of(work, folder))
            first, everything = pictures(Path(home))
            found.setdefault("first picture", []).append(first)
            found.setdefault("picture of everything", []).append(everything)
    about = machine("pyside6", "pyqtgraph", "msgspec")
    conditions = f"{about}. {rounds} rounds. The journal is {size / 1e6:.0f} MB long."
    return Measured(conditions, (Table("", ("what", "seconds", "points/s", "goal"), rows(found)),))


if __name__ == "__main__":
    _window(Path(sys.argv[1]))
