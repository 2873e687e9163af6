"""Runs under parameter servers on this machine: no step is lost or done twice, whoever is slowed, ended or frozen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clew_shared.journal.events import Event, Updates
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.wire.messages import DisturbCluster, Done, Refused, Stop
from tests.exercises.spread import Case, spread
from tests.integration.agent_runs import end, events, running, states, steps_done, trained, wait_for, write_spec
from tests.integration.peers.test_multi_worker import left, peers
from tests.integration.trainer.test_headless import Remote

pytestmark = pytest.mark.timeout(240)
SETTINGS: dict[str, Any] = {"evaluate_every": 1_000_000, "batch_size": 50}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "home"))


def column(found: list[Event], name: str, dtype: str) -> npt.NDArray[Any]:
    return np.concatenate([np.frombuffer(getattr(one, name), dtype) for one in found if isinstance(one, Updates)])


def servers_spec(folder: Path, run: str, steps: int, exercise: str = "softmax", **options: Any) -> Path:
    folder.mkdir()
    fields = {"data": "digits", "strategy": "parameter-server", "options": options, "run": run}
    return write_spec(folder, exercise, **fields, params=SETTINGS | {"steps": steps})


def assert_each_step_once(found: list[Event], steps: int) -> None:
    accepted = column(found, "accepted", "u1") == 1
    assert sorted(column(found, "steps", "<i8")[accepted]) == list(range(steps))


def has(status: str, role: str = "worker") -> Callable[[list[Event]], bool]:
    return lambda found: any(peer.role == role for peer in peers(found, status))


def test_in_step_they_train_as_one_does_also_when_a_worker_is_killed(tmp_path: Path) -> None:
    losses = []
    for name, killed in (("whole", False), ("hurt", True)):
        spec, folder = (
            servers_spec(tmp_path / name, name, 60, mode="sync", workers=2, servers=2),
            tmp_path / name / "run",
        )
        with running("run", spec, "--out", folder) as process:
            if killed:
                workers = peers(wait_for(folder, trained(5)))
                os.kill(next(one.pid for one in workers if (one.role, one.index) == ("worker", 0)), signal.SIGKILL)
            assert end(process)[0] == 0
        found = events(folder)
        assert column(found, "staleness", "<i4").max() == 0
        assert {(peer.role, peer.index) for peer in peers(found, "lost")} == ({("worker", 0)} if killed else set())
        losses.append(read_run(folder).column("loss").values)
        assert verify_run(folder).findings == ()
    np.testing.assert_array_equal(losses[0], losses[1])
    single = spread(1, [Case(exercise="softmax", values=SETTINGS | {"steps": 60}, strategy="single")])[0]
    np.testing.assert_allclose(losses[0][:10], single.losses[:10], rtol=1e-5)


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
            client.ask(DisturbCluster(run="hurt", action="kill", index=0))
            wait_for(folder, has("replaced"))
            client.ask(DisturbCluster(run="hurt", action="kill", role="ps"))
            wait_for(folder, has("replaced", "ps"))
            client.ask(DisturbCluster(run="hurt", action="add"))
            wait_for(folder, lambda found: len(peers(found)) == 4)
            wait_for(folder, lambda found: 2 in column(found, "workers", "<i4"))
            client.ask(Stop(run="hurt"))
        finally:
            client.close()
        assert end(process)[0] == 130
    found = events(folder)
    assert_each_step_once(found, steps_done(found))
    assert column(found, "staleness", "<i4").max() >= 5
    assert column(even, "staleness", "<i4").max() <= 2
    assert states(found)[-1] is RunState.STOPPED
    assert verify_run(folder).findings == ()
    assert not left(folder)


@pytest.mark.parametrize("late", ["wait", "drop"])
def test_a_bound_holds_though_a_worker_is_slowed(late: str, tmp_path: Path) -> None:
    """One that waits hands out nothing that could become too old; one that drops has gradients to drop."""
    options: dict[str, Any] = {"mode": "bounded", "staleness": 1, "late": late, "workers": 3}
    spec, folder = servers_spec(tmp_path / "spec", "bound", 400, **options), tmp_path / "run"
    with running("run", spec, "--out", folder) as process:
        client = Remote("bound")
        try:
            wait_for(folder, trained(20))
            client.ask(DisturbCluster(run="bound", action="slow", index=1, factor=8))
        finally:
            client.close()
        assert end(process)[0] == 0
    found = events(folder)
    accepted, staleness = column(found, "accepted", "u1") == 1, column(found, "staleness", "<i4")
    assert_each_step_once(found, 400)
    assert staleness[accepted].max() == 1
    assert (not accepted.all()) == (late == "drop")
    assert (staleness[~accepted] > 1).all()
