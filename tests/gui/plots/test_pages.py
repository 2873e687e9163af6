"""Which kinds of plots are shown: always those of the marked button, whatever exercise is open."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QCoreApplication
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.base.tokens import LIGHT
from clew_gui.charts.curves.layout import empty_sentence
from clew_gui.charts.measured import EMPTY, MeasuredChart
from clew_gui.views.plots.pages import PAGES, Page, kinds_of, offered
from clew_gui.views.plots.panel import ConvergencePlots
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import Catalogue, ExerciseCard, SurfaceSpec
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import State
from clew_shared.journal.lifecycle import RunState
from tests.gui import fakes
from tests.gui.conftest import Opener

_BUILT_IN = load_builtin().exercises
_PICTURES = find_card(_BUILT_IN, "autoencoder").pictures
_SURFACES: tuple[SurfaceSpec, ...] = find_card(_BUILT_IN, "linear-regression").surfaces
CATALOGUE = Catalogue(
    exercises=(
        fakes.card(id="first", pictures=_PICTURES),
        fakes.card(id="second", pictures=_PICTURES[:1]),
        fakes.card(id="mapped", surfaces=_SURFACES),
        fakes.card(id="plain"),
        msgspec.structs.replace(find_card(_BUILT_IN, "vectorize"), id="timed"),
    )
)


def shown(program: Program) -> set[str]:
    plots = program.window.run_view.plots
    return {name for name, kind in plots.kinds.items() if not kind.isHidden()}


@pytest.mark.parametrize("button", ["pictures", "both", "curves"])
def test_the_marked_button_is_what_is_shown_in_every_exercise(open_window: Opener, button: str) -> None:
    program = open_window(exercise="first", catalogue=CATALOGUE, size=(1700, 900))
    controls = program.window.run_view.controls
    program.window.show_tab(1)
    controls.pages.button(button).click()
    every = {
        "pictures": {"first": "pictures", "second": "pictures", "mapped": "both"},
        "both": {"first": "both", "second": "both", "mapped": "both"},
        "curves": {"first": "curves", "second": "curves", "mapped": "curves"},
    }
    pages = every[button] | {"timed": "measured"}
    for exercise in ("second", "first", "plain", "second", "mapped", "first", "timed", "second", "first"):
        program.controller.open_exercise(exercise)
        kinds = kinds_of(pages.get(exercise, "curves"), offered(find_card(CATALOGUE.exercises, exercise)))
        assert shown(program) == set(kinds), f"{exercise}, {button}"
        if exercise in ("first", "second"):
            assert controls.pages.current() == button


def test_the_plots_come_up_with_the_page_that_was_chosen_before(open_window: Opener) -> None:
    program = open_window(exercise="timed", catalogue=CATALOGUE)
    assert shown(program) == {"measured"}


def test_a_plot_waits_for_values_only_as_long_as_some_may_come(qtbot: QtBot) -> None:
    run = fakes.FakeSession().add(exercise="first")
    run.begin(3)
    run.feed(State(state=RunState.FAILED, step=3))
    plots = ConvergencePlots(Appearance(LIGHT))
    qtbot.addWidget(plots)
    plots.show_card(fakes.card(id="first"))
    run.reading = 0.5

    def sentence() -> str:
        return empty_sentence(plots.canvas.scene.runs)

    plots.show_runs((run,), run.id, "", {run.id: 0})
    assert sentence() == "The values are being read."
    run.reading = None
    plots.show_news({run.id})
    assert sentence() == "There are no values: it ended before the first one."


def test_plots_of_an_own_exercise_follow_its_file(open_window: Opener) -> None:
    program = open_window(exercise="plain", catalogue=CATALOGUE)
    canvas = program.window.run_view.plots.canvas
    assert [setup.id for setup in canvas.setups] == ["loss", "accuracy"]
    cards = tuple(
        msgspec.structs.replace(card, plots=card.plots[:1]) if card.id == "plain" else card
        for card in CATALOGUE.exercises
    )
    program.controller.take_catalogue(Catalogue(exercises=cards))
    QCoreApplication.processEvents()
    assert [setup.id for setup in canvas.setups] == ["loss"]


class NewView(PlotPage):
    """Shows the same chart for every exercise."""

    name, reset_text = "New", "Begin again"

    def show_card(self, card: ExerciseCard) -> None:
        """Show it."""
        self.show_chart(lambda *room: MeasuredChart([], *room))


def test_a_new_kind_of_plot_is_a_class_and_one_line(
    open_window: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pages = (*PAGES, Page("new", "New", lambda _card: True, NewView))
    for module in ("plots.pages", "plots.panel", "runs.run_view"):
        monkeypatch.setattr(f"clew_gui.views.{module}.PAGES", pages)
    program = open_window(exercise="softmax")
    plots, controls = program.window.run_view.plots, program.window.run_view.controls
    program.window.show_tab(1)
    controls.pages.button("new").click()
    assert (shown(program), controls.units.isHidden()) == ({"new"}, True)
    assert plots.page_of(NewView).accessibleDescription() == EMPTY
    menu = plots.menu()
    assert menu.actions()[0].text() == "Begin again"
    menu.close()
    plots.export("svg", tmp_path / "new.svg")
    assert f">{EMPTY}</text>" in (tmp_path / "new.svg").read_text(encoding="utf-8")
