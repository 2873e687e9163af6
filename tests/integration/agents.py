"""A supervisor as a process of its own, and a viewer's connection to it, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil
import zmq

from clew_shared.base.places import Places, find_places
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from clew_shared.wire.channel import Channel, KeyPair, allow
from clew_shared.wire.messages import (
    AgentAddress,
    AnyReply,
    Fetch,
    Fetched,
    GetStatus,
    Request,
    RunStatus,
    StartRun,
    Status,
)

BOUND_S = 60.0
"""How long a test waits for what must happen; two busy cores are slow, and a healthy test waits none of it."""
_NICE = 10
"""A trainer with this priority gets a tenth of what another process gets, and all that nobody else wants."""
STAND_IN = (sys.executable, "-m", "tests.integration.stand_in_agent")


T = TypeVar("T")


def wait_for(look: Callable[[], T | None], what: str = "it", bound: float = BOUND_S) -> T:
    """The first thing that ``look`` finds (anything true)."""
    deadline = time.monotonic() + bound
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} did not happen within {bound:g} s"
        time.sleep(0.01)
    return found


def stand_in_spec(**params: Value) -> RunSpec:
    """A run of the stand-in exercise with a new id."""
    return RunSpec(exercise="stand-in", run=str(uuid.uuid4()), params=params)


class Agent:
    """One supervisor process for the home of the test."""

    def __init__(self, command: Sequence[str] = STAND_IN) -> None:
        self.places: Places = find_places()
        self.log = self.places.home / "agent.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def address(self) -> AgentAddress:
        """Where this very process listens."""
        return wait_for(self._address, f"the rendezvous file of the agent ({self.log.read_text()[-2000:]})")

    def _address(self) -> AgentAddress | None:
        for path in self.places.agents.glob("*.json"):
            address = msgspec.json.decode(path.read_bytes(), type=AgentAddress)
            if address.pid == self.process.pid:
                return address
        return None

    def kill(self) -> None:
        """kill -9, as far as the agent is concerned out of the blue."""
        self.process.kill()
        self.process.wait(BOUND_S)

    def end(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.terminate()
        return self.process.wait(BOUND_S)


class Viewer:
    """A client with a key on the agent's allow-list."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: AgentAddress) -> None:
        self.keys = keys = KeyPair.generate()
        allow(Path(address.allow_list), f"test-{keys.public[:4].encode().hex()}", keys.public)
        self.channel = Channel(context, address.address, address.port, address.public_key, keys)

    def ask(self, request: Request) -> AnyReply:
        """The reply to one request."""
        return self.channel.request(request, BOUND_S)

    def statuses(self) -> dict[str, RunStatus]:
        """All runs by id."""
        reply = self.ask(GetStatus())
        assert isinstance(reply, Status)
        return {status.run: status for status in reply.runs}

    def start(self, spec: RunSpec) -> str:
        """Start a run that must be accepted."""
        reply = self.ask(StartRun(spec=spec))
        assert type(reply).__name__ == "Done", reply
        return spec.run

    def wait_state(self, run: str, *states: RunState) -> RunStatus:
        """The run's status as soon as it is in one of these states."""

        def look() -> RunStatus | None:
            status = self.statuses().get(run)
            return status if status is not None and status.state in states else None

        return wait_for(look, f"{run} in {states}")

    def journal(self, run: str, attempt: int = 1) -> bytes:
        """All bytes of a journal, fetched piece by piece until its end."""
        data = b""
        while True:
            reply = self.ask(Fetch(run=run, attempt=attempt, offset=len(data), wait=1.0))
            assert isinstance(reply, Fetched), reply
            data += reply.data
            if reply.sealed and len(data) == reply.size:
                return data

    def close(self) -> None:
        self.channel.close()


def command_of(process: psutil.Process) -> list[str]:
    """Its command line; nothing when it has ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def trainers(run: str) -> list[psutil.Process]:
    """The processes that work on a run."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(run in word for word in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def give_way(run: str) -> None:
    """From now on the run trains when nobody else needs the processor: an endless one would take all of it from the
    tests beside it for as long as a fault lasts. Its agent and its guard keep their priority."""
    for process in psutil.process_iter():
        title = " ".join(command_of(process))
        if run in title and " trainer " in title:
            with suppress(psutil.Error, ProcessLookupError):  # it, or one of its threads, has ended
                for thread in process.threads():
                    os.setpriority(os.PRIO_PROCESS, thread.id, _NICE)


def end_all(run: str) -> None:
    """Kill what still works on a run; for the end of a test."""
    for process in trainers(run):
        with suppress(psutil.Error):  # it may just have ended by itself
            process.kill()
