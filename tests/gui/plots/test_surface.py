"""The loss surface as people meet it: paths that grow on a map that stays, zoom, read-out, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from clew_gui.base.tokens import DARK, LIGHT, Theme
from clew_gui.charts.curves.model import RunStyle
from clew_gui.charts.surface import SurfaceChart
from clew_gui.views.plots.pages import SurfaceView
from clew_gui.views.plots.panel import ConvergencePlots
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Attempt, Points, Schema
from tests.gui import fakes
from tests.gui.fakes import FakeRun, FakeSession
from tests.gui.plots.test_plots import colours, open_panel, wear
from tests.recording import record


def line() -> ExerciseCard:
    return find_card(load_builtin().exercises, "linear-regression")


def descend(rate: float, steps: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The slides' loop."""
    x, y = np.array([1.0, 2, 3, 4]), np.array([0.0, -1, -2, -3])
    w, b, rows = 0.3, -0.3, []
    for _ in range(steps):
        error = w * x + b - y
        rows.append((float((error**2).sum()), w, b))
        w, b = w - rate * float((2 * error * x).sum()), b - rate * float((2 * error).sum())
    return dict(zip(("loss", "W", "b"), np.array(rows).T, strict=True))


def give(panel: ConvergencePlots, run: str, rate: float, first: int, count: int, attempt: int = 1) -> None:
    """Record steps of a shown run."""
    history = next(style.history for style in panel.canvas.runs if style.run_id == run)
    for name, values in descend(rate, first + count).items():
        record(history, name, first, values[first:], dtype="float64", attempt=attempt)
    panel.show_news({run})


@pytest.fixture
def panel(qtbot: QtBot) -> ConvergencePlots:
    return open_panel(qtbot, line(), "surface")


@pytest.fixture
def surface(panel: ConvergencePlots, qtbot: QtBot) -> SurfaceView:
    other = RunStyle("2", "2  Adam 0.2", 1, selected=True, live=True, steps=200)
    panel.set_runs((RunStyle("1", "1  SGD 0.01", 0, pinned=True), other))
    give(panel, "1", 0.01, 0, 200)
    give(panel, "2", 0.02, 0, 50)
    settle(panel.page_of(SurfaceView), qtbot)
    return panel.page_of(SurfaceView)


def chart_of(surface: SurfaceView) -> SurfaceChart:
    assert isinstance(surface.chart, SurfaceChart)
    return surface.chart


def taken(surface: SurfaceView, run: str) -> int:
    """The number of values that a path has; -1: there is no path."""
    head = next((head for head in chart_of(surface).heads() if head.run.run_id == run), None)
    return round(head.step) + 1 if head is not None else -1


def settle(surface: SurfaceView, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: surface.settled)


def pixel(surface: SurfaceView, x: float, y: float) -> QPoint:
    return QPointF(*chart_of(surface).frame.at(x, y)).toPoint()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_paths_have_the_colours_of_their_runs_on_a_map_of_the_theme(
    panel: ConvergencePlots, surface: SurfaceView, theme: Theme
) -> None:
    wear(panel, theme)
    seen = colours(surface.grab().toImage())
    assert {theme.surface, theme.curves[0], theme.curves[1], theme.text} <= seen
    assert (DARK if theme is LIGHT else LIGHT).curves[0] not in seen


def test_points_that_arrive_lengthen_the_path_and_leave_the_map_alone(
    panel: ConvergencePlots, surface: SurfaceView, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = surface.grab().toImage()
    monkeypatch.delattr("clew_gui.charts.surface.map_pixels")  # it would be called
    for first in range(50, 150, 10):
        give(panel, "2", 0.02, first, 10)
        settle(surface, qtbot)
    grown = surface.grab().toImage()
    assert grown != before
    assert taken(surface, "2") == 150
    monkeypatch.undo()
    surface.reset_zoom()
    panel.set_runs(panel.canvas.runs[::-1])  # now all of it is drawn at once
    panel.set_runs(panel.canvas.runs[::-1])
    settle(surface, qtbot)
    again = surface.grab().toImage()
    assert differing(grown, again) < 0.002


def differing(one: QImage, other: QImage) -> float:
    """The share of pixels that differ clearly."""
    arrays = []
    for image in (one, other):
        small = image.convertToFormat(QImage.Format.Format_RGB32)
        arrays.append(np.frombuffer(small.constBits(), np.uint8).reshape(small.height(), small.width(), 4).astype(int))
    return float((np.abs(arrays[0] - arrays[1]).max(axis=2) > 60).mean())


def test_a_later_attempt_takes_the_path_back(panel: ConvergencePlots, surface: SurfaceView, qtbot: QtBot) -> None:
    again = Attempt(format=1, run="", attempt=2, exercise="", spec_sha256="", steps=200, start_step=20, resumes=1)
    panel.canvas.runs[0].history.feed(2, again)
    panel.show_news({"1"})
    settle(surface, qtbot)
    assert taken(surface, "1") == 20
    give(panel, "1", 0.03, 20, 300, attempt=2)
    settle(surface, qtbot)
    assert taken(surface, "1") == 320
    panel.set_runs(panel.canvas.runs[1:])
    settle(surface, qtbot)
    assert taken(surface, "1") == -1


def test_the_map_is_zoomed_and_moved_within_limits_and_a_double_click_fits_it(
    surface: SurfaceView, qtbot: QtBot
) -> None:
    whole, at = chart_of(surface).frame, pixel(surface, -0.5, 0.5)
    QTest.keyClick(surface, Qt.Key.Key_Plus)
    closer = chart_of(surface).frame
    assert (closer.x.size, closer.y.size) == pytest.approx((0.8 * whole.x.size, 0.8 * whole.y.size))
    QTest.mousePress(surface, Qt.MouseButton.LeftButton, pos=at)
    QTest.mouseMove(surface, at + QPoint(30, 10))
    QTest.mouseRelease(surface, Qt.MouseButton.LeftButton, pos=at + QPoint(30, 10))
    assert chart_of(surface).frame.x.low < closer.x.low
    assert chart_of(surface).frame.y.low > closer.y.low
    QTest.mouseDClick(surface, Qt.MouseButton.LeftButton, pos=at)
    assert chart_of(surface).frame == whole
    for _ in range(80):
        QTest.keyClick(surface, Qt.Key.Key_Plus)
    assert chart_of(surface).frame.x.size > 1e-6 * whole.x.size
    surface.reset_zoom()
    settle(surface, qtbot)


def test_the_pointer_reads_paths_and_the_map(surface: SurfaceView) -> None:
    chart = chart_of(surface)
    curves = descend(0.01, 200)
    run, _, lines = chart.reading(*chart.frame.at(curves["W"][10], curves["b"][10]))
    assert run is not None
    assert run.run_id == "1"
    assert lines[0] == "1  SGD 0.01"
    assert lines[1].startswith("Step 10, loss ")
    assert lines[2].startswith("W -0.")
    assert chart.reading(*chart.frame.at(0.5, 1.5))[::2] == (None, ("Loss 83.5", "W 0.500, b 1.50"))
    assert chart.read(2, 2) == ""
    QTest.mouseMove(surface, pixel(surface, 0.5, 1.5))
    shown = surface.grab().toImage()
    QTest.mouseMove(surface, QPoint(2, 2))
    assert surface.grab().toImage() != shown


def test_arrow_keys_walk_along_the_selected_path_and_say_where(surface: SurfaceView) -> None:
    surface.setFocus()
    QTest.keyClick(surface, Qt.Key.Key_Right)
    assert surface.accessibleDescription().startswith("2  Adam 0.2. Step 0, loss 23.7. W 0.300, b -0.300")
    QTest.keyClick(surface, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert "Step 10, " in surface.accessibleDescription()
    QTest.keyClick(surface, Qt.Key.Key_Left)
    assert "Step 9, " in surface.accessibleDescription()
    QTest.keyClick(surface, Qt.Key.Key_Escape)
    assert surface.reading is None


def test_the_picture_in_words_and_what_leaves_it(panel: ConvergencePlots, surface: SurfaceView, qtbot: QtBot) -> None:
    assert surface.accessibleName() == "Loss over W and b"
    assert surface.accessibleDescription().startswith("1  SGD 0.01 at step 199: W -0.9")
    assert "2  Adam 0.2 at step 49" in surface.accessibleDescription()
    panel.set_runs([*panel.canvas.runs, RunStyle("3", "3  SGD 0.05", 2)])
    give(panel, "3", 0.05, 0, 30)
    settle(surface, qtbot)
    assert "3  SGD 0.05 leaves the map at step" in chart_of(surface).note()
    assert surface.accessibleDescription().endswith("zoom out to follow.")
    QTest.keyClick(surface, Qt.Key.Key_Minus)
    assert chart_of(surface).note() == ""
    settle(surface, qtbot)


def test_before_any_value_it_says_what_will_come(panel: ConvergencePlots) -> None:
    assert chart_of(panel.page_of(SurfaceView)).description() == "No run has values yet."
    panel.show_card(fakes.card())
    assert panel.page_of(SurfaceView).chart is None
    panel.page_of(SurfaceView).show()
    for key in (Qt.Key.Key_Plus, Qt.Key.Key_Right):
        QTest.keyClick(panel.page_of(SurfaceView), key)
    assert panel.page_of(SurfaceView).accessibleDescription() == ""
    panel.page_of(SurfaceView).grab()


def test_a_line_of_the_list_selects_its_run(surface: SurfaceView, qtbot: QtBot) -> None:
    surface.grab()
    box = next(box for box, run in chart_of(surface).rows if run == "1")
    with qtbot.waitSignal(surface.picked) as told:
        QTest.mouseClick(surface, Qt.MouseButton.LeftButton, pos=QPointF(*box.centre).toPoint())
    assert told.args == ["1"]


@pytest.mark.parametrize("page", ["surface", "both"])
def test_it_leaves_as_png_and_svg(panel: ConvergencePlots, surface: SurfaceView, tmp_path: Path, page: str) -> None:
    panel.set_runs([*panel.canvas.runs, RunStyle("3", "3  SGD 0.05", 2)])
    give(panel, "3", 0.05, 0, 30)  # it leaves the map for good
    panel.show_page("both" if page == "both" else "surface")
    panel.export("png", tmp_path / "map.png")
    picture = QImage(str(tmp_path / "map.png"))
    assert {LIGHT.curves[0], LIGHT.curves[1]} <= colours(picture)
    panel.export("svg", tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert "Loss over W and b" in text
    assert "1  SGD 0.01" in text
    assert text.count("<polyline") + text.count("<path") > 4


def test_the_paths_are_those_of_the_runs_that_are_shown(panel: ConvergencePlots, qtbot: QtBot) -> None:
    card = line()
    panel.show_card(card)
    run = FakeSession().add("linear-regression")
    train(run, card.metrics, 30)
    panel.show_runs([run], run.id, "", {run.id: 0})
    settle(panel.page_of(SurfaceView), qtbot)
    assert taken(panel.page_of(SurfaceView), run.id) == 30


def train(run: FakeRun, metrics: tuple[MetricSpec, ...], steps: int) -> None:
    """The slides' run in a journal."""
    curves = descend(0.01, steps)
    values = tuple(curves[metric.name].astype("<f8").tobytes() for metric in metrics)
    run.feed(
        Attempt(format=1, run=run.id, attempt=1, exercise=run.spec.exercise, spec_sha256="", steps=steps),
        Schema(id=1, metrics=metrics),
        Points(schema=1, first=0, count=steps, seconds=0.1, clock=0.1, values=values),
    )


def test_the_slider_and_play_show_the_paths_as_they_were(
    panel: ConvergencePlots, surface: SurfaceView, qtbot: QtBot
) -> None:
    replay = panel.replay
    assert replay.isVisible()
    assert [head.step for head in chart_of(surface).heads()] == [199, 49]
    replay.slider.setValue(replay.steps.index(12))
    assert replay.step.text() == "step 12"
    settle(surface, qtbot)
    assert [head.step for head in chart_of(surface).heads()] == [12, 12]
    replay.play.click()
    qtbot.waitUntil(lambda: replay.play.text() == "Replay")
    settle(surface, qtbot)
    assert [head.step for head in chart_of(surface).heads()] == [199, 49], "at the end the paths are live again"
