"""The quiet line below the curves, and the charts into which it unfolds."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_gui.app import Program
from clew_gui.base.state_words import NONE
from clew_gui.charts.kit.ticks import XUnit
from clew_gui.charts.pulse import PulseChart
from clew_gui.session.runs import RunModel
from clew_gui.views.plots.pulse import PulseSection
from clew_gui.views.runs import runs_model
from clew_shared.cards import MetricSpec
from clew_shared.journal.lifecycle import RunState
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.gui.plots.test_plots import zoom_by
from tests.unit.runs import pulse

NAN = float("nan")
START = 1_764_000_000.0


def opened(open_window: Opener, sampled: bool = True, over: bool = False, **options: object) -> Program:
    session = fakes.FakeSession()
    run = session.add()
    run.begin(500, START)
    for second in range(10):
        run.train(20, 1.0, START + 1 + second)
    if sampled:
        run.feed(pulse(START, cpu=[NAN, *[1.5] * 9], memory=[1.2e9] * 10, memory_limit=[16e9] * 10))
    if over:
        run.end(RunState.FINISHED, "")
    program = open_window(session, **options)
    program.window.show_tab(1)
    return program


def section(program: Program) -> PulseSection:
    return program.window.run_view.pulse


def drawn(program: Program) -> PulseChart:
    chart = section(program)._chart.chart
    assert isinstance(chart, PulseChart)
    return chart


def test_a_live_run_says_in_a_line_what_it_uses_now(open_window: Opener) -> None:
    found = section(opened(open_window))
    assert found.isVisible()
    assert not found.content.isVisible(), "folded at first"
    assert found.summary.whole() == "CPU 150 %, 1.2 of 16 GB"


def test_a_run_that_is_over_says_what_it_used(open_window: Opener) -> None:
    found = section(opened(open_window, over=True))
    assert found.summary.whole() == "CPU 150 % on average; memory 1.2 of 16 GB at most"


def test_a_run_of_which_nothing_is_known_says_nothing(open_window: Opener) -> None:
    assert not section(opened(open_window, sampled=False)).isVisible()


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080)])
def test_the_charts_are_below_the_curves_on_the_same_axis(open_window: Opener, size: tuple[int, int]) -> None:
    program = opened(open_window, size=size)
    section(program).unfold()
    program.app.processEvents()
    curves = program.window.run_view.plots.canvas.chart
    frame = drawn(program).frames[0]
    assert (frame.box.x, frame.box.right) == (curves.stack.area.x, curves.stack.area.right)
    assert frame.x == curves.scene.grid.span
    assert drawn(program).description() == "Processor 150 %. Memory 1.2 of 16 GB"
    view = program.window.run_view
    assert section(program).geometry().bottom() <= view._plots_card.height()


def test_a_picture_has_them_while_they_are_unfolded(open_window: Opener, tmp_path: Path) -> None:
    program = opened(open_window)
    plots = program.window.run_view.plots
    plots.export("svg", tmp_path / "folded.svg")
    section(program).unfold()
    program.app.processEvents()
    plots.export("svg", tmp_path / "unfolded.svg")
    assert "Processor" not in (tmp_path / "folded.svg").read_text(encoding="utf-8")
    assert "1.2 of 16 GB" in (tmp_path / "unfolded.svg").read_text(encoding="utf-8")


def test_they_follow_a_zoom_and_the_unit(open_window: Opener) -> None:
    program = opened(open_window)
    section(program).unfold()
    plots = program.window.run_view.plots
    zoom_by(plots, 0.5, 50.0)
    plots.canvas.redraw()
    assert drawn(program).frames[0].x == plots.canvas.scene.grid.span
    plots.change(unit=XUnit.SECONDS)
    plots.canvas.redraw()
    assert drawn(program).frames[0].x == plots.canvas.scene.grid.span
    assert drawn(program).description()


def test_a_run_too_short_for_two_samples_on_its_curves_has_an_axis_of_time(open_window: Opener) -> None:
    session = fakes.FakeSession()
    run = session.add()
    run.begin(500, START)
    run.train(20, 1.0, START + 3.4)
    run.feed(pulse(START, cpu=[NAN, *[1.5] * 5], memory=[1.2e9] * 6, memory_limit=[16e9] * 6))
    program = open_window(session)
    program.window.show_tab(1)
    section(program).unfold()
    program.app.processEvents()
    assert [len(line.x) for line in drawn(program)._rows[0].lines] == [5], "no lone dot"
    assert drawn(program).description().startswith("Processor 150 %")


def test_where_no_curves_are_shown_they_have_an_axis_of_time(open_window: Opener) -> None:
    program = opened(open_window)
    section(program).unfold()
    plots = program.window.run_view.plots
    plots.show_page("surface")
    section(program).follow()
    assert drawn(program).frames[0].x.high == 9.0


def test_the_runs_table_can_show_sort_and_filter_what_runs_used() -> None:
    card = fakes.card()
    run = fakes.FakeSession().add()
    run.begin(500, START)
    run.train(20, 1.0, START + 1)
    run.feed(pulse(START, cpu=[NAN, 1.5, 1.5], memory=[1.2e9] * 3))
    assert runs_model.more_columns(card)["peak_memory"] == "Peak memory"
    names = ("mean_cpu", "peak_memory", "energy")
    cells = runs_model.cells(card, run, names, no_best)
    assert {name: text for name, (text, _) in cells.items()} == {
        "mean_cpu": "150 %",
        "peak_memory": "1.2 GB",
        "energy": NONE,
    }
    assert cells["mean_cpu"][1] == 1.5
    assert runs_model.is_number(card, "energy")
    assert runs_model.facts(card, run, no_best).values["mean_cpu"] == 1.5


def no_best(metric: MetricSpec, run: RunModel) -> float | None:
    return None
