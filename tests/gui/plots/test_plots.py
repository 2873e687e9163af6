"""The plot panel as people meet it: it draws, follows, zooms, reads out, and writes files."""

from __future__ import annotations

import csv
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QMenu, QToolButton
from pytestqt.qtbot import QtBot

from clew_gui.base.tokens import DARK, LIGHT, Theme
from clew_gui.charts.curves.captions import captions
from clew_gui.charts.curves.chart import Crosshair
from clew_gui.charts.curves.layout import empty_sentence, key
from clew_gui.charts.curves.model import RunStyle
from clew_gui.charts.curves.pixel_columns import Curve
from clew_gui.charts.curves.readout import Readout
from clew_gui.charts.kit.drawing import Drawing, Marks, Words
from clew_gui.charts.kit.drawing import Path as Line
from clew_gui.charts.kit.gutter import joined
from clew_gui.charts.kit.ticks import Span, XUnit
from clew_gui.views.charts.painter import SIZES, rect_of
from clew_gui.views.plots.panel import ConvergencePlots
from clew_gui.views.theme.parts import Appearance, retheme_all
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard, Goal, MetricSpec, PlotSpec
from clew_shared.journal.events import Attempt, Diverged, Live
from clew_shared.journal.history import History, divergence
from tests.gui.fakes import FakeRun
from tests.recording import evaluate, record

PLOTS = (
    PlotSpec(id="loss", title="Training loss", metrics=("loss",), log=True, expected=((1, 2.0), (500, 0.3))),
    PlotSpec(id="accuracy", title="Test accuracy", metrics=("test_accuracy",), format="percent"),
)
GOALS = (Goal(id="slides", text="90.79 %", metric="test_accuracy", op=">=", value=0.9079),)
METRICS = (
    MetricSpec(name="loss", label="loss", better="lower"),
    MetricSpec(name="test_accuracy", label="test set", per_step=False, better="higher", format="percent"),
)


def open_panel(qtbot: QtBot, card: ExerciseCard, page: str, size: tuple[int, int] = (900, 420)) -> ConvergencePlots:
    """The plots of a card, with one of its pages in sight."""
    panel = ConvergencePlots(Appearance(LIGHT))
    qtbot.addWidget(panel)
    panel.resize(*size)
    panel.show_card(card)
    panel.show_page(page)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def show(panel: ConvergencePlots, qtbot: QtBot, *runs: FakeRun) -> None:
    """Show these runs, the first one selected, as they are now."""
    panel.show_runs(runs, runs[0].id, "", {run.id: run.index for run in runs})
    panel.show_news({run.id for run in runs})
    qtbot.waitUntil(lambda: all(kind.settled for kind in panel.shown_kinds))


def history_of(panel: ConvergencePlots, run: str) -> History:
    return next(style.history for style in panel.canvas.runs if style.run_id == run)


def give_loss(panel: ConvergencePlots, run: str, first: int, values: npt.ArrayLike, attempt: int = 1) -> None:
    """Record the loss of a shown run."""
    end, count = np.size(values) + first, np.size(values)
    record(
        history_of(panel, run), "loss", first, values, dtype="float64", attempt=attempt, batch=(100, 55_000),
        clock=(end / 100, count / 100), wall=1.7e9 + end / 100,
    )  # fmt: skip
    panel.show_news({run})


def give(panel: ConvergencePlots, run: str, first: int, count: int) -> None:
    """Record a loss that falls, and an accuracy that rises, of a shown run."""
    rng = np.random.default_rng(first)
    step = np.arange(first, first + count)
    evaluate(history_of(panel, run), "test_accuracy", step[::100], 0.92 - 0.8 * np.exp(-step[::100] / 200))
    give_loss(panel, run, first, (2 * np.exp(-step / 200) + 0.3) * np.exp(rng.normal(0, 0.2, count)))


def add(panel: ConvergencePlots, *runs: RunStyle) -> None:
    """Show these runs as well."""
    panel.set_runs([*panel.canvas.runs, *runs])


def wear(panel: ConvergencePlots, theme: Theme) -> None:
    """Show the panel in another theme."""
    panel.appearance.theme = theme
    retheme_all(panel)


def readout(panel: ConvergencePlots) -> Readout | None:
    """What the crosshair says."""
    at = panel.canvas.reading
    return panel.canvas.chart.readout(at.x(), at.y()) if at is not None else None


def curve_of(panel: ConvergencePlots, run: str) -> Curve:
    """A run's main curve in the first plot."""
    found = panel.canvas.scene.plots[0].headline(run)
    assert found is not None
    return found


def zoom_by(panel: ConvergencePlots, factor: float, x: float | None = None) -> None:
    """Ask for ``factor`` times as much, around an x."""
    frame = panel.canvas.chart.frames[0]
    panel.canvas.zoomed.emit(panel.canvas.chart.zoomed(factor, (frame.column(x), 0) if x is not None else None))


def pan_by(panel: ConvergencePlots, part: float) -> None:
    """Ask for what is so many parts of the visible range farther."""
    chart = panel.canvas.chart
    panel.canvas.zoomed.emit(chart.moved(-part * chart.frames[0].box.width, 0))


@pytest.fixture
def empty(qtbot: QtBot) -> ConvergencePlots:
    panel = ConvergencePlots(Appearance(LIGHT))
    qtbot.addWidget(panel)
    panel.resize(900, 400)
    panel.canvas.set_plots(PLOTS, GOALS, METRICS)
    panel.show()
    qtbot.waitExposed(panel)
    return panel


@pytest.fixture
def panel(empty: ConvergencePlots, qtbot: QtBot) -> ConvergencePlots:
    other = RunStyle("2", "2  Adam", 1, selected=True, live=True, steps=2000)
    empty.set_runs((RunStyle("1", "1  SGD 0.5", 0, pinned=True), other))
    for run, steps in (("1", 2000), ("2", 1000)):
        give(empty, run, 0, steps)
    empty.canvas.redraw()
    qtbot.waitUntil(lambda: empty.canvas.settled)
    return empty


def colours(image: QImage) -> set[str]:
    """All colours of a picture, as #rrggbb."""
    small = image.convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(small.constBits(), np.uint32).reshape(small.height(), -1)
    return {f"#{value & 0xFFFFFF:06X}" for value in np.unique(pixels).tolist()}


def save_csv(panel: ConvergencePlots, qtbot: QtBot, path: Path) -> None:
    """Export the values that are shown."""
    with qtbot.waitSignal(panel.saved) as saved:
        panel.export("csv", path)
    assert saved.args == [path]


def over(panel: ConvergencePlots, x: float, plot: int = 0) -> QPoint:
    """The pixel at step ``x`` in the middle of a plot."""
    frame = panel.canvas.chart.frames[plot]
    return QPoint(round(frame.column(x)), round(frame.box.middle))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_curves_goal_and_ground_have_the_colours_of_the_theme(panel: ConvergencePlots, theme: Theme) -> None:
    wear(panel, theme)
    seen = colours(panel.canvas.grab().toImage())
    assert {theme.surface, theme.curves[0], theme.curves[1], theme.grid, theme.ok} <= seen
    assert (DARK if theme is LIGHT else LIGHT).curves[0] not in seen


def test_while_nothing_ran_the_expected_curve_and_its_words_are_there(empty: ConvergencePlots) -> None:
    assert [setup.id for setup in empty.canvas.drawn_setups] == ["loss"]
    assert LIGHT.border in colours(empty.grab().toImage())
    assert empty.canvas.accessibleDescription() == "No run has values yet."


def test_new_points_are_drawn_by_themselves_and_many_of_them_in_one_frame(
    panel: ConvergencePlots, qtbot: QtBot
) -> None:
    before = panel.canvas.scene
    for first in range(1000, 1500, 50):
        give(panel, "2", first, 50)
    drawn = panel.canvas.drawn
    assert drawn is not None
    assert drawn.scene is before
    qtbot.waitUntil(lambda: panel.canvas.drawn is not drawn)
    curve = curve_of(panel, "2")
    assert curve.end is not None
    assert curve.end[0] == pytest.approx(1499, abs=4)
    assert panel.canvas.settled


def test_points_of_a_run_that_is_not_shown_draw_nothing(panel: ConvergencePlots) -> None:
    panel.show_news({"other"})
    assert panel.canvas.settled


def test_the_crosshair_reads_all_runs_and_draws_no_curve(panel: ConvergencePlots, qtbot: QtBot) -> None:
    drawn = panel.canvas.drawn
    QTest.mouseMove(panel.canvas, over(panel, 700))
    found = readout(panel)
    assert found is not None
    assert found.heading == f"Step {round(found.x)}, smoothed"
    assert found.x == pytest.approx(700, abs=3)
    assert [row.run.run_id for row in found.rows] == ["1", "2"]
    assert found.rows[0].values[1].endswith(" %")
    with_box = panel.grab().toImage()
    assert panel.canvas.drawn is drawn
    QTest.mouseMove(panel.canvas, QPoint(5, 5))
    assert readout(panel) is None
    assert panel.grab().toImage() != with_box


def test_the_keyboard_moves_the_crosshair_and_says_what_it_finds(panel: ConvergencePlots, qtbot: QtBot) -> None:
    panel.setFocus()
    QTest.keyClick(panel.canvas, Qt.Key.Key_Left)
    start = readout(panel)
    QTest.keyClick(panel.canvas, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    far = readout(panel)
    assert start is not None
    assert far is not None
    assert start.x == pytest.approx(1999, abs=3)
    assert far.x < start.x - 50
    assert panel.canvas.accessibleDescription() == far.sentence()


def test_a_zoom_ends_with_home_and_a_double_click(panel: ConvergencePlots) -> None:
    zoom_by(panel, 0.8, 500.0)
    assert panel.canvas.scene.grid.span.size == pytest.approx(2060 * 0.8)
    QTest.keyClick(panel.canvas, Qt.Key.Key_Home)
    assert panel.canvas.scene.grid.span == Span(0, 2060)
    zoom_by(panel, 0.8, 500.0)
    QTest.mouseDClick(panel.canvas, Qt.MouseButton.LeftButton, pos=over(panel, 500))
    assert panel.canvas.scene.grid.span == Span(0, 2060)


def test_a_zoom_ends_when_the_unit_changes_and_cannot_leave_the_data(panel: ConvergencePlots) -> None:
    zoom_by(panel, 0.1, 100.0)
    pan_by(panel, -50)
    assert panel.canvas.scene.grid.span.low == 0
    pan_by(panel, +50)
    assert panel.canvas.scene.grid.span.high == pytest.approx(2060)
    panel.change(unit=XUnit.EPOCH)
    assert panel.view.zoom is None
    zoom_by(panel, 2.0)
    assert panel.view.zoom is None


def test_a_key_in_one_line_says_once_what_all_its_parts_end_with() -> None:
    assert joined(["points: Test accuracy", "thin: Training accuracy"]) == "points: Test, thin: Training accuracy"
    assert joined(["line: W", "thin: b"]) == "line: W, thin: b"


def test_a_label_in_the_gutter_lifts_its_run_and_chooses_it(panel: ConvergencePlots, qtbot: QtBot) -> None:
    gutter = panel.canvas.chart.gutters[0]
    label, height = next((label, y) for label, y in gutter.placed if label.run.run_id == "1")
    at = QPoint(round(gutter.box.x) + 40, round(height))
    assert label.value.startswith("0.")
    with qtbot.waitSignal(panel.canvas.pointed) as hovered:
        QTest.mouseMove(panel.canvas, at)
    assert hovered.args == ["1"]
    assert panel.canvas.toolTip() == "1  SGD 0.5", "the whole of it, also where it is cut"
    assert panel.canvas.scene.plots[0].curves[-1].run.run_id == "1"
    with qtbot.waitSignal(panel.run_clicked) as clicked:
        QTest.mouseClick(panel.canvas, Qt.MouseButton.LeftButton, pos=at)
    assert clicked.args == ["1"]


def test_the_view_can_be_set_and_tells_of_changes(panel: ConvergencePlots, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.canvas.view_changed):
        panel.change(smoothing=1.0)
    assert panel.view.smoothing == 1.0
    assert panel.smoothing_text() == "Mean over about 960 steps"
    panel.change(smoothing=0)
    assert panel.smoothing_text() == "No smoothing"
    panel.change(log_y=False)
    assert not panel.canvas.scene.plots[0].log
    panel.change(log_x=True)
    assert panel.canvas.scene.grid.log
    assert panel.knows("seconds")
    panel.set_runs([RunStyle("unknown", "3  new", 2)])
    assert not panel.knows("seconds")


def test_a_later_attempt_takes_points_and_events_back(panel: ConvergencePlots) -> None:
    history = history_of(panel, "2")
    for _ in range(2):
        history.feed(1, Live(name="learning_rate", value=0.25, step=900))
    give_loss(panel, "2", 1000, [np.nan])
    assert [event.text for event, _ in panel.canvas.scene.events] == ["Learning rate 0.25 from here"]
    assert panel.canvas.scene.plots[0].curves[-1].curve.bad_x == 1000
    again = Attempt(format=1, run="", attempt=2, exercise="", spec_sha256="", steps=2000, start_step=500, resumes=1)
    history.feed(2, again)
    panel.show_news({"2"})
    panel.canvas.redraw()
    assert not panel.canvas.scene.events
    curve = curve_of(panel, "2")
    assert curve.bad_x is None
    assert curve.x[-1] <= 499
    give_loss(panel, "2", 500, np.full(3000, 0.25), attempt=2)
    panel.canvas.redraw()
    curve = curve_of(panel, "2")
    assert curve.last == 0.25
    panel.set_runs(panel.canvas.runs[:1])
    assert [d.run.run_id for d in panel.canvas.scene.plots[0].curves] == ["1"]


def test_divergence_and_nan_are_drawn_without_a_warning(panel: ConvergencePlots) -> None:
    with np.errstate(over="ignore"):
        exploding = np.concatenate((1.9 ** np.arange(1200.0), [np.inf, np.nan, np.nan]))
    add(panel, RunStyle("3", "3  SGD 50", 2))
    give_loss(panel, "3", 0, exploding)
    evaluate(history_of(panel, "3"), "test_accuracy", [0, 100], [-1e300, 1e300])
    for log in (True, False):
        panel.change(log_y=log)
        assert LIGHT.bad in colours(panel.grab().toImage())


def test_the_description_follows_the_curves(panel: ConvergencePlots) -> None:
    text = panel.canvas.accessibleDescription()
    assert re.search(r"Training loss: 1  SGD 0\.5 last 0\.\d+ at step 1,999, best 0\.\d+ at step [\d,]+; 2  Adam", text)
    assert panel.canvas.accessibleName() == "Convergence plots"
    assert panel.focusProxy() is panel.canvas


def test_pictures_as_files_show_the_curves(panel: ConvergencePlots, tmp_path: Path) -> None:
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    panel.export("png", png)
    panel.export("svg", svg)
    image = QImage(str(png))
    assert (image.width(), image.height()) == (1800, 960)
    assert {LIGHT.curves[0], LIGHT.curves[1]} <= colours(image)
    drawn = QImage(900, 480, QImage.Format.Format_RGB32)
    drawn.fill(Qt.GlobalColor.white)
    painter = QPainter(drawn)
    QSvgRenderer(str(svg)).render(painter)
    painter.end()
    assert LIGHT.curves[1] in colours(drawn)
    assert "Training loss, log scale" in svg.read_text()
    assert ">Step<" in svg.read_text()


def test_the_picture_goes_to_the_clipboard(panel: ConvergencePlots) -> None:
    panel.copy_picture()
    assert LIGHT.curves[0] in colours(QGuiApplication.clipboard().image())


def test_values_are_written_in_a_thread(panel: ConvergencePlots, qtbot: QtBot, tmp_path: Path) -> None:
    save_csv(panel, qtbot, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2000 + 1000 + 20 + 10
    assert rows[0].keys() == {"run", "name", "step", "metric", "value", "wall_time"}


@pytest.mark.parametrize("kind", ["png", "svg", "csv"])
def test_a_file_that_cannot_be_written_is_a_problem(
    panel: ConvergencePlots, qtbot: QtBot, tmp_path: Path, kind: str
) -> None:
    with qtbot.waitSignal(panel.failed) as failed:
        panel.export(kind, tmp_path / "missing" / f"a.{kind}")
    (trouble,) = failed.args or (None,)
    assert isinstance(trouble, Problem)
    assert "could not be written" in trouble.text
    assert trouble.hint


def test_the_menu_offers_scale_zoom_and_files(panel: ConvergencePlots, qtbot: QtBot) -> None:
    menu: QMenu = panel.menu()
    actions = {action.text().split("\t")[0]: action for action in menu.actions() if action.text()}
    assert not actions["Reset the zoom"].isEnabled()
    actions["Logarithmic x axis"].trigger()
    assert panel.view.log_x
    actions["As a drawing, SVG…"].trigger()
    dialog = panel.findChild(QFileDialog)
    assert dialog is not None
    assert dialog.selectedFiles()[0].endswith("curves.svg")
    dialog.close()
    menu.close()


def test_pyqtgraph_shows_the_ranges_of_the_view_where_the_words_expect_them(panel: ConvergencePlots) -> None:
    for zoom in (None, 0.1):
        if zoom is not None:
            zoom_by(panel, zoom, 500.0)
        panel.grab()
        chart = panel.canvas.chart
        assert len(panel.canvas.lines.plots) == len(chart.frames) == 2
        for plot, frame, shown in zip(panel.canvas.lines.plots, chart.frames, chart.scene.plots, strict=True):
            x, y = plot.box.viewRange()
            assert x == pytest.approx([frame.x.low, frame.x.high])
            assert y == pytest.approx([shown.span.low, shown.span.high])
            assert plot.box.mapRectToScene(plot.box.rect()) == rect_of(frame.box)


def test_items_are_kept_from_frame_to_frame_and_go_with_their_run(panel: ConvergencePlots) -> None:
    def items() -> set[int]:
        return {id(item) for plot in panel.canvas.lines.plots for item in plot.box.childGroup.childItems()}

    panel.grab()
    before = items()
    give(panel, "2", 1000, 50)
    panel.grab()
    assert items() == before
    runs = panel.canvas.runs
    panel.set_runs(runs[:1])
    panel.grab()
    assert items() < before
    panel.set_runs(runs)
    panel.grab()
    assert len(items()) == len(before)


def test_a_crosshair_does_not_outlive_its_plots(panel: ConvergencePlots) -> None:
    QTest.keyClick(panel.canvas, Qt.Key.Key_Left)
    panel.canvas.set_plots([])
    assert readout(panel) is None
    panel.grab()


def test_small_and_large_panels_are_drawn(panel: ConvergencePlots) -> None:
    for width, height in ((360, 180), (620, 260), (1600, 900)):
        panel.resize(width, height)
        panel.canvas.redraw()
        frames = panel.canvas.chart.frames
        assert all(frame.box.width > 100 and frame.box.height > 20 for frame in frames)
        assert panel.canvas.chart.stack.area.bottom < height
    panel.canvas.set_plots([])
    assert panel.grab().toImage().pixelColor(10, 10).name().upper() == LIGHT.surface


def test_captions_lie_on_no_other_and_each_goal_is_on_its_own_line(empty: ConvergencePlots) -> None:
    goals = (*GOALS, Goal(id="more", text="91 %", metric="test_accuracy", op=">=", value=0.91))
    empty.canvas.set_plots(PLOTS, goals, METRICS)
    empty.set_runs((RunStyle("1", "1  SGD 0.5", 0, selected=True),))
    give(empty, "1", 0, 2000)
    for step in range(100, 2000, 60):
        history_of(empty, "1").feed(1, Live(name="learning_rate", value=0.005, step=step))
    empty.show_news({"1"})
    found = captions(empty.canvas.chart, 1)
    events = [one for one in found if one.text.startswith("Learning rate")]
    assert 3 <= len(events) < 30
    goals_shown = {one.text: one.box.middle for one in found if one not in events}
    chart = empty.canvas.chart
    lines = {text: chart.frames[1].row(at) for text, at in chart.goals(chart.scene.plots[1])}
    assert goals_shown == pytest.approx(lines)
    assert set(lines) == {"Goal 91.00 %", "Goal 90.79 %"}
    assert not any(a.box.overlaps(b.box) for a, b in combinations(found, 2))
    assert captions(empty.canvas.chart, 0) == []


def test_a_low_plot_has_the_labels_of_all_its_runs_beside_each_other(empty: ConvergencePlots) -> None:
    empty.resize(900, 190)
    runs = [RunStyle(str(number), f"{number}  SGD 0.{number}", number) for number in range(1, 7)]
    empty.set_runs(runs)
    for run in runs:
        give(empty, run.run_id, 0, 400)
    gutter = empty.canvas.chart.gutters[0]
    across = np.arange(gutter.box.x, gutter.box.right, 8)
    down = np.arange(gutter.box.y, gutter.box.bottom, 4)
    found = {gutter.run_at(float(x), float(y)) for x in across for y in down}
    assert found - {""} == {run.run_id for run in runs}


@pytest.mark.parametrize(("width", "valued"), [(900, False), (1700, True)])
def test_labels_beside_each_other_have_a_whole_dash_the_name_and_if_there_is_room_the_value(
    width: int, valued: bool, empty: ConvergencePlots, qtbot: QtBot
) -> None:
    empty.resize(width, 250)
    qtbot.waitUntil(lambda: width - 40 < empty.canvas.width() <= width)
    names = [f"{number}  SGD 0.{number}" + " and rather more words" * (4 if valued else 0) for number in range(1, 10)]
    runs = [RunStyle(str(number), name, number) for number, name in enumerate(names, 1)]
    empty.set_runs(runs)
    for run in runs:
        give(empty, run.run_id, 0, 400)
    chart = empty.canvas.chart
    drawing = Drawing(LIGHT, SIZES)
    chart.gutters[0].draw(drawing, "Loss", "")
    pieces = [one for one in drawing.items if isinstance(one, Line) and one.stroke is not None]
    assert {piece.stroke.dash for piece in pieces if piece.stroke} == {LIGHT.curve(run.index).dash for run in runs}
    assert all(np.ptp(piece.x) >= sum(piece.stroke.dash) for piece in pieces if piece.stroke)
    texts = [one.text for one in drawing.items if isinstance(one, Words)]
    assert all(any(text.startswith(f"{number}  SGD") for text in texts) for number in range(1, 10))
    assert chart.gutters[0].has_values == valued


def test_the_selected_run_fits_in_and_what_does_not_is_one_click_away(panel: ConvergencePlots) -> None:
    canvas, corner = panel.canvas, QToolButton()
    canvas.set_corner(corner)
    values = np.exp(np.linspace(0, 600, 400))
    panel.set_runs([RunStyle("1", "1  SGD", 0, selected=True), RunStyle("3", "3  SGD 9", 1)])
    give(panel, "1", 0, 400)
    give_loss(panel, "3", 0, values)
    canvas.redraw()
    assert not inside(panel, "3")
    assert corner.isVisibleTo(canvas)
    assert corner.y() >= canvas.chart.stack.area.bottom
    panel.set_runs([RunStyle("1", "1  SGD", 0), RunStyle("3", "3  SGD 9", 1, selected=True)])
    give_loss(panel, "3", 0, values)
    canvas.redraw()
    assert inside(panel, "3")
    assert not corner.isVisibleTo(canvas)


def inside(panel: ConvergencePlots, run: str) -> bool:
    """Whether all values of a run's loss are on its axis."""
    plot, curve = panel.canvas.scene.plots[0], curve_of(panel, run)
    return bool(((curve.y >= plot.span.low) & (curve.y <= plot.span.high)).all())


def test_the_read_out_keeps_off_the_curves_also_away_from_its_line(empty: ConvergencePlots) -> None:
    empty.set_runs([RunStyle(str(number), f"{number}  SGD", number) for number in range(8)])
    for number in range(8):
        history = history_of(empty, str(number))
        evaluate(history, "test_accuracy", np.arange(1000, 2000, 20), np.full(50, 0.1 + 0.1 * number))
        give_loss(empty, str(number), 1000, np.full(1000, 0.1 * 1.5**number))
    chart = empty.canvas.chart
    box = Crosshair().place(chart, chart.frames[0].column(1900), 200, 60)
    assert box is not None
    covered = box.covers(np.concatenate([chart.points_of(0), chart.points_of(1)]))
    assert covered == 0, "at the left, where no run has begun"


def test_where_a_curve_breaks_is_said(empty: ConvergencePlots) -> None:
    empty.set_runs((RunStyle("1", "1  SGD 0.5", 0, selected=True),))
    give(empty, "1", 0, 400)
    give_loss(empty, "1", 400, np.full(20, np.nan))
    assert "Diverged at step 400" in [one.text for one in captions(empty.canvas.chart, 0)]


def test_values_that_became_infinite_diverged_as_their_run_did(empty: ConvergencePlots) -> None:
    empty.set_runs((RunStyle("1", "1  SGD 0.5", 0, selected=True),))
    give(empty, "1", 0, 400)
    give_loss(empty, "1", 400, np.full(20, np.inf))
    assert "Diverged at step 400" in [one.text for one in captions(empty.canvas.chart, 0)]
    assert divergence("Loss", "inf", 400).startswith("Loss became infinite at step 400")
    empty.set_runs((RunStyle("2", "2  SGD 0.9", 1),))
    history_of(empty, "2").feed(1, Diverged(metric="loss", value="inf", step=212))
    empty.show_news({"2"})
    assert [event.text for event, _ in empty.canvas.scene.events] == ["Diverged at step 212"]


def test_an_empty_plot_says_whether_to_wait() -> None:
    assert empty_sentence([RunStyle("1", "1", 0, coming=True)]) == "The values are being read."
    waiting = RunStyle("a", "1  SGD", 0, live=True)
    ended = RunStyle("b", "2  SGD", 1, live=False)
    assert "appear here" in empty_sentence(())
    assert "appear here" in empty_sentence((waiting, ended))
    assert "ended before" in empty_sentence((ended,))


def drag(panel: ConvergencePlots, start: QPoint, end: QPoint) -> None:
    """Press, move in two strokes, let go."""
    ground = panel.canvas
    QTest.mousePress(ground, Qt.MouseButton.LeftButton, pos=start)
    for at in (start + (end - start) / 2, end):
        QTest.mouseMove(ground, at, 20)
    QTest.mouseRelease(ground, Qt.MouseButton.LeftButton, pos=end)


def test_a_box_zooms_into_steps_and_values_and_is_taken_back(panel: ConvergencePlots, qtbot: QtBot) -> None:
    frame = panel.canvas.chart.frames[0]
    corner = QPointF(frame.box.x, frame.box.y)
    start, end = corner + QPointF(100, 20), corner + QPointF(300, 90)
    before = [plot.span for plot in panel.canvas.scene.plots]
    drag(panel, start.toPoint(), end.toPoint())
    qtbot.waitUntil(lambda: panel.view.is_zoomed)
    panel.canvas.redraw()
    scene = panel.canvas.scene
    assert scene.grid.span.low == pytest.approx(frame.x_at(start.x()), rel=0.05)
    assert scene.grid.span.high == pytest.approx(frame.x_at(end.x()), rel=0.05)
    assert scene.plots[0].span.high == pytest.approx(frame.y_at(start.y()), abs=0.05)
    assert scene.plots[0].span.low == pytest.approx(frame.y_at(end.y()), abs=0.05)
    panel.reset_zoom()
    panel.canvas.redraw()
    assert [plot.span for plot in panel.canvas.scene.plots] == before


def test_all_of_y_shows_what_the_fitted_axis_leaves_out(panel: ConvergencePlots) -> None:
    give_loss(panel, "2", 1000, np.full(50, 1e30))
    panel.canvas.redraw()
    assert panel.canvas.scene.plots[0].span.high < 10
    panel.change(whole=True, y_zoom=())
    panel.canvas.redraw()
    assert panel.canvas.scene.plots[0].span.high > 20, "log10 of the smoothed values"


def test_the_read_out_leaves_out_runs_without_a_value(panel: ConvergencePlots) -> None:
    add(panel, RunStyle("3", "3  Failed", 2))
    panel.canvas.setFocus()
    QTest.keyClick(panel.canvas, Qt.Key.Key_Left)
    found = readout(panel)
    assert found is not None
    assert "3" not in [row.run.run_id for row in found.rows]


SCORES = (PlotSpec(id="scores", title="Scores", metrics=("f_score", "precision", "recall"), format="percent"),)
SCORE_METRICS = tuple(
    MetricSpec(name=name, label=f"Test {name}", per_step=False, better="higher", format="percent")
    for name in ("f_score", "precision", "recall")
)


def test_metrics_of_one_plot_have_marks_and_names_of_their_own(empty: ConvergencePlots) -> None:
    empty.canvas.set_plots(SCORES, (), SCORE_METRICS)
    empty.set_runs((RunStyle("1", "1  SGD 0.5", 0, selected=True),))
    for place, metric in enumerate(("f_score", "precision", "recall")):
        scores = np.linspace(0.2, 0.4 + 0.25 * place, 10)
        evaluate(history_of(empty, "1"), metric, np.arange(0, 1000, 100), scores)
    chart = empty.canvas.chart
    plot = chart.scene.plots[0]
    shapes = [plot.mark_of(metric) for metric in ("f_score", "precision", "recall")]
    assert shapes == ["dot", "square", "triangle"]
    assert key(plot) == "dots: Test f_score\nsquares: Test precision\ntriangles: Test recall"
    said = {one.text for one in captions(chart, 0)}
    assert {"Test f_score", "Test precision", "Test recall"} <= said
    drawing = Drawing(LIGHT, SIZES)
    chart.draw_words(drawing)
    drawn = [item.shape for item in drawing.items if isinstance(item, Marks) and item.x.size == 10]
    assert sorted(drawn) == ["dot", "square", "triangle"]


# --- Replay -----------------------------------------------------------------------------------------------------------


def step_shown(panel: ConvergencePlots) -> int | None:
    """The step at which the curves are shown as they were."""
    return panel.canvas.scene.until


def test_the_slider_shows_the_curves_as_they_were_and_follows_at_its_end(panel: ConvergencePlots, qtbot: QtBot) -> None:
    canvas, replay = panel.canvas, panel.replay
    assert replay.isVisible()
    assert (replay.chosen, replay.step.text()) == (None, "step 2,000")
    span = canvas.scene.plots[0].span
    replay.slider.setValue(replay.steps.index(max(step for step in replay.steps if step <= 500)))
    step = replay.chosen
    assert step is not None
    assert step_shown(panel) == step
    assert max(d.curve.x[-1] for plot in canvas.scene.plots for d in plot.curves) == step
    assert canvas.scene.plots[0].span == span
    qtbot.waitUntil(lambda: f"at step {step}" in canvas.accessibleDescription())

    give(panel, "2", 1000, 500)
    assert replay.chosen == step, "who looks back is not disturbed"
    assert step_shown(panel) == step
    replay.slider.setValue(replay.slider.maximum())
    assert step_shown(panel) is None
    give(panel, "2", 1500, 800)
    assert replay.step.text() == "step 2,300", "it follows, and counts as the run does"

    replay.slider.setValue(0)
    assert step_shown(panel) == replay.steps[0]
    panel.reset_zoom()
    assert step_shown(panel) is None
    assert replay.slider.value() == replay.slider.maximum()
    panel.resize(900, 250)
    qtbot.waitUntil(lambda: not replay.isVisible())


def test_the_handle_of_the_slider_is_below_the_step_that_is_shown(panel: ConvergencePlots, qtbot: QtBot) -> None:
    replay, frame = panel.replay, panel.canvas.chart.frames[0]
    qtbot.waitUntil(lambda: replay.slider.x() > 0)
    for part in (0.0, 0.5, 1.0):
        place = round(part * replay.slider.maximum())
        inside = (replay.slider.width() - 16) * place / replay.slider.maximum() + 8
        column = replay.slider.mapTo(panel, QPoint(round(inside), 0)).x()
        assert column == pytest.approx(frame.column(replay.steps[place]), abs=2)
    panel.change(log_x=True)
    assert replay.steps[1] - replay.steps[0] < replay.steps[-1] - replay.steps[-2], "not below a logarithmic axis"
    assert replay.slider.maximumWidth() > 10_000


def test_where_there_is_no_slider_the_curves_are_as_they_are_now(panel: ConvergencePlots, qtbot: QtBot) -> None:
    replay = panel.replay
    replay.go_to(137)
    give(panel, "2", 1000, 500)
    assert replay.step.text() == "step 137", "the curves' step, whatever the places are"
    assert "the value at step 137" in panel.canvas.scene.number_words
    panel.resize(900, 250)
    qtbot.waitUntil(lambda: not replay.isVisible())
    assert step_shown(panel) is None
    panel.resize(900, 400)
    qtbot.waitUntil(replay.isVisible)
    replay.go_to(137)
    panel.set_runs(())
    assert step_shown(panel) is None


def test_playing_goes_through_a_run_to_its_end(panel: ConvergencePlots, qtbot: QtBot) -> None:
    replay = panel.replay
    replay.play.timer.setInterval(1)
    seen: list[int | None] = []
    replay.moved.connect(seen.append)
    replay.play.click()
    qtbot.waitUntil(lambda: replay.play.text() == "Replay")
    assert seen[-1] is None
    passed = [step for step in seen if step is not None]
    assert passed == sorted(passed)
    assert len(passed) > 50
    assert passed[0] < 20
    assert step_shown(panel) is None
