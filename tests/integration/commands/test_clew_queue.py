"""``clew queue`` and ``clew run --queue`` against a real supervisor; a stand-in for its trainers."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import zmq
from msgspec.structs import replace

from clew_gui.commands.context import CommandContext
from clew_gui.commands.main import main
from clew_gui.commands.run.session_run import run_queued
from clew_gui.session.links.other_version import other_version
from clew_gui.targets.local_agent import find_agent
from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from clew_shared.wire.channel import KEY_SUFFIX
from clew_shared.wire.messages import Stop
from tests.integration.agents import BOUND_S, STAND_IN, Agent, Viewer, end_all, stand_in_spec, wait_for
from tests.integration.stand_in_agent import CATALOGUE

SLOW: dict[str, Value] = {"steps": 100_000, "pause": 0.02}
Clew = Callable[..., str]


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent(STAND_IN)
    agent.address()
    yield agent
    assert agent.end() == 0
    for folder in agent.places.runs.glob("*"):
        end_all(folder.name)


@pytest.fixture
def viewer(agent: Agent) -> Iterator[Viewer]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    viewer = Viewer(context, agent.address())
    yield viewer
    viewer.close()
    context.destroy(linger=0)


@pytest.fixture
def line(viewer: Viewer) -> list[str]:
    """Run 1 is at work, runs 2, 3 and 4 wait."""
    runs = [viewer.start(stand_in_spec(**SLOW)) for _ in range(4)]
    viewer.wait_state(runs[0], RunState.RUNNING)
    return runs


@pytest.fixture
def clew(capsys: pytest.CaptureFixture[str]) -> Clew:
    """Runs a command that must succeed, and returns what it said."""

    def run(*words: str) -> str:
        assert main(words) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


def queued(clew: Clew) -> list[tuple[int, int]]:
    """(number, place) of all that are at work or wait."""
    return [(run["number"], run["queue"]) for run in json.loads(clew("queue", "--json"))]


# --- clew queue -------------------------------------------------------------------------------------------------------


def test_what_is_at_work_and_what_waits_is_listed_in_order(line: list[str], clew: Clew) -> None:
    rows = clew("queue").splitlines()
    assert re.split(r" {2,}|(?<=#) ", rows[0].strip())[:3] == ["#", "Run", "Exercise"]
    assert [row.split()[1] for row in rows[1:]] == [run[:8] for run in line]
    assert "Running" in rows[1]
    assert rows[1].split()[-1] == "CPU"
    assert "Queued, next in the queue" in rows[2]
    assert "Queued, 3rd in the queue" in rows[4]
    found = json.loads(clew("queue", "--json"))
    assert [one["run"] for one in found] == line
    assert found[0]["devices"] == ["CPU"]
    assert queued(clew) == [(1, 0), (2, 1), (3, 2), (4, 3)]


def test_that_the_agent_is_of_another_version_is_said_beside_the_list(
    line: list[str], clew: Clew, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    later = partial(other_version, version="99.0")
    monkeypatch.setattr("clew_gui.commands.run.queue.other_version", later)
    assert main(["queue", "--json"]) == 0
    told = capsys.readouterr()
    assert [run["run"] for run in json.loads(told.out)] == line
    assert told.err.count("\n") == 1
    assert "This computer's agent is Clew" in told.err


def test_a_waiting_run_is_moved_by_its_number_or_the_beginning_of_its_id(line: list[str], clew: Clew) -> None:
    assert clew("queue", "move", "4", "1") == "Run 4 is queued, next in the queue.\n"
    assert queued(clew) == [(1, 0), (4, 1), (2, 2), (3, 3)]
    assert clew("queue", "move", line[3][:13], "last") == "Run 4 is queued, 3rd in the queue.\n"
    assert json.loads(clew("queue", "move", "3", "next", "--json"))["queue"] == 1
    assert queued(clew) == [(1, 0), (3, 1), (2, 2), (4, 3)]


def test_a_waiting_run_is_taken_out(line: list[str], clew: Clew) -> None:
    assert clew("queue", "cancel", "2") == "Run 2 is stopped. Taken out of the queue.\n"
    assert json.loads(clew("queue", "cancel", "3", "--json"))["state"] == "STOPPED"
    assert queued(clew) == [(1, 0), (4, 1)]
    assert clew("queue", "cancel", "last") == "Run 4 is stopped. Taken out of the queue.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("move", "nine", "1"), "No run 'nine' waits. `clew queue` lists those that wait."),
        (("cancel", ""), "No run '' waits. `clew queue` lists those that wait."),
        (("cancel", "1"), "Run 1 is no longer waiting: it is running. `clew queue` lists those that wait."),
        (("move", "2", "0"), "A place in the queue is a whole number from 1, got '0'. 1 or `next` is the next"),
        (("move", "2", "²"), "A place in the queue is a whole number from 1, got '²'."),
        (("move", "2"), "The following arguments are required: PLACE. See: clew queue move --help"),
        (("mvoe",), "does not know 'mvoe'. Did you mean move?"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    words: tuple[str, ...], message: str, line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["queue", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_a_command_leaves_no_key_behind(agent: Agent, clew: Clew) -> None:
    clew("queue")
    assert list(agent.places.agents.glob(f"*.allow/*{KEY_SUFFIX}")) == []


def test_without_an_agent_nothing_waits_and_none_is_started(
    home: object, clew: Clew, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clew("queue") == "No run waits, and this computer's agent is not training any.\n"
    assert clew("queue", "--json") == "[]\n"
    assert main(["queue", "cancel", "1"]) == 2
    assert "No agent serves here" in capsys.readouterr().err
    assert find_agent(find_places()) is None


# --- clew run --queue -------------------------------------------------------------------------------------------------


class Typed:
    """``clew run --queue`` of the stand-in exercise, as a person sees it."""

    def __init__(self) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.context = CommandContext(find_places(), self.out, self.err)
        self.spec = stand_in_spec(steps=40)
        self.agent = STAND_IN

    def run(self, as_json: bool = False) -> int:
        target = LocalTarget(self.context.places, self.agent)
        return run_queued(self.context, target, self.spec, CATALOGUE.exercises[0], CATALOGUE, as_json)


def later(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


def test_a_run_says_its_place_while_it_waits_and_is_followed_to_its_end(line: list[str], agent: Agent) -> None:
    typed = Typed()

    def make_room() -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        other = Viewer(context, agent.address())
        for number, run in enumerate(line):
            place = 5 - number - 1
            words = "next in the queue" if place == 1 else f"{place}"
            wait_for(lambda words=words: words in typed.out.getvalue(), f"place {place}")  # type: ignore[misc]
            other.ask(Stop(run=run, now=True))
        other.close()
        context.destroy(linger=0)

    thread = later(make_room)
    try:
        assert typed.run() == 0
    finally:
        thread.join(BOUND_S)
    said = typed.out.getvalue()
    assert said.startswith("Waiting: 4th in the queue. Ctrl+C takes the run out of it.\n")
    assert "Waiting: next in the queue.\n" in said
    assert "Finished: 40 steps" in said
    assert str(find_places().runs / typed.spec.run) in said


def test_json_is_the_last_line_and_words_go_elsewhere(agent: Agent) -> None:
    typed = Typed()
    assert typed.run(as_json=True) == 0
    assert json.loads(typed.out.getvalue())["run"] == typed.spec.run
    assert "Finished: 40 steps" in typed.err.getvalue()
    assert list(agent.places.agents.glob(f"*.allow/*{KEY_SUFFIX}")) == [], "its key is gone with it"


def interrupt_while_it_waits(typed: Typed) -> None:
    wait_for(lambda: "Waiting" in typed.out.getvalue())
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_takes_a_waiting_run_out(line: list[str], agent: Agent) -> None:
    typed = Typed()
    thread = later(lambda: interrupt_while_it_waits(typed))
    try:
        assert typed.run() == 130
    finally:
        thread.join(BOUND_S)
    assert typed.out.getvalue().endswith("Stopped. Taken out of the queue.\n")
    assert not (agent.places.runs / typed.spec.run).exists()


@pytest.mark.parametrize(
    ("spec", "why"),
    [(stand_in_spec(steps=-1), "[Ss]teps"), (replace(stand_in_spec(), strategy="spread", devices=3), "devices")],
    ids=["by-the-command", "by-the-agent"],
)
def test_a_refused_run_leaves_nothing_behind(agent: Agent, spec: RunSpec, why: str) -> None:
    typed = Typed()
    typed.spec = spec
    with pytest.raises(ProblemError, match=why):
        typed.run()
    assert not (agent.places.runs / spec.run).exists()
    assert not (agent.places.mirrors / spec.run).exists()


def test_an_agent_that_does_not_come_up_is_a_refusal(home: object) -> None:
    typed = Typed()
    typed.agent = (sys.executable, "-c", "raise SystemExit(3)")
    with pytest.raises(ProblemError, match="agent ended with exit code 3"):
        typed.run()
    assert list(find_places().mirrors.glob("*-*-*")) == []


def test_only_the_run_itself_is_followed(line: list[str], agent: Agent) -> None:
    """The others have their journals with the agent, and a command that is soon over makes no copies of them."""
    typed = Typed()
    thread = later(lambda: interrupt_while_it_waits(typed))
    assert typed.run() == 130
    thread.join(BOUND_S)
    assert [folder.name for folder in agent.places.mirrors.glob("*-*-*-*-*")] == [typed.spec.run]


def test_an_agent_is_started_when_none_serves(home: object) -> None:
    typed = Typed()
    try:
        assert typed.run() == 0
    finally:
        address = wait_for(lambda: find_agent(find_places()))
        os.kill(address.pid, signal.SIGTERM)
        wait_for(lambda: find_agent(find_places()) is None)
        with_bound_reap(address.pid)


def with_bound_reap(pid: int) -> None:
    """The agent that the command started is this process's child here; in life it outlives the command."""
    deadline = time.monotonic() + BOUND_S
    while sys.platform != "win32" and time.monotonic() < deadline:
        try:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                return
        except ChildProcessError:
            return
        time.sleep(0.01)


def test_what_the_agent_has_no_use_for_is_refused(home: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "linear-regression", "--queue", "--out", "elsewhere"]) == 2
    assert "does not take --out. Leave --queue or --out out." in capsys.readouterr().err
