"""The processes that answer what is tried with runs: one for each run, one question at a time, none left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from clew_agent.supervisor import probes as probes_module
from clew_agent.supervisor.probes import AWAY_S, MOST, Probes
from clew_agent.wire.long_polls import Caller
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.wire.messages import Done, Refused, Reply, Tried, TryRun
from tests.integration.agents import wait_for

HEAD = """
import json, sys
def say(**reply):
    print(json.dumps(reply), flush=True)
"""
ANSWERS = f"""{HEAD}
say(t="done", run=sys.argv[1])
for line in sys.stdin:
    say(t="tried", run=sys.argv[1], step=json.loads(line)["sample"], probabilities=[1.0])
"""
REFUSES = f"""{HEAD}
say(t="refused", problem=dict(code="try.checkpoint", text="No checkpoint yet."))
"""
DIES = "raise SystemExit('no room')"
Make = Callable[..., Probes]


class Router:
    """Nobody polls it."""

    def watch(self, _: object) -> None:
        """Nothing becomes ready."""

    unwatch = watch


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Probes] = []

    def one(program: str, unused_s: float = 1e6) -> Probes:
        places, router = Places(tmp_path / "home", tmp_path / "private"), Router()
        there: Any = router
        made.append(Probes(places, "a", None, there, (sys.executable, "-c", program), unused_s))
        return made[-1]

    yield one
    for probes in made:
        probes.close()


def caller(number: int, viewer: str = "viewer") -> Caller:
    return Caller(viewer.encode(), str(number).encode())


def ask(probes: Probes, run: str, number: int, close: bool = False, viewer: str = "viewer") -> None:
    assert probes.ask(Path(run), TryRun(run=run, sample=number, close=close), caller(number, viewer)) is None


def answers(probes: Probes, count: int) -> dict[int, Reply]:
    found: dict[int, Reply] = {}

    def look() -> bool:
        found.update({int(caller.request_id): reply for caller, reply in probes.turn()})
        return len(found) >= count

    wait_for(look, f"{count} answers")
    return found


@pytest.fixture
def children() -> Callable[[], int]:
    """How many processes this one has started since."""
    before = {one.pid for one in psutil.Process().children()}
    return lambda: len({one.pid for one in psutil.Process().children()} - before)


def test_each_question_gets_its_answer_from_one_process_for_its_run(make: Make, children: Callable[[], int]) -> None:
    probes = make(ANSWERS)
    for number in range(4):
        ask(probes, "one", number)
    ask(probes, "other", 4)
    assert len(probes) == children() == 2
    found = answers(probes, 5)
    assert {number: (reply.run, reply.step) for number, reply in found.items() if isinstance(reply, Tried)} == {
        **{number: ("one", number) for number in range(4)},
        4: ("other", 4),
    }


def test_nothing_is_left_when_it_is_closed_unused_or_the_agent_ends(make: Make, children: Callable[[], int]) -> None:
    probes = make(ANSWERS)
    ask(probes, "one", 1)
    answers(probes, 1)
    assert probes.ask(Path("one"), TryRun(run="one", close=True), caller(2)) == Done(run="one")
    assert (len(probes), children()) == (0, 0)
    ask(probes, "one", 3, close=True)
    answers(probes, 1)
    assert (len(probes), children()) == (0, 0), "a last question ends it after its answer"
    unused = make(ANSWERS, unused_s=-1.0)
    ask(unused, "one", 4)
    answers(unused, 1)
    assert (len(unused), children()) == (0, 0)
    ask(probes, "one", 5)
    assert children() == 1
    probes.close()
    assert children() == 0


def test_a_viewer_that_is_not_heard_of_for_a_minute_has_gone(
    make: Make, children: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(probes_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    probes = make(ANSWERS)
    ask(probes, "one", 1, viewer="window")
    answers(probes, 1)
    now[0] += AWAY_S
    probes.note_request(b"window")
    probes.note_request(b"another")
    now[0] += AWAY_S
    probes.turn()
    assert children() == 1, "it asked for something else meanwhile"
    now[0] += 1
    probes.turn()
    assert (len(probes), children()) == (0, 0)


def test_a_viewer_that_closes_ends_nothing_for_another(make: Make, children: Callable[[], int]) -> None:
    probes = make(ANSWERS)
    ask(probes, "one", 1, viewer="window")
    answers(probes, 1)
    ask(probes, "one", 2, close=True, viewer="command")
    answers(probes, 1)
    assert (len(probes), children()) == (1, 1), "the window is still open"
    close = TryRun(run="one", close=True)
    probes.ask(Path("one"), close, caller(3, "command"))
    assert len(probes) == 1
    probes.ask(Path("one"), close, caller(4, "window"))
    assert (len(probes), children()) == (0, 0)
    ask(probes, "one", 5, close=True, viewer="command")
    ask(probes, "one", 6, viewer="window")
    probes.ask(Path("one"), close, caller(7, "window"))
    answers(probes, 2)
    assert (len(probes), children()) == (0, 0), "closed while answers were awaited"


def test_each_process_that_dies_is_quoted_by_its_own_words(make: Make) -> None:
    probes = make("import sys; raise SystemExit(sys.argv[1])")
    for number, run in enumerate(("one", "other")):
        ask(probes, run, number)
    for (_, reply), run in zip(sorted(answers(probes, 2).items()), ("one", "other"), strict=True):
        assert isinstance(reply, Refused)
        assert reply.problem.text.endswith(f"It said:\n{run}")


def test_a_further_run_ends_the_process_that_was_idle_longest(make: Make, children: Callable[[], int]) -> None:
    probes = make(ANSWERS)
    for number in range(MOST + 1):
        ask(probes, f"run {number}", number)
        answers(probes, 1)
    assert len(probes) == children() == MOST
    for number in range(1, MOST + 1):
        ask(probes, f"run {number}", number)
    with pytest.raises(ProblemError, match=f"{MOST} other runs are being tried"):
        ask(probes, "run 0", 0)
    answers(probes, MOST)


def test_a_run_that_cannot_be_tried_is_refused_and_asked_afresh_the_next_time(make: Make) -> None:
    probes = make(REFUSES)
    for _ in range(2):
        ask(probes, "one", 1)
        ask(probes, "one", 2)
        replies = answers(probes, 2)
        assert {reply.problem.code for reply in replies.values() if isinstance(reply, Refused)} == {"try.checkpoint"}
        assert len(probes) == 0


def test_who_waits_for_a_process_that_dies_is_told_what_it_said(make: Make) -> None:
    probes = make(DIES)
    ask(probes, "one", 1)
    reply = answers(probes, 1)[1]
    assert isinstance(reply, Refused)
    assert reply.problem.code == "try.ended"
    assert "no room" in reply.problem.text
    assert len(probes) == 0
