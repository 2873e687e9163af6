"""Runs of several processes on this machine: they train as one does, obey together, and end together."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import pytest

from clew_shared.base import operating_system
from clew_shared.journal.events import Attempt, Checkpoint, Event, Live, Peer, State
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.wire.messages import Done, Pause, SetLive, Stop, Unpause
from tests.integration.agent_runs import (
    LONG,
    Remote,
    agent,
    end,
    events,
    running,
    states,
    steps_done,
    trained,
    trainer_of,
    wait_for,
    write_spec,
)
from tests.integration.faults.chance import Chance

pytestmark = pytest.mark.usefixtures("warm")

STEPS = 1600
CNN: dict[str, Any] = {
    "steps": 10,
    "batch_size": 21,
    "batch_norm": True,
    "augmentation": True,
    "order": "shuffle",
    "optimizer": "adamw",
    "schedule": "warmup",
    "learning_rate": 1e-3,
}


def peers(found: list[Event], status: str = "joined") -> list[Peer]:
    return [event for event in found if isinstance(event, Peer) and event.status == status]


def last(found: list[Event]) -> State:
    return [event for event in found if isinstance(event, State)][-1]


def left(folder: Path) -> list[int]:
    """Processes that still belong to the run in ``folder``."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def losses_of(folder: Path) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = read_run(folder).column("loss").values
    return found


def losses_alone(path: Path, exercise: str, params: dict[str, Any]) -> npt.NDArray[Any]:
    """The losses of a run on one device."""
    done = agent("run", write_spec(path, exercise, data="digits", params=params), "--out", path / "alone")
    assert done.returncode == 0, done.stderr
    return losses_of(path / "alone")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "home"))


def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    """The same samples, dropout masks and statistics; 21 rows on two replicas are filled up. They begin as fresh
    interpreters, those of other tests as copies of a warm process."""
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "cnn", data="digits", strategy="multi-worker", nodes=2, params=CNN)
    done = agent("run", spec, "--out", folder, fresh=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(losses_of(folder), losses_alone(tmp_path, "cnn", CNN), rtol=1e-5)
    assert [(peer.role, peer.index, peer.status) for peer in events(folder) if isinstance(peer, Peer)] == [
        ("worker", 1, "joined"),
        ("worker", 1, "ended"),
    ]
    assert verify_run(folder).findings == ()
    assert not left(folder)


def test_pause_a_changed_rate_and_a_stop_reach_all(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fields = {"data": "digits", "strategy": "multi-worker", "nodes": 2, "run": "led"}
    with running("run", write_spec(tmp_path, "softmax", **fields, params=LONG), "--out", folder) as process:
        client = Remote("led")
        try:
            wait_for(folder, trained(50))
            assert client.ask(Pause(run="led")) == Done(run="led")
            wait_for(folder, lambda found: states(found)[-1] is RunState.PAUSED)
            paused = steps_done(events(folder))
            client.ask(SetLive(run="led", name="learning_rate", value=0.01))
            client.ask(Unpause(run="led"))
            wait_for(folder, trained(paused + 50))
            client.ask(Stop(run="led"))
            assert end(process)[0] == 130
        finally:
            client.close()
    found = events(folder)
    assert next(event for event in found if isinstance(event, Live)).step == paused
    assert {peer.index for peer in peers(found, "ended")} == {1}
    assert last(found).state is RunState.STOPPED
    assert not left(folder)


@pytest.mark.parametrize(
    ("victim", "number", "words"),
    [
        ("peer", signal.SIGKILL, "was killed (SIGKILL)."),
        ("peer", signal.SIGSTOP, "s and was ended."),
        ("chief", signal.SIGKILL, "The trainer was killed (SIGKILL)."),
    ],
)
def test_what_dies_or_freezes_ends_the_run_which_goes_on_from_its_checkpoint(
    victim: str, number: signal.Signals, words: str, tmp_path: Path
) -> None:
    """At a random moment; `make soak` does it seven times for each victim."""
    chance = Chance(f"{victim} {number}")
    print(f"CLEW_SEED={chance.seed}")
    for turn in chance.rounds(1, 7):
        end_and_go_on(tmp_path / str(turn), victim, number, words, chance.dice.randrange(1, STEPS - 1000))


def end_and_go_on(path: Path, victim: str, number: signal.Signals, words: str, moment: int) -> None:
    """Train, send ``number`` to a process after ``moment`` steps, and continue."""
    path.mkdir()
    folder = path / "run"
    params = {"steps": STEPS, "evaluate_every": STEPS, "checkpoint_every": 250}
    spec = write_spec(path, "softmax", data="digits", strategy="multi-worker", nodes=2, params=params)
    with running("run", spec, "--out", folder) as process:
        found = wait_for(folder, trained(moment))
        peer = peers(found)[0]
        if victim == "chief":
            os.kill(peer.pid, signal.SIGSTOP)  # a frozen one does not see that its chief has gone
            time.sleep(0.2)
        os.kill(peer.pid if victim == "peer" else trainer_of(found).pid, number)
        assert end(process)[0] == 1
    found = events(folder)
    assert last(found).state is RunState.FAILED
    assert words in last(found).reason
    if victim == "peer":
        assert last(found).reason.startswith(f"Worker 1 on {peer.host} (process {peer.pid}) ")
        assert [lost.pid for lost in peers(found, "lost")] == [peer.pid]
    assert not left(folder)
    assert not operating_system.is_alive(peer.pid)
    assert sorted(path.name for path in (folder / "peers").iterdir()) == ["0001.log"]
    assert verify_run(folder).findings == ()

    with running("run", "--resume", folder) as process:
        wait_for(folder, trained(1), attempt=2)
        process.send_signal(signal.SIGTERM)
        end(process)
    first = events(folder, 2)[0]
    assert isinstance(first, Attempt)
    assert first.start_step == max((event.step for event in found if isinstance(event, Checkpoint)), default=0)
    assert first.start_step >= (moment // 250 - 1) * 250
    steps = read_run(folder).column("loss").steps
    np.testing.assert_array_equal(steps, np.arange(len(steps)))
    assert verify_run(folder).findings == ()
