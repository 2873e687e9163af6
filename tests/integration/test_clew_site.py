"""``clew run --site``, ``attach``, ``jobs`` and ``cancel`` against a site whose nodes are this computer."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from clew_gui.commands.at_site import Terminal, run_there
from clew_gui.commands.curtain import Curtain
from clew_gui.commands.jobs import attach_run, cancel_job, jobs
from clew_gui.commands.keep import verify
from clew_gui.commands.shell import Shell
from clew_gui.remote.job_book import JobBook, job_book
from clew_gui.remote.jobs import JobNews, Stage
from clew_gui.remote.prompts import Kind, NobodyToAsk, Prompt
from clew_gui.session import Place
from clew_gui.session.desks import Desks
from clew_gui.session.other_version import other_version
from clew_shared.journal import journal_path
from clew_shared.params import Value
from clew_shared.places import find_places
from clew_shared.problem import Problem, ProblemError
from clew_shared.spec import RunSpec
from tests.integration.agents import BOUND_S, stand_in_spec, wait_for
from tests.integration.fake_site import BusySite
from tests.integration.stand_in_agent import CATALOGUE

SITE = Place(site="test")
SLOW: dict[str, Value] = {"steps": 100_000, "pause": 0.02}


class Laptop:
    """Commands one after the other; ``site`` is the one that the latest of them talked to."""

    def __init__(self) -> None:
        self.places = find_places()
        self.out, self.err = io.StringIO(), io.StringIO()
        self.shell = Shell(self.places, self.out, self.err)
        self.book = job_book(self.places)
        self.sites: list[BusySite] = []
        self.prepare: Callable[[BusySite], None] = lambda site: site.nodes.set()
        self.runs = False

    def terminal(self) -> Terminal:
        return Terminal(self.shell, Desks(job_book(self.places), self._make, lambda _name: "Test site"), CURTAIN)

    def _make(self, name: str, book: JobBook, tell: Callable[[JobNews], None]) -> BusySite:
        self.sites.append(BusySite(self.places.home / name, book, tell))
        if len(self.sites) > 1:
            self.sites[-1]._agents = self.sites[-2]._agents
        self.prepare(self.sites[-1])
        return self.sites[-1]

    def run(self, spec: RunSpec, as_json: bool = False, detach: bool = False) -> int:
        card = CATALOGUE.exercises[0]
        self.runs = True
        try:
            return run_there(self.terminal(), SITE, spec, card, CATALOGUE, "Stand-in", as_json, detach)
        finally:
            self.runs = False

    def said(self) -> list[str]:
        return self.out.getvalue().splitlines()

    def when(self, *conditions: Callable[[], bool]) -> Future[None]:
        """Press Ctrl+C as soon as the first of ``conditions`` holds, then when the next does.

        Where one never holds, the command is ended all the same, and the result raises.
        """

        def press() -> None:
            try:
                for condition in conditions:
                    wait_for(lambda holds=condition: holds() or None, "the moment for Ctrl+C")  # type: ignore[misc]
                    os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                while self.runs:
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(1.0)
                raise

        hand = ThreadPoolExecutor(1)
        pressed = hand.submit(press)
        hand.shutdown(wait=False)
        return pressed

    def stage(self) -> Stage | None:
        self.book.refresh()
        jobs = self.book.jobs()
        return self.book.news(jobs[-1]).stage if jobs else None


CURTAIN = Curtain(NobodyToAsk())


@pytest.fixture
def laptop(home: object) -> Iterator[Laptop]:
    laptop = Laptop()
    yield laptop
    for site in laptop.sites:
        site.close()
        site.clear()


def test_a_run_is_sent_waited_for_followed_and_its_copy_is_whole(laptop: Laptop) -> None:
    spec = stand_in_spec(steps=200)
    assert laptop.run(spec, as_json=True) == 0
    found = json.loads(laptop.said()[-1])
    assert (found["state"], found["steps"], found["site"], found["job_id"]) == ("FINISHED", 200, "test", "7")
    told = laptop.err.getvalue()
    assert told.count("Other jobs come first.") == 1, "each sentence once"
    assert told.index("Other jobs come first.") < told.index("Stand-in") < told.index("Finished: 200 steps")
    copy = Path(found["journal"])
    assert copy.read_bytes() == journal_path(laptop.places.home / "test" / "runs" / spec.run, 1).read_bytes()
    assert verify(laptop.shell, ["last"]) == 0
    assert laptop.stage() is Stage.ENDED, "the node was let go of, nobody need log in again to learn that"


def test_a_run_is_left_to_itself_and_come_back_to(laptop: Laptop) -> None:
    laptop.prepare = lambda _site: None
    assert laptop.run(stand_in_spec(steps=100), detach=True) == 0
    assert laptop.said()[-1] == "It goes on by itself. Come back with: clew attach 1"
    jobs(laptop.shell, ["--json"])
    listed = json.loads(laptop.said()[-1])
    assert [(job["number"], job["stage"], job["site"]) for job in listed] == [(1, "QUEUED", "test")]
    laptop.prepare = lambda site: site.nodes.set()
    assert attach_run(laptop.terminal(), "1") == 0
    assert any(line.startswith("Finished: 100 steps") for line in laptop.said())
    count = len(laptop.sites)
    assert attach_run(laptop.terminal(), "j1", as_json=True) == 0
    assert json.loads(laptop.said()[-1])["state"] == "FINISHED"
    assert len(laptop.sites) == count, "everything is here: the site is not asked"


def test_that_the_agent_is_of_another_version_is_one_line_on_standard_error(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = partial(other_version, protocol=(1, 99), version="99.0")
    monkeypatch.setattr("clew_gui.session.conversation.other_version", later)
    assert laptop.run(stand_in_spec(steps=200)) == 0
    (said,) = [line for line in laptop.err.getvalue().splitlines() if "of this version" in line]
    assert "older than this one, Clew 99.0 (protocol 1.99). Runs are watched, steered and continued as ever" in said
    assert "of this version" not in laptop.out.getvalue()


def test_ctrl_c_in_the_queue_cancels_the_job_at_once(laptop: Laptop) -> None:
    laptop.prepare = lambda _site: None
    press = laptop.when(lambda: laptop.stage() is Stage.QUEUED)
    assert laptop.run(stand_in_spec(steps=100)) == 130
    press.result(BOUND_S)
    assert laptop.said()[-1] == "Stopped. You cancelled the job."


def test_ctrl_c_stops_the_run_and_a_second_one_cancels_the_job(laptop: Laptop) -> None:
    def training() -> bool:
        return any(path.stat().st_size > 3000 for path in laptop.places.mirrors.glob("*/journal.0001"))

    press = laptop.when(training)
    assert laptop.run(stand_in_spec(**SLOW)) == 130
    press.result(BOUND_S)
    assert any(line.startswith("Stopped: ") for line in laptop.said())
    laptop.places.mirrors.rename(laptop.places.home / "before")
    laptop.out.truncate(0)
    deaf = stand_in_spec(**SLOW, fault="deaf")
    press = laptop.when(training, lambda: "Ctrl+C again cancels the job" in laptop.out.getvalue())
    assert laptop.run(deaf) == 130
    assert "Stopped. You cancelled the job." in laptop.said()
    press.result(BOUND_S)
    assert laptop.stage() is Stage.ENDED


def test_what_the_site_refuses_is_said_and_nothing_is_left(laptop: Laptop) -> None:
    found = Problem("scheduler.partition", "There is no partition 'huge'.", "See: sinfo")

    def refuse(site: BusySite) -> None:
        site.refusal = found

    laptop.prepare = refuse
    with pytest.raises(ProblemError) as caught:
        laptop.run(stand_in_spec(steps=10))
    assert caught.value.problems == (found,)
    laptop.book.refresh()
    assert laptop.book.jobs() == ()
    wait_for(lambda: not list(laptop.places.mirrors.glob("*-*")) or None, "the copy to be gone")


def test_a_job_is_cancelled_by_its_number(laptop: Laptop) -> None:
    laptop.prepare = lambda _site: None
    laptop.run(stand_in_spec(steps=100), detach=True)
    assert cancel_job(laptop.terminal(), "j1") == 0
    assert laptop.said()[-1] == "Job j1 on Test site: cancelled. You cancelled the job."
    assert cancel_job(laptop.terminal(), "1") == 0, "it is over already"
    for word in ("j2", "999999999", "", "zzz"):
        with pytest.raises(ProblemError):
            cancel_job(laptop.terminal(), word)


def test_nobody_draws_while_a_question_stands_on_the_terminal() -> None:
    class Person:
        def ask(self, prompt: Prompt) -> str | None:
            with curtain.drawing() as free:
                seen.append(free)
            return "secret"

    seen: list[bool] = []
    curtain = Curtain(Person())
    assert curtain.ask(Prompt(kind=Kind.PASSWORD, title="login", text="Password:")) == "secret"
    with curtain.drawing() as free:
        seen.append(free)
    assert (seen, curtain.asked) == ([False, True], 1)
