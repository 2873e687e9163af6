"""Runs under parameter servers on this machine: no step is lost or done twice, whoever is slowed, ended or frozen."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import pytest

from clew_shared.journal.events import Checkpoint, Event, Log, Peer, Updates
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.wire.messages import DisturbCluster, Done, Refused, Stop
from tests.integration.agent_runs import (
    Remote,
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
from tests.integration.agents import command_of
from tests.integration.faults.chance import Chance
from tests.integration.peers.test_multi_worker import left, losses_alone, losses_of, peers

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("warm")]
LOSSES = [("worker", signal.SIGKILL), ("worker", signal.SIGSTOP), ("ps", signal.SIGKILL)]
Losses = npt.NDArray[Any]
SETTINGS: dict[str, Any] = {"evaluate_every": 1_000_000, "batch_size": 50, "learning_rate": 0.1}
STEPS = 60
MOVED = 2 * 4 * (784 * 10 + 10)
"""Bytes of the digits' softmax: its weights to the worker, and as much back."""


@pytest.fixture(scope="module")
def single(warm: None, tmp_path_factory: pytest.TempPathFactory) -> Losses:
    """The losses of softmax on one device."""
    path = tmp_path_factory.mktemp("single")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_HOME", str(path / "home"))
        return losses_alone(path, "softmax", SETTINGS | {"steps": STEPS})


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "home"))


def column(found: list[Event], name: str, dtype: str) -> npt.NDArray[Any]:
    return np.concatenate([np.frombuffer(getattr(one, name), dtype) for one in found if isinstance(one, Updates)])


def servers_spec(
    folder: Path, run: str, steps: int, exercise: str = "softmax", checkpoint_every: int = 0, **options: Any
) -> Path:
    folder.mkdir()
    params = SETTINGS | {"steps": steps} | ({"checkpoint_every": checkpoint_every} if checkpoint_every else {})
    fields = {"data": "digits", "strategy": "parameter-server", "options": options, "run": run}
    return write_spec(folder, exercise, **fields, params=params)


def assert_each_step_once(found: list[Event], steps: int) -> None:
    accepted = column(found, "accepted", "u1") == 1
    assert sorted(column(found, "steps", "<i8")[accepted]) == list(range(steps))


def kill_the_first_worker(folder: Path, after: int) -> None:
    """When so many steps are done."""
    workers = peers(wait_for(folder, trained(after)))
    os.kill(next(one.pid for one in workers if (one.role, one.index) == ("worker", 0)), signal.SIGKILL)


def test_in_step_they_train_as_one_does_also_when_a_worker_is_killed(single: Losses, tmp_path: Path) -> None:
    losses = []
    for name, killed in (("whole", False), ("hurt", True)):
        spec, folder = (
            servers_spec(tmp_path / name, name, STEPS, mode="sync", workers=2),
            tmp_path / name / "run",
        )
        with running("run", spec, "--out", folder) as process:
            if killed:
                kill_the_first_worker(folder, after=5)
            assert end(process)[0] == 0
        found = events(folder)
        assert column(found, "staleness", "<i4").max() == 0
        assert {(peer.role, peer.index) for peer in peers(found, "lost")} == ({("worker", 0)} if killed else set())
        losses.append(losses_of(folder))
        assert verify_run(folder).findings == ()
    np.testing.assert_array_equal(losses[0], losses[1])
    np.testing.assert_allclose(losses[0][:10], single[:10], rtol=1e-5)


def test_a_cluster_is_slowed_hurt_and_enlarged_and_no_step_is_lost_or_done_twice(tmp_path: Path) -> None:
    spec, folder = servers_spec(tmp_path / "spec", "hurt", 10**6, workers=2, updates_per_call=3), tmp_path / "run"
    with running("run", spec, "--out", folder) as process:
        client = Remote("hurt")
        try:
            even = wait_for(folder, trained(100))
            assert client.ask(DisturbCluster(run="hurt", action="slow", index=1, factor=10)) == Done(run="hurt")
            wait_for(folder, trained(steps_done(even) + 150))
            refused = client.ask(DisturbCluster(run="hurt", action="kill", role="ps", index=1))
            assert isinstance(refused, Refused)
            assert refused.problem.text == "There is no server 1: this run has 1, counted from 0."
            client.ask(DisturbCluster(run="hurt", action="slow", index=1, factor=1))
            spare_the_processor(client, "hurt")
            client.ask(DisturbCluster(run="hurt", action="add"))
            wait_for(folder, lambda found: len(peers(found)) == 4)
            found = wait_for(folder, lambda found: 2 in column(found, "workers", "<i4"))
            before = children_with("--index 3", trainer_of(found))
            client.ask(DisturbCluster(run="hurt", action="kill", role="ps"))
            freeze_the_next("--index 3", trainer_of(found), before)
            client.ask(Stop(run="hurt"))
        finally:
            client.close()
        assert end(process)[0] == 130
    found = events(folder)
    assert not [one.text for one in found if isinstance(one, Log) and "did not answer" in one.text], "it waited"
    saved = next(one for one in reversed(found) if isinstance(one, Checkpoint))
    assert saved.step == steps_done(found)
    assert_each_step_once(found, steps_done(found))
    assert column(found, "staleness", "<i4").max() >= 5
    assert np.quantile(column(even, "staleness", "<i4"), 0.9) <= 2, "the processor may take a worker off for a while"
    assert states(found)[-1] is RunState.STOPPED
    assert verify_run(folder).findings == ()
    assert not left(folder)


def test_what_dies_or_freezes_is_replaced_and_a_killed_coordinator_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """At random moments; `make soak` does it twenty times for each role."""
    chance = Chance("servers")
    print(f"CLEW_SEED={chance.seed}")
    for turn in chance.rounds(1, 20):
        lose_all_in_turn(tmp_path / str(turn), f"lost{turn}", chance.dice)


def lose_all_in_turn(path: Path, run: str, dice: random.Random) -> None:
    """Train; kill or freeze a process of each role at random moments; continue after the coordinator's end; stop."""
    path.mkdir()
    folder = path / "run"
    spec = servers_spec(path / "spec", run, 10**6, workers=2, servers=2, updates_per_call=3, checkpoint_every=250)
    with running("run", spec, "--out", folder) as process:
        found = wait_for(folder, trained(dice.randrange(20, 200)))
        client = Remote(run)
        spare_the_processor(client, run)
        client.close()
        for role, number in dice.sample(LOSSES, len(LOSSES)):
            lost = dice.choice([one for one in peers(found) if one.role == role])
            began = time.monotonic()
            os.kill(newest(found, lost).pid, number)
            found = wait_for(folder, has_more(role, len(replacements(found, role))))
            found = wait_for(folder, trained(steps_done(found) + dice.randrange(1, 100)))
            print(f"{role} {number.name}: trained on after {time.monotonic() - began:.1f} s")
        trainer_of(found).kill()
        assert end(process)[0] == 1
    found = events(folder)
    applied = int(column(found, "accepted", "u1").sum())
    assert_each_step_once(found, applied)
    assert 0 < applied <= steps_done(found)  # the coordinator may have ended between two records of its last block
    assert not left(folder)

    with running("run", "--resume", folder) as process:
        wait_for(folder, trained(50), attempt=2)
        client = Remote(run)
        client.ask(Stop(run=run))
        client.close()
        assert end(process)[0] == 130
    steps = read_run(folder).column("loss").steps
    np.testing.assert_array_equal(steps, np.arange(len(steps)))
    assert verify_run(folder).findings == ()
    assert not left(folder)


def spare_the_processor(client: Remote, run: str) -> None:
    """Both workers mostly wait from now on: while processes take each other's place, steps prove nothing."""
    for index in (0, 1):
        assert client.ask(DisturbCluster(run=run, action="slow", index=index, factor=20)) == Done(run=run)


def children_with(words: str, trainer: psutil.Process) -> set[int]:
    """The processes of ``trainer`` with these words in their command lines."""
    return {one.pid for one in trainer.children() if words in " ".join(command_of(one))}


def freeze_the_next(words: str, trainer: psutil.Process, before: set[int]) -> None:
    """Freeze the next process of ``trainer`` with these words in its command line: it never joins."""
    deadline = time.monotonic() + 60
    while not (new := children_with(words, trainer) - before):
        assert time.monotonic() < deadline, "no process took the place"
        time.sleep(0.005)
    os.kill(next(iter(new)), signal.SIGSTOP)


def replacements(found: list[Event], role: str) -> list[Peer]:
    return [one for one in peers(found, "replaced") if one.role == role]


def has_more(role: str, before: int) -> Callable[[list[Event]], bool]:
    return lambda found: len(replacements(found, role)) > before


def newest(found: list[Event], first: Peer) -> Peer:
    """The process that now has the place of ``first``."""
    there = [
        one for one in peers(found) + peers(found, "replaced") if (one.role, one.index) == (first.role, first.index)
    ]
    return there[-1]


@pytest.mark.parametrize("late", ["wait", "drop"])
def test_a_bound_holds_though_a_worker_is_slowed(late: str, tmp_path: Path) -> None:
    """One that waits hands out nothing that could become too old; one that drops has gradients to drop."""
    options: dict[str, Any] = {"mode": "bounded", "staleness": 1, "late": late, "workers": 2}
    spec, folder = servers_spec(tmp_path / "spec", "bound", 10**6, **options), tmp_path / "run"
    with running("run", spec, "--out", folder) as process:
        client = Remote("bound")
        try:
            wait_for(folder, trained(20))
            assert client.ask(DisturbCluster(run="bound", action="slow", index=1, factor=8)) == Done(run="bound")
            wait_for(folder, trained(steps_done(events(folder)) + 100))
            client.ask(Stop(run="bound"))
        finally:
            client.close()
        assert end(process)[0] == 130
    found = events(folder)
    accepted, staleness = column(found, "accepted", "u1") == 1, column(found, "staleness", "<i4")
    assert_each_step_once(found, steps_done(found))
    assert staleness[accepted].max() == 1
    assert (not accepted.all()) == (late == "drop")
    assert (staleness[~accepted] > 1).all()
    steps, workers = column(found, "steps", "<i8"), column(found, "workers", "<i4")
    for worker in np.unique(workers) if late == "wait" else ():
        own = workers == worker
        between = np.diff(steps[own], prepend=-1) - 1
        assert (staleness[own] <= between).all(), "it read the weights after its own last update"
