"""What lists, filters and the window take in a home of thousands of runs, and a run of ten million steps."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from clew_gui.commands.context import FAILED, OK
from clew_gui.session.session import Session
from clew_shared.base.places import Places
from clew_shared.catalogue import load_builtin
from tests.bench.bench_journal import RUN, make_folder
from tests.bench.measure import machine, table
from tests.bench.semester import EXERCISES, STEPS, fill

RUNS, LONG_STEPS = 10_000, 10_000_000
GOALS = {
    "clew runs": "0.5",
    "clew runs --filter": "1",
    "window: the exercise's runs": "2",
    "clew show": "1",
    "clew report": "1",
}
METHOD = f"""A home of {RUNS:,} runs of {STEPS} steps with ten evaluations in {EXERCISES} exercises, and one with one
run of {LONG_STEPS:,} steps and two metrics. Commands are processes of their own, with Python's start; *first time*:
nothing is summed up yet. The window's part is its session without a window: until all runs are known, until those of
the exercise that is shown are read ({RUNS // EXERCISES:,}), and until all are; a window reads for eight milliseconds in
each thirtieth of a second, which is not so here. Seconds of the processor, and the most memory that was in use (MB).
Medians of the rounds; files are in the page cache."""


class Took(NamedTuple):
    """Seconds of the processor, and megabytes."""

    seconds: float
    memory: float


_MEASURED = """
import sys, time
from clew_gui.commands.main import main
status = main(sys.argv[1:])
from tests.bench.bench_semester import most_memory
print(time.process_time(), most_memory(), file=sys.stderr)
sys.exit(status)
"""


def most_memory() -> float:
    """The most memory that this process has had, in megabytes. Not ``ru_maxrss``: that begins with the parent's."""
    text = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", text)[0]) / 1000


def command(home: Path, *words: str) -> Took:
    """One command in a process of its own."""
    line = [sys.executable, "-c", _MEASURED, *words]
    environment = {**os.environ, "CLEW_HOME": str(home)}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != OK and (words[0] != "class" or done.returncode != FAILED):  # it has something to say of one
        raise RuntimeError(f"clew {' '.join(words)}: {done.stderr[-2000:]}")
    seconds, memory = done.stderr.splitlines()[-1].split()
    return Took(float(seconds), float(memory))


def window(home: Path) -> dict[str, Took]:
    """The session's reading in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench_semester", str(home)], stdout=subprocess.PIPE, text=True, check=True
    )
    return {name: Took(*values) for name, values in json.loads(done.stdout).items()}


def _window(home: Path) -> None:
    from tests.bench.watched import NoAgent

    session = Session(Places(home, home / "private"), load_builtin(), NoAgent())
    shown = "softmax"
    session.prefer(shown)
    session.start()
    found: dict[str, Took] = {}
    complete: dict[str, str] = {}
    began = time.process_time()
    while "all runs" not in found:
        changes = session.tick(0.05)
        if not changes.points and not changes.new:
            time.sleep(0.01)  # as a window, which waits for news
        models = (session.runs[run] for run in changes.points | changes.states)
        complete |= {model.id: model.spec.exercise for model in models if model.complete}
        stages = {
            "known": len(session.runs) == RUNS,
            "the exercise's runs": sum(exercise == shown for exercise in complete.values()) == RUNS // EXERCISES,
            "all runs": len(complete) == RUNS,
        }
        for name in (name for name, reached in stages.items() if reached and name not in found):
            found[name] = Took(time.process_time() - began, most_memory())
    session.close()
    print(json.dumps({f"window: {name}": took for name, took in found.items()}))


def report(rounds: int, quick: bool) -> str:
    """Measure; the text for people, as Markdown."""
    rounds = 1 if quick else min(rounds, 3)
    found: dict[str, list[Took]] = {}
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        many, one = Path(folder, "many"), Path(folder, "one")
        fill(Places(many, many / "private"), RUNS)
        make_folder(one / "runs" / RUN, 2 * LONG_STEPS)
        command(many, "runs")  # gives them their numbers
        wanted = ("runs", "--filter", "learning_rate > 0.5")
        for _ in range(rounds):
            (many / "summaries.msgpack").unlink(missing_ok=True)
            found.setdefault("clew runs", []).append(command(many, "runs"))
            found.setdefault("clew runs --filter, first time", []).append(command(many, *wanted))
            found.setdefault("clew runs --filter", []).append(command(many, *wanted))
            found.setdefault("clew show", []).append(command(one, "show", "last"))
            page = ("report", "last", "--html", str(one / "page.html"))
            found.setdefault("clew report", []).append(command(one, *page))
        (many / "runs").rename(many / "mirrors.new")
        (many / "mirrors" / "runs.jsonl").rename(many / "mirrors.new" / "runs.jsonl")
        (many / "mirrors").rmdir()
        (many / "mirrors.new").rename(many / "mirrors")
        window(many)  # sums them up
        for _ in range(rounds):
            for name, took in window(many).items():
                found.setdefault(name, []).append(took)
    rows = [
        (
            name,
            f"{median(t.seconds for t in all_of):.2f}",
            f"{median(t.memory for t in all_of):.0f}",
            GOALS.get(name, ""),
        )
        for name, all_of in found.items()
    ]
    text = table(("what", "processor seconds", "MB", "goal"), rows)
    print(text, flush=True)
    return f"Machine: {machine('msgspec')}. {rounds} rounds.\n\n{text}\n\n{METHOD}"


if __name__ == "__main__":
    _window(Path(sys.argv[1]))
