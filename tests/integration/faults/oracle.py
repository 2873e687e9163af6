"""What must be true after every scenario, whatever happened: the oracle compares every byte.

The frames are read here once more from the description in PROTOCOL.md alone, so that a mistake of the product's reader
cannot hide one of its writer.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from clew_agent.processes.guard_mark import mark_path
from clew_agent.wire.rendezvous import agent_id, lock_path
from clew_shared.base.file_lock import LockFile
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from tests.integration.faults.lab import Lab, processes_of
from tests.stand_in.engine import true_losses

MAGIC = b"\xc1CLW"


def judge(lab: Lab, run: str, state: RunState, reason: str = "", damaged: str = "", truth: bool = True) -> History:
    """Everything about one run that has ended in ``state`` for a ``reason`` (words that must stand in it).

    ``damaged`` is what ``verify`` must say and all that it may say; ``truth``: the losses are the stand-in's own.
    """
    node = lab.folder(run)
    lab.wait(lambda: sealed(node.journal(node.attempts()[-1])), "the seal")
    for mirrors in lab.mirrors:
        _same_bytes(lab, node, mirrors / run)
    lab.wait(lambda: not processes_of(run), "the end of the run's processes")
    _sound(node, damaged)
    history = read_run(node.path)
    if not damaged:
        _every_step_once(history)
    _same_bits(history, truth)
    _nothing_left(lab, node)
    for viewer in lab.viewers:
        model = viewer.model(run)
        lab.wait(lambda model=model: model.state is state, f"{state} in the window")  # type: ignore[misc]
        assert reason in model.reason, model.reason
        assert viewer.problems == []
        lab.wait(lambda model=model: model.complete, "the last points in the window")  # type: ignore[misc]
        assert _curve(model.history) == _curve(history)
    assert (history.fold.state, reason in history.fold.reason) == (state, True), history.fold.reason
    lab.tally.add("scenarios")
    return history


def judge_end(lab: Lab) -> None:
    """After the last scenario: the agent ends when it is asked to, and takes with it all that is only there for it."""
    lab.wait(lambda: lab.agent() is not None and all(viewer.live for viewer in lab.viewers), "an agent that serves")
    lab.close_viewers()
    lab.end_agent()
    lab.wait(lambda: not lab.left(), "the end of all processes")
    assert [path.name for path in lab.places.agents.glob("*.json")] == []
    lock = LockFile(lock_path(lab.places, agent_id(lab.places)))
    assert lock.acquire(), "the lock is free"
    lock.release()
    partial = [path for path in lab.places.home.rglob("*") if path.name.endswith((".partial", ".tmp", ".reserve"))]
    assert partial == []


# --- Bytes ------------------------------------------------------------------------------------------------------------


def frames(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Place and event of every intact frame; damaged stretches are passed over."""
    place = data.find(MAGIC)
    while 0 <= place <= len(data) - 12:
        length, crc = struct.unpack_from("<II", data, place + 4)
        payload = data[place + 12 : place + 12 + length]
        intact = len(payload) == length and zlib.crc32(data[place + 4 : place + 8] + payload) == crc
        if intact:
            yield place, msgspec.msgpack.decode(payload)
        place = data.find(MAGIC, place + (12 + length if intact else 1))


def sealed(path: Path) -> bool:
    """Whether the journal ends with its seal."""
    events = [event["t"] for _, event in frames(path.read_bytes() if path.exists() else b"")]
    return events[-1:] == ["seal"]


def _same_bytes(lab: Lab, node: RunFolder, mirror: Path) -> None:
    for attempt in node.attempts():
        there, here = node.journal(attempt), RunFolder(mirror).journal(attempt)
        lab.wait(lambda h=here, t=there: h.exists() and h.stat().st_size >= t.stat().st_size, f"the whole of {here}")  # type: ignore[misc]
        data = there.read_bytes()
        assert here.read_bytes() == data
        assert hashlib.sha256(here.read_bytes()).hexdigest() == hashlib.sha256(data).hexdigest()
        lab.tally.add("bytes compared", len(data))
    assert RunFolder(mirror).attempts() == node.attempts()
    assert not list(mirror.glob("damaged.*")), "no mirror had to be set aside"


def _sound(node: RunFolder, damaged: str) -> None:
    findings = [str(finding) for finding in verify_run(node.path).findings]
    assert bool(findings) == bool(damaged), findings
    assert all(damaged in finding for finding in findings), findings
    for attempt in node.attempts():
        data = node.journal(attempt).read_bytes()
        digests = [(place, event) for place, event in frames(data) if event["t"] in ("digest", "seal")]
        assert digests[-1][1]["t"] == "seal"
        for place, event in digests:
            intact = hashlib.sha256(data[:place]).hexdigest() == event["sha256"] and event["size"] == place
            assert intact or damaged


# --- Curves -----------------------------------------------------------------------------------------------------------


def _curve(history: History) -> tuple[bytes, bytes]:
    column = history.column("loss")
    return column.steps.tobytes(), column.values.tobytes()


def _every_step_once(history: History) -> None:
    steps = history.column("loss").steps
    assert np.array_equal(steps, np.arange(history.fold.step)), f"{len(steps)} of {history.fold.step} steps"


def _same_bits(history: History, truth: bool) -> None:
    """Whatever attempt recorded a step, it has the same bits; those of the stand-in are known beforehand."""
    steps, values = np.empty(0, np.int64), np.empty(0, np.float32)
    for attempt in range(1, history.fold.attempt + 1):
        column = history.column("loss", attempt)
        _, here, there = np.intersect1d(column.steps, steps, return_indices=True)
        assert column.values[here].tobytes() == values[there].tobytes(), f"attempt {attempt} does its steps again"
        steps, values = np.append(steps, column.steps), np.append(values, column.values)
    column = history.column("loss")
    if truth and len(column.steps):
        expected = true_losses(int(column.steps[-1]) + 1)[column.steps]
        assert np.array_equal(column.values, expected)


# --- Nothing left -----------------------------------------------------------------------------------------------------


def _nothing_left(lab: Lab, node: RunFolder) -> None:
    known = {"spec.toml", "log.txt", "checkpoints", "artifacts", *(f"journal.{n:04d}" for n in node.attempts())}
    assert {path.name for path in node.path.iterdir()} <= known
    assert [path.name for path in node.checkpoints.glob(".*")] == []
    assert [path.name for path in (lab.places.private / "runs").glob(f"{node.path.name}*")] == []
    lab.wait(lambda: not mark_path(node.path).exists(), "the end of the guard's mark")
