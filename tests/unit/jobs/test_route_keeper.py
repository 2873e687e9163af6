"""A way is kept while it holds, and one that breaks at once is looked for ever more seldom."""

from __future__ import annotations

import pytest

from clew_gui.jobs.route_keeper import KeptRoute
from clew_gui.nodes.routes import RouteFinder
from clew_shared.base.problem import ProblemError
from tests.unit.fake_site import AGENT, AWAY, FakeStream, Login, a_line
from tests.unit.nodes.test_routes import ADDRESS, AT, JOB, SPEAKS


class Scene:
    """A login node that leads to the agent, and a clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now, self.stirred = 100.0, 0
        self.login = Login()
        self.login.streams[AT] = lambda: FakeStream(SPEAKS)
        self.kept = KeptRoute(lambda: None, self._stir, lambda: self.now)
        self._finder = RouteFinder(a_line(self.login), lambda: AGENT)

    def _stir(self) -> None:
        self.stirred += 1

    def search(self) -> None:
        self.kept.search(self._finder, JOB, ADDRESS, lambda: False)

    def break_after(self, seconds: float) -> float:
        """A way is found and breaks; so long the next search waits."""
        self.search()
        stream = self.kept.open()
        self.now += seconds
        while stream.recv(64):
            pass
        self.kept.settle()
        assert self.kept.route is None
        return self.kept.wait_s()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_way_that_held_is_looked_for_again_at_once(scene: Scene) -> None:
    assert scene.break_after(60.0) == 0
    assert scene.stirred == 1


def test_ways_that_break_soon_are_looked_for_ever_more_seldom_until_one_holds(scene: Scene) -> None:
    assert [scene.break_after(5.0) for _ in range(6)] == [1.0, 2.0, 5.0, 15.0, 30.0, 30.0]
    assert scene.break_after(60.0) == 0
    assert scene.break_after(5.0) == 1.0
    scene.kept.hurry()
    assert scene.kept.wait_s() == 0


def test_news_of_a_node_that_is_gone_do_not_undo_the_pauses(scene: Scene) -> None:
    scene.login.streams = {}
    searches = 0
    for _ in range(135):
        scene.kept.hurry()
        if scene.kept.wait_s() == 0:
            scene.search()
            searches += 1
        scene.now += 1.0
    assert searches <= 12


def test_without_any_way_it_waits_as_well(scene: Scene) -> None:
    scene.login.streams = {}
    scene.search()
    assert scene.kept.problem is not None
    assert scene.kept.wait_s() == 1.0
    scene.kept.forget()
    assert scene.kept.wait_s() == 0


def test_a_stranger_on_whom_the_agent_hangs_up_costs_nobody_the_way(scene: Scene) -> None:
    scene.search()
    viewer, stranger = scene.kept.open(), scene.kept.open()
    while stranger.recv(64):
        pass
    scene.kept.settle()
    assert scene.kept.route is not None
    assert scene.stirred == 1  # whether it is still the same agent is worth a look
    while viewer.recv(64):
        pass
    scene.kept.settle()
    assert scene.kept.route is None


def test_what_this_end_wanted_is_no_break(scene: Scene) -> None:
    scene.search()
    scene.kept.open().close()
    scene.kept.settle()
    assert scene.kept.route is not None
    assert scene.stirred == 0


def test_the_end_of_a_stream_through_an_earlier_way_says_nothing_of_this_one(scene: Scene) -> None:
    scene.search()
    old = scene.kept.open()
    scene.kept.leave()
    scene.search()
    while old.recv(64):
        pass
    scene.kept.settle()
    assert scene.kept.route is not None


def test_a_way_through_which_nothing_can_be_opened_is_broken(scene: Scene) -> None:
    scene.search()
    viewer = scene.kept.open()
    scene.login.away = AWAY
    with pytest.raises(ProblemError, match="was lost"):
        scene.kept.open()
    scene.kept.settle()
    assert scene.kept.route is None
    viewer.close()
    with pytest.raises(ProblemError, match="Cannot reach the node now"):
        scene.kept.open()
