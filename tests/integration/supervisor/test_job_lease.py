"""When a job's agent gives its node back: a window that only looks on costs nobody's hours."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
import zmq

from clew_shared.base.places import find_places
from clew_shared.wire.messages import GetStatus
from tests.integration.agents import BOUND_S, STAND_IN, Agent, Viewer


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.destroy(linger=0)


def test_a_window_that_only_looks_on_does_not_keep_the_node(
    home: object, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = str(uuid.uuid4())
    folder = find_places().home / "jobs" / job
    (folder / "runs").mkdir(parents=True)
    for name, value in {"JOB": job, "JOB_FOLDER": str(folder), "JOB_UNTIL": "0"}.items():
        monkeypatch.setenv(f"CLEW_{name}", value)
    agent = Agent((*STAND_IN, "2", "--job"))
    viewer = Viewer(context, agent.address())
    deadline = time.monotonic() + BOUND_S
    while agent.process.poll() is None:
        assert time.monotonic() < deadline, "it stays for the window's sake"
        viewer.channel.send(GetStatus())
        viewer.channel.socket.poll(100)
        viewer.channel.receive()
    viewer.close()
    assert agent.process.wait() == 0
