"""The chart of the Compare tab as a widget: what is under the pointer stands out, and can be chosen."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from clew_gui.charts.chart import drawn
from clew_gui.charts.compare import CompareChart, Form
from clew_gui.charts.drawing import Drawing
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.compare import CompareScene
from clew_gui.views.charts.painter import SIZES, paint, pixmap_of
from clew_gui.views.theme.parts import Appearance


class CompareCanvas(QWidget):
    """The chart of a scene. It is painted once; what stands out under the pointer lies over it."""

    group_chosen = Signal(int)
    pointed = Signal(int)
    """The group under the pointer, -1 for none."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self.scene: CompareScene | None = None
        self.form: Form = "curves"
        self._lifted = -1
        self._chart: CompareChart | None = None
        self._pixels: QPixmap | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumHeight(170)
        self.setMouseTracking(True)
        self.setAccessibleName("Comparison")

    def show_scene(self, scene: CompareScene, form: Form) -> None:
        """Show another picture."""
        self.scene, self.form, self._lifted = scene, form, -1
        self._lay_out()
        self.setAccessibleDescription(self._chart.words() if self._chart is not None else "")

    def lift(self, number: int) -> None:
        """Let a group stand out; -1 for none."""
        if number != self._lifted:
            self._lifted = number
            self.update()

    def retheme(self) -> None:
        """Paint again."""
        self._pixels = None
        self.update()

    def _lay_out(self) -> None:
        room = Box(0, 0, self.width(), self.height())
        self._chart = CompareChart(self.scene, self.form, room, SIZES) if self.scene is not None else None
        self.retheme()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Draws the picture again in the new size."""
        super().resizeEvent(event)
        self._lay_out()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paints the kept picture, and the group that stands out."""
        if self.scene is None or self._chart is None:
            return
        theme = self._appearance.theme
        if self._pixels is None:  # hundreds of lines are not painted again while the pointer moves
            self._pixels = pixmap_of(self, drawn(self._chart, theme, SIZES))
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._pixels)
        if 0 <= self._lifted < len(self.scene.groups):
            drawing = Drawing(theme, SIZES)
            self._chart.draw_lifted(drawing, self._lifted)
            paint(painter, drawing.items)
        painter.end()

    @property
    def chart(self) -> CompareChart | None:
        """The chart as it is shown."""
        return self._chart

    def nearest(self, at: QPointF) -> int:
        """The group at a pixel; -1 for none."""
        chart = self.chart
        return chart.nearest(at.x(), at.y()) if chart is not None else -1

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Lift what is under the pointer."""
        found = self.nearest(event.position())
        self.lift(found)
        self.pointed.emit(found)

    def leaveEvent(self, event: QEvent) -> None:
        """Lets no group stand out any more."""
        super().leaveEvent(event)
        self.lift(-1)
        self.pointed.emit(-1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the group under the pointer."""
        found = self.nearest(event.position())
        if event.button() == Qt.MouseButton.LeftButton and found >= 0:
            self.group_chosen.emit(found)
