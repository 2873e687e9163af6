"""A real window with a session that answers at once, closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from clew_gui.app import Program, build_app
from clew_gui.session.session import Session
from clew_gui.views.window.window_state import NoMemory, WindowState
from clew_shared.base.places import Places
from clew_shared.cards import Catalogue
from tests.gui import fakes
from tests.gui.program_end import end_program

Opener = Callable[..., Program]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Folders of this test."""
    return Places(tmp_path / "home", tmp_path / "private")


@pytest.fixture
def open_window(qtbot: QtBot, places: Places) -> Iterator[Opener]:
    """Open windows: ``open_window(session, size=(1440, 900), exercise="softmax", memory=…)``."""
    programs: list[Program] = []

    def open_one(
        session: Session | None = None,
        size: tuple[int, int] = (1440, 900),
        exercise: str = "softmax",
        memory: NoMemory | None = None,
        catalogue: Catalogue | None = None,
    ) -> Program:
        program = build_app(
            places,
            catalogue=catalogue or fakes.catalogue(),
            session=session if session is not None else fakes.FakeSession(),
            memory=memory or NoMemory(WindowState(width=size[0], height=size[1], told_runs_go_on=True)),
            theme="light",
            exercise=exercise,
        )
        programs.append(program)
        with qtbot.waitExposed(program.window):
            program.window.show()
        return program

    yield open_one
    for program in programs:
        end_program(program)


@pytest.fixture
def softmax(open_window: Opener) -> Program:
    """The window on softmax with nothing run."""
    return open_window()
