"""The link between a viewer and its agent: cut, frozen, slow; viewers that stop reading. Training notices nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import zmq

from clew_gui.session.links.inbox import LinkState
from clew_shared.journal.lifecycle import RunState
from clew_shared.wire.channel import Channel, KeyPair, allow
from clew_shared.wire.messages import Fetch
from tests.integration.faults.lab import Lab
from tests.integration.faults.oracle import judge

MEGABYTE = 1 << 20
ENDLESS = {"steps": 1_000_000, "block": 100, "pause": 0.01}
LONG = {"steps": 400_000, "block": 2000}
"""As fast as it can: a journal of about two megabytes."""
LARGE = {"steps": 100_000_000, "block": 20_000, "pause": 0.015}
"""Megabytes a second."""


def test_a_link_that_is_cut_twenty_times_loses_no_byte(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 5):
        run = viewer.start(**ENDLESS)
        lab.trained(run, 1)
        before = viewer.proxy.cuts
        for cut in range(1, 21):
            viewer.proxy.cut_after(lab.dice.randrange(1, 3000))
            lab.wait(lambda cut=cut: viewer.proxy.cuts == before + cut, f"cut {cut}")  # type: ignore[misc]  # noqa: B023
        viewer.session.stop(run)
        lab.ended(run)
        judge(lab, run, RunState.STOPPED, "on request")
        assert viewer.proxy.cuts == before + 20
        lab.tally.add("cuts", 20)


def test_what_was_asked_just_before_a_cut_is_done(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    for _ in lab.chance.rounds(2, 20):
        run = viewer.start(**ENDLESS)
        lab.trained(run, 100)
        viewer.session.stop(run)
        lab.rest(lab.dice.random() * 0.02)
        viewer.proxy.cut()
        lab.tally.add("cuts")
        lab.ended(run)
        judge(lab, run, RunState.STOPPED, "on request")


def test_a_slow_link_brings_everything_late(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    viewer.proxy.delay = 0.02
    run = viewer.start(**LONG)
    lab.ended(run)
    judge(lab, run, RunState.FINISHED)


def test_a_frozen_link_is_stale_and_catches_up(judged_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    run = viewer.start(**ENDLESS)
    lab.trained(run, 100)
    lab.shown(run, RunState.RUNNING)
    monkeypatch.setattr("clew_gui.session.links.link.STALE_AFTER_S", 0.5)
    viewer.proxy.freeze()
    lab.wait(lambda: viewer.session.link.state is LinkState.STALE, "stale")
    assert viewer.model(run).state is RunState.RUNNING, "a lost link is no failed run"
    lab.trained(run, lab.steps(run) + 1000)
    monkeypatch.setattr("clew_gui.session.links.link.STALE_AFTER_S", 15.0)
    viewer.proxy.thaw()
    lab.wait(lambda: viewer.live, "live again")
    viewer.session.stop(run)
    lab.ended(run)
    judge(lab, run, RunState.STOPPED, "on request")


def memory(*processes: psutil.Process | None) -> list[int]:
    """Resident bytes of each."""
    return [process.memory_info().rss for process in processes if process is not None]


@pytest.mark.parametrize("receiving", [False, True], ids=["between runs", "while it receives one"])
def test_a_frozen_viewer_is_not_waited_for_and_gets_everything_later(judged_lab: Lab, receiving: bool) -> None:
    lab = judged_lab
    viewer, frozen = lab.viewer(), lab.distant_viewer()
    first = viewer.start(steps=100)
    lab.ended(first)
    judge(lab, first, RunState.FINISHED)
    runs = []
    for _ in lab.chance.rounds(1, 5):
        if not receiving:
            frozen.freeze()
        run = viewer.start(**LARGE)
        lab.trained(run, 100_000)
        if receiving:
            lab.wait(lambda run=run: frozen.taken(run), "the first bytes")  # type: ignore[misc]
            frozen.freeze()
        held = frozen.taken(run)
        before = memory(lab.process("supervisor", run), lab.process("trainer", run))
        lab.trained(run, 1_500_000)
        after = memory(lab.process("supervisor", run), lab.process("trainer", run))
        assert len(before) == len(after) == 2, "both live"
        assert [late - early < 3 * MEGABYTE for early, late in zip(before, after, strict=True)] == [True, True], (
            f"{before}, then {after}: what the viewer has not taken is kept by nobody, 6 MB by now"
        )
        viewer.session.stop(run)
        lab.ended(run)
        assert frozen.taken(run) == held
        runs.append(run)
        frozen.thaw()
    for run in runs:
        judge(lab, run, RunState.STOPPED, "on request")


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.destroy(linger=0)


def test_a_viewer_that_asks_and_never_reads_fills_no_memory(
    judged_lab: Lab, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    done = viewer.start(**LONG)
    lab.ended(done)
    address = lab.wait(lab.agent)
    keys = KeyPair.generate()
    allow(Path(address.allow_list), "never-reads", keys.public)
    run = viewer.start(**ENDLESS)
    lab.trained(run, 10)
    supervisor, trainer = lab.process("supervisor", run), lab.process("trainer", run)
    before = memory(supervisor, trainer)
    deaf = Channel(context, address.address, address.port, address.public_key, keys)
    deaf.socket.rcvhwm = 1
    for _ in range(90):
        for _ in range(10):
            deaf.send(Fetch(run=done, attempt=1, offset=0))  # a quarter of a megabyte for each
        lab.rest(0.005)
    lab.trained(run, lab.steps(run) + 1000)
    after = memory(supervisor, trainer)
    assert len(before) == len(after) == 2, "both live"
    assert after[0] - before[0] < 96 * MEGABYTE, "the supervisor keeps 128 answers at most, 32 MiB"
    assert after[1] - before[1] < 32 * MEGABYTE
    viewer.session.stop(run)
    lab.ended(run)
    deaf.close()
    judge(lab, run, RunState.STOPPED, "on request")
