"""The processes that answer what is tried with runs: one for each run, one question at a time, none left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from clew_agent.supervisor import tries as tries_module
from clew_agent.supervisor.tries import AWAY_S, MOST, Tries
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
Make = Callable[..., Tries]


class Router:
    """Nobody polls it."""

    def watch(self, _: object) -> None:
        """Nothing becomes ready."""

    unwatch = watch


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Tries] = []

    def one(program: str, unused_s: float = 1e6) -> Tries:
        places, router = Places(tmp_path / "home", tmp_path / "private"), Router()
        there: Any = router
        made.append(Tries(places, "a", None, there, (sys.executable, "-c", program), unused_s))
        return made[-1]

    yield one
    for tries in made:
        tries.close()


def caller(number: int, viewer: str = "viewer") -> Caller:
    return Caller(viewer.encode(), str(number).encode())


def ask(tries: Tries, run: str, number: int, close: bool = False, viewer: str = "viewer") -> None:
    assert tries.ask(Path(run), TryRun(run=run, sample=number, close=close), caller(number, viewer)) is None


def answers(tries: Tries, count: int) -> dict[int, Reply]:
    found: dict[int, Reply] = {}

    def look() -> bool:
        found.update({int(caller.request_id): reply for caller, reply in tries.turn()})
        return len(found) >= count

    wait_for(look, f"{count} answers")
    return found


@pytest.fixture
def children() -> Callable[[], int]:
    """How many processes this one has started since."""
    before = {one.pid for one in psutil.Process().children()}
    return lambda: len({one.pid for one in psutil.Process().children()} - before)


def test_each_question_gets_its_answer_from_one_process_for_its_run(make: Make, children: Callable[[], int]) -> None:
    tries = make(ANSWERS)
    for number in range(4):
        ask(tries, "one", number)
    ask(tries, "other", 4)
    assert len(tries) == children() == 2
    found = answers(tries, 5)
    assert {number: (reply.run, reply.step) for number, reply in found.items() if isinstance(reply, Tried)} == {
        **{number: ("one", number) for number in range(4)},
        4: ("other", 4),
    }


def test_nothing_is_left_when_it_is_closed_unused_or_the_agent_ends(make: Make, children: Callable[[], int]) -> None:
    tries = make(ANSWERS)
    ask(tries, "one", 1)
    answers(tries, 1)
    assert tries.ask(Path("one"), TryRun(run="one", close=True), caller(2)) == Done(run="one")
    assert (len(tries), children()) == (0, 0)
    ask(tries, "one", 3, close=True)
    answers(tries, 1)
    assert (len(tries), children()) == (0, 0), "a last question ends it after its answer"
    unused = make(ANSWERS, unused_s=-1.0)
    ask(unused, "one", 4)
    answers(unused, 1)
    assert (len(unused), children()) == (0, 0)
    ask(tries, "one", 5)
    assert children() == 1
    tries.close()
    assert children() == 0


def test_a_viewer_that_is_not_heard_of_for_a_minute_has_gone(
    make: Make, children: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(tries_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    tries = make(ANSWERS)
    ask(tries, "one", 1, viewer="window")
    answers(tries, 1)
    now[0] += AWAY_S
    tries.note_request(b"window")
    tries.note_request(b"another")
    now[0] += AWAY_S
    tries.turn()
    assert children() == 1, "it asked for something else meanwhile"
    now[0] += 1
    tries.turn()
    assert (len(tries), children()) == (0, 0)


def test_a_viewer_that_closes_ends_nothing_for_another(make: Make, children: Callable[[], int]) -> None:
    tries = make(ANSWERS)
    ask(tries, "one", 1, viewer="window")
    answers(tries, 1)
    ask(tries, "one", 2, close=True, viewer="command")
    answers(tries, 1)
    assert (len(tries), children()) == (1, 1), "the window is still open"
    close = TryRun(run="one", close=True)
    tries.ask(Path("one"), close, caller(3, "command"))
    assert len(tries) == 1
    tries.ask(Path("one"), close, caller(4, "window"))
    assert (len(tries), children()) == (0, 0)
    ask(tries, "one", 5, close=True, viewer="command")
    ask(tries, "one", 6, viewer="window")
    tries.ask(Path("one"), close, caller(7, "window"))
    answers(tries, 2)
    assert (len(tries), children()) == (0, 0), "closed while answers were awaited"


def test_each_process_that_dies_is_quoted_by_its_own_words(make: Make) -> None:
    tries = make("import sys; raise SystemExit(sys.argv[1])")
    for number, run in enumerate(("one", "other")):
        ask(tries, run, number)
    for (_, reply), run in zip(sorted(answers(tries, 2).items()), ("one", "other"), strict=True):
        assert isinstance(reply, Refused)
        assert reply.problem.text.endswith(f"It said:\n{run}")


def test_a_further_run_ends_the_process_that_was_idle_longest(make: Make, children: Callable[[], int]) -> None:
    tries = make(ANSWERS)
    for number in range(MOST + 1):
        ask(tries, f"run {number}", number)
        answers(tries, 1)
    assert len(tries) == children() == MOST
    for number in range(1, MOST + 1):
        ask(tries, f"run {number}", number)
    with pytest.raises(ProblemError, match=f"{MOST} other runs are being tried"):
        ask(tries, "run 0", 0)
    answers(tries, MOST)


def test_a_run_that_cannot_be_tried_is_refused_and_asked_afresh_the_next_time(make: Make) -> None:
    tries = make(REFUSES)
    for _ in range(2):
        ask(tries, "one", 1)
        ask(tries, "one", 2)
        replies = answers(tries, 2)
        assert {reply.problem.code for reply in replies.values() if isinstance(reply, Refused)} == {"try.checkpoint"}
        assert len(tries) == 0


def test_who_waits_for_a_process_that_dies_is_told_what_it_said(make: Make) -> None:
    tries = make(DIES)
    ask(tries, "one", 1)
    reply = answers(tries, 1)[1]
    assert isinstance(reply, Refused)
    assert reply.problem.code == "try.ended"
    assert "no room" in reply.problem.text
    assert len(tries) == 0
