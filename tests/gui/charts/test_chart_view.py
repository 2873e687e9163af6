"""The widget of all charts: laid out for its size and the window's fonts, moved and read out by mouse and keys."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QFocusEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.kit.drawing import Chart, Drawing, Stroke, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Span
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.theme.parts import Appearance


class Ruler(Chart):
    """The numbers from 0 to 100 along x, of which every tenth is read out; ``seen`` is what is in sight."""

    draws_reading = True
    painted = 0

    def __init__(self, seen: Span, box: Box, sizes: TextSizes) -> None:
        self.frame, self.wide = Frame(box, seen, Span(0, 1)), sizes.width("Worker 1")
        self.along, self.whole = (self.frame, Span(0, 100)), Frame(box, Span(0, 100), Span(0, 1))

    def draw(self, drawing: Drawing) -> None:
        """Add a line."""
        Ruler.painted += 1
        drawing.line(0, 5, self.frame.box.right, 5, Stroke("#000000"))

    def draw_lifted(self, drawing: Drawing, name: str) -> None:
        """Add the name."""
        drawing.text(40, 40, name)

    def draw_reading(self, drawing: Drawing, x: float, y: float) -> None:
        """Add the number."""
        drawing.text(x, y, self.read(x, y))

    def read(self, x: float, y: float) -> str:
        """The number at a pixel."""
        return f"{self.frame.x_at(x):.0f}"

    def words(self) -> str:
        """What is in sight."""
        return f"{self.frame.x.low:.0f} to {self.frame.x.high:.0f}"

    def places(self) -> list[tuple[float, float]]:
        """Every tenth number."""
        return [(self.frame.column(float(x)), 50.0) for x in range(0, 101, 10)]

    def pick(self, x: float, y: float) -> str:
        """The upper left corner."""
        return "corner" if x < 10 and y < 10 else ""

    def grip_at(self, x: float, y: float) -> str:
        """The upper right corner."""
        return "grip" if x > self.frame.box.right - 10 and y < 10 else ""

    def value_at(self, grip: str, x: float, y: float) -> tuple[float, float] | None:
        """The place."""
        return self.frame.place(x, y)


NO_KEY = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def view(qtbot: QtBot) -> ChartView:
    view = ChartView(Appearance(LIGHT), "Ruler", keys=True)
    qtbot.addWidget(view)
    view.resize(400, 100)
    show(view, Span(0, 100))
    view.zoomed.connect(lambda frame: show(view, frame.x))
    view.show()
    return view


def show(view: ChartView, seen: Span) -> None:
    view.show_chart(lambda *room: Ruler(seen, *room))


def seen(view: ChartView) -> tuple[float, float]:
    assert isinstance(view.chart, Ruler)
    return view.chart.frame.x.low, view.chart.frame.x.high


def wheel(
    view: ChartView, at: QPoint, turn: QPoint, keys: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> bool:
    """Turn the wheel; whether it was taken."""
    where, none = QPointF(view.mapToGlobal(at)), Qt.MouseButton.NoButton
    event = QWheelEvent(QPointF(at), where, QPoint(), turn, none, keys, Qt.ScrollPhase.NoScrollPhase, False)
    QApplication.sendEvent(view, event)
    return event.isAccepted()


def test_a_chart_is_laid_out_again_when_its_room_or_the_size_of_text_changes(view: ChartView) -> None:
    charts = [view.chart]
    view.resize(600, 100)
    charts.append(view.chart)
    usual = QApplication.font()
    larger = QApplication.font()
    larger.setPointSizeF(2 * usual.pointSizeF())
    try:
        QApplication.setFont(larger)
        QApplication.processEvents()
        charts.append(view.chart)
    finally:
        QApplication.setFont(usual)
    rooms, wides = zip(*((one.frame.box.width, one.wide) for one in charts if isinstance(one, Ruler)), strict=True)
    assert rooms == (400, 600, 600)
    assert wides[0] == wides[1]
    assert wides[2] > 1.5 * wides[1]


def test_the_wheel_zooms_around_the_pointer_and_a_sideways_one_moves(view: ChartView) -> None:
    assert wheel(view, QPoint(100, 50), QPoint(0, 120))
    assert seen(view) == pytest.approx((5, 85)), "25 stays where it is"
    assert wheel(view, QPoint(100, 50), QPoint(40, 0))
    assert seen(view) == pytest.approx((0, 80)), "at most to the end"
    page = ChartView(Appearance(LIGHT), "Ruler", control=True)
    show(page, Span(0, 100))
    assert not wheel(page, QPoint(9, 9), QPoint(0, 120)), "it scrolls the page"
    assert wheel(page, QPoint(9, 9), QPoint(0, 120), Qt.KeyboardModifier.ControlModifier)


def test_a_drag_moves_what_is_seen(view: ChartView) -> None:
    show(view, Span(40, 60))
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(200, 50))
    for x in (260, 300):
        QTest.mouseMove(view, QPoint(x, 50))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(300, 50))
    assert seen(view) == pytest.approx((35, 55))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (Qt.Key.Key_Plus, (42, 58)),
        (Qt.Key.Key_Equal, (42, 58)),
        (Qt.Key.Key_Minus, (37.5, 62.5)),
        (Qt.Key.Key_PageUp, (30, 50)),
        (Qt.Key.Key_PageDown, (50, 70)),
        (Qt.Key.Key_Home, (0, 100)),
    ],
)
def test_keys_zoom_and_move(view: ChartView, key: Qt.Key, expected: tuple[float, float]) -> None:
    show(view, Span(40, 60))
    QTest.keyClick(view, key)
    assert seen(view) == pytest.approx(expected)


def test_arrow_keys_read_out_place_by_place_until_the_keyboard_goes(view: ChartView) -> None:
    said = []
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Left):
        QTest.keyClick(view, key)
        said.append(view.accessibleDescription())
    QTest.keyClick(view, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert [*said, view.accessibleDescription()] == ["0", "10", "0", "0", "100"]
    QTest.mouseMove(view, QPoint(200, 50))
    QTest.keyClick(view, Qt.Key.Key_Left)
    assert view.accessibleDescription() == "40", "from where the pointer is"
    QTest.keyClick(view, Qt.Key.Key_Escape)
    assert view.reading is None
    QTest.keyClick(view, Qt.Key.Key_Left)
    QApplication.sendEvent(view, QFocusEvent(QEvent.Type.FocusOut))
    assert view.reading is None


def test_what_is_under_the_pointer_is_read_out_and_stands_out_over_a_kept_ground(view: ChartView, qtbot: QtBot) -> None:
    plain, painted = view.grab().toImage(), Ruler.painted
    QTest.mouseMove(view, QPoint(210, 60))
    read = view.grab().toImage()
    with qtbot.waitSignal(view.pointed) as pointed:
        QTest.mouseMove(view, QPoint(5, 5))
    lifted = view.grab().toImage()
    assert pointed.args == ["corner"]
    assert view.cursor().shape() is Qt.CursorShape.PointingHandCursor
    with qtbot.waitSignal(view.picked) as picked:
        QTest.mouseClick(view, Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    assert picked.args == ["corner"]
    QApplication.sendEvent(view, QEvent(QEvent.Type.Leave))
    assert plain == view.grab().toImage()
    assert plain not in (read, lifted)
    assert Ruler.painted == painted


def test_a_grip_is_dragged_beyond_its_place(view: ChartView) -> None:
    dragged: list[tuple[str, float, float]] = []
    view.gripped.connect(lambda *told: dragged.append(told))
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(395, 5))
    QTest.mouseMove(view, QPoint(100, 50))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(100, 50))
    QTest.mouseMove(view, QPoint(200, 50))
    assert dragged == [("grip", 98.75, 0.95), ("grip", 25.0, 0.5)]
    assert seen(view) == (0, 100)


def test_a_chart_that_changes_is_drawn_with_the_next_frame_and_never_unseen(view: ChartView, qtbot: QtBot) -> None:
    painted = [Ruler.painted]
    view.touch()
    qtbot.waitUntil(lambda: view.settled and Ruler.painted > painted[0])
    view.hide()
    painted = [Ruler.painted]
    view.touch()
    assert view.settled
    view.show()
    qtbot.waitUntil(lambda: Ruler.painted > painted[0])
