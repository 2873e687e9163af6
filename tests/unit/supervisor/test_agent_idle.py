"""When an agent ends by itself, and whose programs keep it: a laptop that sleeps finds them again, for a while."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew_agent.catalogue.catalogue import CatalogueSource
from clew_agent.supervisor import services, supervisor
from clew_agent.supervisor.serve import JOB_IDLE_S, KEPT_S
from clew_agent.supervisor.services import Services
from clew_agent.supervisor.supervisor import Supervisor
from clew_agent.wire.long_polls import Caller
from clew_shared.base.places import Places
from clew_shared.cards import Catalogue
from clew_shared.wire.messages import GetStatus, OpenService, Shutdown, encode
from tests.integration.agents import wait_for

CALLER = Caller(b"viewer", b"12345678")
JUPYTER = {"t": "service", "kind": "jupyter", "port": 1, "public_key": "k", "token": "t", "name": "Jupyter"}
COMMAND = (sys.executable, "-c", f"import sys; print({json.dumps(JUPYTER)!r}, flush=True); sys.stdin.read()")


class Clock:
    """Goes on when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Router:
    """Nobody asks; ``at`` says who does after all, and when."""

    address, allow_list = "127.0.0.1", Path("/nowhere")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at: list[tuple[float, bytes]] = []
        self.replies: list[object] = []

    def watch(self, *_: object) -> None:
        """Nothing becomes ready."""

    unwatch = watch

    def poll(self, seconds: float) -> list[tuple[bytes, bytes, bytes]]:
        self._clock.now += max(seconds, 0.1)
        due = [payload for when, payload in self.at if when <= self._clock.now]
        self.at = [one for one in self.at if one[0] > self._clock.now]
        return [(CALLER.identity, CALLER.request_id, payload) for payload in due]

    def reply(self, _who: bytes, _number: bytes, reply: object) -> None:
        self.replies.append(reply)


class Quiet:
    """A manager without runs, trainers that say nothing, and nobody who tries anything."""

    version = 1

    def __len__(self) -> int:
        return 0

    def turn(self) -> list[object]:
        return []

    receive = turn

    def note_request(self, _viewer: bytes) -> None:
        """Nobody is waited for."""

    def statuses(self) -> tuple[object, ...]:
        return ()

    def busy(self) -> bool:
        return False

    hurried = busy


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (services, supervisor):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def router(clock: Clock) -> Router:
    return Router(clock)


def services_of(tmp_path: Path, router: Router) -> closing[Services]:
    """Services of which none is open yet."""
    there: Any = router
    return closing(Services(Places(tmp_path / "home", tmp_path / "private"), "a", there, command=COMMAND))


@pytest.fixture
def opened(tmp_path: Path, router: Router) -> Iterator[Services]:
    """Services of which Jupyter is open."""
    with services_of(tmp_path, router) as made:
        made.open("jupyter", CALLER)
        wait_for(made.turn, "Jupyter")
        yield made


def served(router: Router, clock: Clock, services: Services) -> float:
    """For how many seconds a job's agent serves."""
    quiet: Any = Quiet()
    duty: Any = SimpleNamespace(turn=lambda _catalogue: None, over=False, pending=False)
    there: Any = router
    made = Supervisor(there, quiet, quiet, CatalogueSource(catalogue=Catalogue()), services, quiet, None, duty)
    began = clock.now
    with closing(made):
        made.run(JOB_IDLE_S, KEPT_S)
    return clock.now - began


@pytest.mark.unix("services: they listen on Unix sockets")
def test_without_a_program_a_node_is_given_back_after_a_minute(tmp_path: Path, router: Router, clock: Clock) -> None:
    with services_of(tmp_path, router) as unopened:
        assert JOB_IDLE_S < served(router, clock, unopened) < KEPT_S


@pytest.mark.unix("services: they listen on Unix sockets")
def test_whoever_opened_one_may_be_away_for_longer_and_not_for_ever(
    router: Router, clock: Clock, opened: Services
) -> None:
    assert KEPT_S < served(router, clock, opened) < KEPT_S + JOB_IDLE_S


@pytest.mark.unix("services: they listen on Unix sockets")
def test_whoever_comes_back_and_asks_for_it_keeps_it(router: Router, clock: Clock, opened: Services) -> None:
    router.at = [(clock.now + KEPT_S - 5.0, encode(OpenService(kind="jupyter")))]
    assert served(router, clock, opened) > 1.9 * KEPT_S


@pytest.mark.unix("services: they listen on Unix sockets")
def test_one_who_only_looks_on_does_not(router: Router, clock: Clock, opened: Services) -> None:
    router.at = [(clock.now + KEPT_S - 5.0, encode(GetStatus()))]
    assert served(router, clock, opened) < KEPT_S + JOB_IDLE_S


# --- Who uses it ------------------------------------------------------------------------------------------------------


@pytest.mark.unix("services: they listen on Unix sockets")
def test_a_program_is_used_until_nobody_asked_for_it_while_somebody_was_there(clock: Clock, opened: Services) -> None:
    assert opened.in_use() == ("Jupyter",)
    for _ in range(11):
        clock.now += 5.0
        opened.note_request()
    assert opened.in_use() == ("Jupyter",)
    clock.now += 5.0
    opened.note_request()
    assert opened.in_use() == ()
    opened.open("jupyter", CALLER)
    assert opened.in_use() == ("Jupyter",)


@pytest.mark.unix("services: they listen on Unix sockets")
def test_a_laptop_that_wakes_up_does_not_end_its_own_program(router: Router, clock: Clock, opened: Services) -> None:
    """Its session asks for the node's end before Jupyter's tab asks for Jupyter."""
    router.at = [(clock.now + 600.0, encode(Shutdown(idle=True)))]
    assert served(router, clock, opened) > KEPT_S - JOB_IDLE_S
    (refused,) = router.replies
    assert "Jupyter is open on its node." in str(refused)
