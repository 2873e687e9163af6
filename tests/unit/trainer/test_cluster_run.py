"""When the cluster of a run on servers forms again after an error, and when the error ends the run."""

from __future__ import annotations

from typing import Any

import pytest

from clew_agent.strategies.cluster_settings import ParameterServerSettings
from clew_agent.trainer import cluster
from clew_agent.trainer.cluster import ClusterRun
from clew_shared.journal.events import Event, Log


class UnavailableError(Exception):
    """As TensorFlow's, whose name is what counts."""


class LostServers:
    """Peers of whom so many servers were lost until now, and what is known of them."""

    servers_lost = 0
    states = "Worker 0: at work."

    @property
    def members(self) -> LostServers:
        """All of them."""
        return self

    def check(self) -> None:
        """No peer is lost for good."""


class Forms(ClusterRun):
    """A run whose cluster forms, or raises what is ``in_the_way``."""

    def __init__(self, peers: Any, said: list[str]) -> None:
        def record(event: Event) -> None:
            assert isinstance(event, Log)
            said.append(event.text)

        super().__init__(ParameterServerSettings(), peers, record, lambda: None)
        self.in_the_way: list[Exception] = []
        self.formed = 0

    def form(self) -> Any:
        """Whatever stands for a cluster."""
        self._servers_lost = self._peers.members.servers_lost if self._peers is not None else 0
        if self.in_the_way:
            raise self.in_the_way.pop()
        self.formed += 1
        return self.formed


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_KNOWN_WITHIN_S", 0.1)


def test_it_forms_again_until_tensorflow_reaches_the_server_that_took_a_lost_ones_place() -> None:
    """A worker's channel there refuses calls for a while, though the new server listens and no other is lost."""
    peers, said = LostServers(), list[str]()
    run = Forms(peers, said)
    peers.servers_lost = 1
    run.in_the_way = [UnavailableError("connection refused")]
    run.renew(UnavailableError("recvmsg: connection reset"))
    assert run.formed == 1
    run.renew(UnavailableError("connection refused"))
    assert run.formed == 2
    assert [text.partition(".")[0][:24] for text in said] == [
        *("No further server is los", "The cluster formed again"),
        *("No further server is los", "The cluster formed again"),
    ]
    with pytest.raises(UnavailableError):
        run.renew(UnavailableError("not for ever"))


def test_an_error_of_the_exercise_is_no_reason_to_form_again() -> None:
    peers = LostServers()
    run = Forms(peers, [])
    peers.servers_lost = 1
    run.renew(UnavailableError())
    with pytest.raises(ValueError, match="the exercise's own"):
        run.renew(ValueError("the exercise's own"))


def test_where_no_server_is_lost_the_error_ends_the_run_and_says_how_all_are() -> None:
    said = list[str]()
    run = Forms(LostServers(), said)
    with pytest.raises(UnavailableError):
        run.renew(UnavailableError())
    assert said == ["No further server is lost. Worker 0: at work."]
