"""A window's session against a real agent, without the window."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from clew_gui.session.intake import Changes
from clew_gui.session.links.inbox import LinkState
from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import Places, find_places
from clew_shared.base.problem import Problem
from clew_shared.cards import Catalogue
from clew_shared.journal.files import journal_path
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from tests.integration.agents import BOUND_S, STAND_IN, end_all
from tests.integration.stand_in_agent import CATALOGUE
from tests.offspring import Offspring


class Window:
    """What a window does: ticks, and remembers what it was told."""

    def __init__(self, command: tuple[str, ...] | None = STAND_IN, catalogue: Catalogue = CATALOGUE) -> None:
        self.places: Places = find_places()
        self.session = Session(self.places, catalogue, LocalTarget(self.places, command))
        self.problems: list[Problem] = []
        self.links: list[LinkState] = []
        self.new: set[str] = set()
        self.session.start()

    def tick(self) -> Changes:
        changes = self.session.tick()
        self.problems += changes.problems
        self.new |= changes.new
        if changes.link:
            self.links.append(self.session.link.state)
        return changes

    def until(self, condition: Callable[[], bool], what: str = "it", bound: float = BOUND_S) -> None:
        deadline = time.monotonic() + bound
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not happen; link {self.session.link}, {self.problems}"
            self.tick()
            time.sleep(0.005)

    def start(self, **params: Value) -> RunModel:
        return self.session.runs[self.session.start_run(RunSpec(exercise="stand-in", params=params))]

    def until_state(self, model: RunModel, *states: RunState) -> None:
        self.until(lambda: model.state in states, f"{model.state} -> {states}")

    def until_same(self, model: RunModel, attempt: int = 1) -> bytes:
        """Wait until the mirror is the node's journal, byte for byte, and return it."""
        node = journal_path(self.places.runs / model.id, attempt)
        mirror = journal_path(model.folder, attempt)

        def same() -> bool:
            return node.exists() and mirror.exists() and node.read_bytes() == mirror.read_bytes()

        self.until(same, "the mirror's last byte")
        return mirror.read_bytes()


@pytest.fixture
def new_window(home: object) -> Iterator[Callable[..., Window]]:
    """Opens windows; at the end all are closed, and the agent and its runs are ended."""
    windows: list[Window] = []
    agents = Offspring()

    def open_window(command: tuple[str, ...] | None = STAND_IN, catalogue: Catalogue = CATALOGUE) -> Window:
        windows.append(Window(command, catalogue))
        return windows[-1]

    yield open_window
    for window in windows:
        window.session.close()
    agents.end()  # also one that was started and is not to be found yet
    for folder in find_places().runs.glob("*"):
        end_all(folder.name)


@pytest.fixture
def window(new_window: Callable[..., Window]) -> Window:
    return new_window()
