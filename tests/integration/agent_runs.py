"""Real agent programs for tests: write a spec, run it, wait for something in its journal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import zmq

from clew_agent.trainer.control_address import address_file
from clew_shared.base.places import find_places
from clew_shared.journal.events import Attempt, Checkpoint, Event, Points, State
from clew_shared.journal.files import Record, attempts, journal_path, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec, to_toml
from clew_shared.wire.channel import Channel, KeyPair, allow
from clew_shared.wire.messages import AgentAddress, Request
from tests.warm import WarmAgent, WarmProcess

LIMIT_S = 200.0
"""Bound on every wait: TensorFlow's import takes a quarter of a minute on a busy machine."""

LONG = {"steps": 5_000_000, "evaluate_every": 5_000_000}
"""Hyperparameters of a run that ends only when it is told to."""


def write_spec(folder: Path, exercise: str, **fields: Any) -> Path:
    """A run spec file in ``folder``."""
    path = folder / "spec-to-run.toml"
    path.write_text(to_toml(RunSpec(exercise=exercise, **fields)), encoding="utf-8")
    return path


Program = subprocess.Popen[str] | WarmProcess


class Warm:
    """The warm process of which runs begin as copies, in files of tests that ask for one (the fixture ``warm``)."""

    agent: WarmAgent | None = None


def begin(*words: object, fresh: bool = False) -> Program:
    """``clew-agent WORDS``, just begun. A run is a copy of the warm process if there is one, unless it is to be
    ``fresh``, or the environment has something for an interpreter that starts."""
    if Warm.agent is not None and words[0] == "run" and not fresh and "PYTHONPATH" not in os.environ:
        return Warm.agent.start(*words)
    return subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def agent(*words: object, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    """``clew-agent WORDS`` as a program, to its end."""
    with running(*words, fresh=fresh) as process:
        code, output, errors = end(process)
    return subprocess.CompletedProcess(command(*words), code, output, errors)


def command(*words: object) -> list[str]:
    """The command line of ``clew-agent WORDS``."""
    return [sys.executable, "-P", "-m", "clew_agent", *map(str, words)]


@contextmanager
def running(*words: object, fresh: bool = False) -> Iterator[Program]:
    """``clew-agent WORDS`` while it runs; it must have ended when the block is left, else it is killed."""
    with begin(*words, fresh=fresh) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
                process.kill()


def end(process: Program) -> tuple[int, str, str]:
    """Exit code, output and errors of a program that is about to end."""
    output, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode is not None
    return process.returncode, output, errors


def events(folder: Path, attempt: int = 1) -> list[Event]:
    """What stands in the journal so far."""
    path = journal_path(folder, attempt)
    found = read_journal(path) if path.exists() else ()
    return [item.event for item in found if isinstance(item, Record) and item.event is not None]


def wait_for(folder: Path, wanted: Callable[[list[Event]], bool], attempt: int = 1) -> list[Event]:
    """The journal's events as soon as ``wanted`` holds for them."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = events(folder, attempt)
        if wanted(found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"not seen within {LIMIT_S} s; the journal ends with {events(folder, attempt)[-3:]}")


def states(found: list[Event]) -> list[RunState]:
    """The states in their order."""
    return [event.state for event in found if isinstance(event, State)]


def steps_done(found: list[Event]) -> int:
    """The step behind the last recorded one."""
    return max((event.first + event.count for event in found if isinstance(event, Points)), default=0)


def trained(steps: int) -> Callable[[list[Event]], bool]:
    """For ``wait_for``: at least ``steps`` steps are recorded."""
    return lambda found: steps_done(found) >= steps


def trainer_of(found: list[Event]) -> psutil.Process:
    """The process that writes this journal."""
    first = found[0]
    assert isinstance(first, Attempt)
    return psutil.Process(first.pid)


def last_checkpoint(folder: Path) -> dict[str, bytes]:
    """Content of the files of the run's last checkpoint by name."""
    found = [e for attempt in attempts(folder) for e in events(folder, attempt) if isinstance(e, Checkpoint)]
    return {Path(record.path).name: (folder / record.path).read_bytes() for record in found[-1].files}


def listing(folder: Path) -> list[str]:
    """Everything below ``folder``."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def json_line(output: str) -> dict[str, Any]:
    """The last line of ``output`` as JSON."""
    found: dict[str, Any] = msgspec.json.decode(output.splitlines()[-1])
    return found


def isolated(home: Path) -> dict[str, str]:
    """The environment of a program that keeps everything below ``home``."""
    return os.environ | {"CLEW_HOME": str(home)}


class Remote:
    """A client, on the trainer's allow-list or a stranger to it."""

    def __init__(self, run: str, allowed: bool = True) -> None:
        deadline = time.monotonic() + LIMIT_S
        path = address_file(find_places(), run)
        while not path.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        address = msgspec.json.decode(path.read_bytes(), type=AgentAddress)
        keys = KeyPair.generate()
        if allowed:
            allow(Path(address.allow_list), "test", keys.public)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._channel = Channel(self._context, address.address, address.port, address.public_key, keys)

    def ask(self, request: Request, timeout: float = LIMIT_S) -> object:
        return self._channel.request(request, timeout)

    def close(self) -> None:
        self._channel.close()
        self._context.term()
