"""What a run measured, as people meet it: lines in the window, a read-out by mouse and keys, files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from clew_gui.base.tokens import DARK, LIGHT, Theme
from clew_gui.charts.measured import EMPTY, MeasuredChart
from clew_gui.views.plots.pages import MeasuredView
from clew_gui.views.plots.panel import ConvergencePlots
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Series
from tests.gui.fakes import FakeRun, FakeSession
from tests.gui.plots.test_plots import colours, open_panel, save_csv, wear
from tests.gui.plots.test_plots import show as show_runs

SIZES = [10.0, 100.0, 1000.0]
TIMES = {"Python loop": [1e-6, 1e-5, 1e-4], "NumPy": [2e-6, 2e-6, 3e-6]}


def point(name: str, x: float, y: float, label: str = "Time per call", unit: str = "s") -> Series:
    arrays = (np.array([value], "<f8").tobytes() for value in (x, y))
    return Series(name=name, x=next(arrays), y=next(arrays), x_label="Multiplications", y_label=label, y_unit=unit)


def vectorized(session: FakeSession, factor: float = 1.0) -> FakeRun:
    """A run of ``vectorize`` that measured two implementations."""
    run = session.add(exercise="vectorize")
    run.begin(3)
    for name, times in TIMES.items():
        run.feed(*(point(name, size, factor * time) for size, time in zip(SIZES, times, strict=True)))
    return run


@pytest.fixture
def panel(qtbot: QtBot) -> ConvergencePlots:
    return open_panel(qtbot, find_card(load_builtin().exercises, "vectorize"), "measured")


def show(panel: ConvergencePlots, qtbot: QtBot, *runs: FakeRun) -> MeasuredView:
    show_runs(panel, qtbot, *runs)
    return panel.page_of(MeasuredView)


def chart_of(view: MeasuredView) -> MeasuredChart:
    assert isinstance(view.chart, MeasuredChart)
    return view.chart


def at(view: MeasuredView, size: float, plot: int = 0) -> QPoint:
    chart = chart_of(view)
    return QPoint(round(chart.column(plot, size)), round(chart.frames[plot].box.middle))


def read(view: MeasuredView) -> tuple[int, float] | None:
    """Plot and size that are read out."""
    at = view.reading
    return chart_of(view).nearest(at.x(), at.y()) if at is not None else None


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_each_series_is_a_line_in_a_colour_of_the_theme(panel: ConvergencePlots, qtbot: QtBot, theme: Theme) -> None:
    wear(panel, theme)
    view = show(panel, qtbot, vectorized(FakeSession()))
    found = colours(view.grab().toImage())
    assert {theme.surface.upper(), theme.curve(0).colour.upper(), theme.curve(1).colour.upper()} <= found
    assert theme.curve(2).colour.upper() not in found
    assert view.accessibleDescription() == (
        "Time per call against Multiplications: Python loop 100 µs at 1,000, NumPy 3.00 µs at 1,000"
    )


def test_points_appear_while_they_are_measured(panel: ConvergencePlots, qtbot: QtBot) -> None:
    run = FakeSession().add(exercise="vectorize")
    run.begin(3)
    view = show(panel, qtbot, run)
    assert view.accessibleDescription() == EMPTY
    empty = view.grab().toImage()
    run.feed(point("NumPy", 10, 1e-6))
    show(panel, qtbot, run)
    one = view.grab().toImage()
    run.feed(point("NumPy", 100, 2e-6))
    show(panel, qtbot, run)
    two = view.grab().toImage()
    assert empty != one
    assert one != two


def test_of_several_runs_the_selected_one_is_plain_and_named(panel: ConvergencePlots, qtbot: QtBot) -> None:
    session = FakeSession()
    slow, fast = vectorized(session, 10), vectorized(session)
    chart = chart_of(show(panel, qtbot, slow, fast))
    mains = [(drawn.run.run_id, drawn.name) for drawn in chart.drawn_lines[0] if drawn.main]
    assert mains == [(slow.id, "Python loop"), (slow.id, "NumPy")]
    assert len(chart.drawn_lines[0]) == 4
    panel.set_runs([])
    qtbot.waitUntil(lambda: chart_of(panel.page_of(MeasuredView)).description() == EMPTY)


def test_where_a_run_has_one_line_runs_keep_their_own_colours(panel: ConvergencePlots, qtbot: QtBot) -> None:
    panel.show_card(find_card(load_builtin().exercises, "minibatch"))
    session, runs = FakeSession(), []
    for accuracy in (0.9, 0.8):
        run = session.add(exercise="minibatch")
        run.begin(1)
        run.feed(point("Test accuracy", 8, accuracy, "Test accuracy", ""), point("Counted", 8, 1e6, "Memory", "B"))
        runs.append(run)
    chart = chart_of(show(panel, qtbot, *runs))
    assert sorted(drawn.index for drawn in chart.drawn_lines[1]) == sorted(run.index for run in runs)
    heading, rows = chart.reading(1, 8.0)
    assert heading == "Multiplications 8"
    assert [drawn.line.name for drawn, _ in rows] == ["Test accuracy", "Counted"], "of the selected run only"
    assert [value for _, value in rows] == ["90.00 %", "1.00 MB"]


def test_mouse_and_keys_read_out_the_nearest_size(panel: ConvergencePlots, qtbot: QtBot) -> None:
    view = show(panel, qtbot, vectorized(FakeSession()))
    QTest.mouseMove(view, at(view, 100) + QPoint(12, 0))
    assert read(view) == (0, 100.0)
    QTest.mouseMove(view, QPoint(view.width() - 4, 4))
    assert read(view) is None, "over the names nothing is read out"
    for _ in range(2):
        QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.accessibleDescription() == "Multiplications 100. Python loop 10.0 µs. NumPy 2.00 µs"


def test_axes_are_linear_on_demand(panel: ConvergencePlots, qtbot: QtBot) -> None:
    view = show(panel, qtbot, vectorized(FakeSession()))
    log = chart_of(view)
    assert log.column(0, 100) - log.column(0, 10) == pytest.approx(log.column(0, 1000) - log.column(0, 100), abs=1)
    panel.change(log_y=False)
    linear = chart_of(view)
    assert linear.column(0, 100) - linear.column(0, 10) < 0.2 * (linear.column(0, 1000) - linear.column(0, 100))


def test_it_leaves_as_picture_drawing_and_table(panel: ConvergencePlots, qtbot: QtBot, tmp_path: Path) -> None:
    run = vectorized(FakeSession())
    show(panel, qtbot, run)
    panel.export("png", tmp_path / "measured.png")
    picture = QImage(str(tmp_path / "measured.png"))
    assert picture.width() == 2 * panel.page_of(MeasuredView).width()
    assert LIGHT.curve(0).colour.upper() in colours(picture)
    panel.export("svg", tmp_path / "measured.svg")
    drawing = (tmp_path / "measured.svg").read_text()
    assert QSvgRenderer(str(tmp_path / "measured.svg")).isValid()
    assert "Time per call, log scale" in drawing
    assert "Python loop 100 µs at 1,000" in drawing
    save_csv(panel, qtbot, tmp_path / "measured.csv")
    rows = list(csv.DictReader((tmp_path / "measured.csv").read_text().splitlines()))
    assert [(row["series"], float(row["x"]), float(row["y"])) for row in rows] == [
        (name, size, time) for name, times in TIMES.items() for size, time in zip(SIZES, times, strict=True)
    ]
    assert {(row["run"], row["x_label"], row["y_unit"]) for row in rows} == {(run.id, "Multiplications", "s")}


# A timeline


def piped(session: FakeSession) -> FakeRun:
    """A run of ``model-parallel`` with two devices and one micro-batch."""
    run = session.add(exercise="model-parallel")
    run.begin(2)
    for count, share in ((1.0, 0.5), (2.0, 0.4)):
        shares = (np.array([value], "<f8").tobytes() for value in (count, share))
        run.feed(Series(name="Measured", x=next(shares), y=next(shares), x_label="Micro-batches", y_label="Bubble"))
    return run


def device(number: int, x: list[float], y: list[float]) -> Series:
    arrays = np.array(x, "<f8").tobytes(), np.array(y, "<f8").tobytes()
    return Series(name=f"Device {number}", x=arrays[0], y=arrays[1], x_label="Time", x_unit="s")


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_a_timeline_has_a_row_of_bars_for_each_device(panel: ConvergencePlots, qtbot: QtBot, theme: Theme) -> None:
    panel.show_card(find_card(load_builtin().exercises, "model-parallel"))
    wear(panel, theme)
    run = piped(FakeSession())
    view = show(panel, qtbot, run)
    assert len(chart_of(view).frames) == 2, "no room for a timeline without bars"
    run.feed(device(1, [0, 1, 2, 4], [1, 0, -1, 0]), device(2, [1, 2], [1, 0]))
    show(panel, qtbot, run)
    frame = chart_of(view).frames[2]
    image = view.grab().toImage()
    found = {
        (row, moment): image.pixelColor(round(frame.column(moment + 0.3)), round(frame.row(row))).name()
        for row in (0, 1)
        for moment in range(4)
    }
    forward, backward = (theme.curve(k).colour.lower() for k in (0, 1))
    waits = found[0, 0]
    assert waits not in (forward, backward)
    assert [found[1, moment] for moment in range(4)] == [forward, waits, backward, backward], "the first one on top"
    assert [found[0, moment] for moment in range(4)] == [waits, forward, waits, waits]
    assert view.accessibleDescription().endswith("One step against Time: Device 1 works 75%, Device 2 works 25%")


def test_a_moment_of_a_timeline_is_read_out(panel: ConvergencePlots, qtbot: QtBot) -> None:
    panel.show_card(find_card(load_builtin().exercises, "model-parallel"))
    run = piped(FakeSession())
    run.feed(device(1, [0, 1, 2, 4], [1, 0, -1, 0]), device(2, [1, 2], [1, 0]))
    view = show(panel, qtbot, run)
    QTest.mouseMove(view, at(view, 2.0, 2))
    assert read(view) == (2, 2.0)
    heading, rows = chart_of(view).reading(2, 2.0)
    assert heading == "Time 2.00 s"
    assert [(drawn.name, text, drawn.index) for drawn, text in rows] == [
        ("Device 1", "backward 1", 1),
        ("Device 2", "waits", -1),
    ]
    before = view.grab().toImage()
    QTest.mouseMove(view, at(view, 1.0, 2))
    assert view.grab().toImage() != before
