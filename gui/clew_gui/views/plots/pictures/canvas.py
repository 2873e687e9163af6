"""The widget that shows the pictures of one run at one step: read out by mouse, thresholds moved by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QWidget

from clew_gui.charts.chart import drawn
from clew_gui.charts.drawing import Drawing
from clew_gui.charts.pictures.histogram import HistogramPicture
from clew_gui.charts.pictures.page import Beside, PicturesChart
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.pictures import TakenPicture, steps_of, taken_at
from clew_gui.views.charts.painter import SIZES, paint, pixmap_of
from clew_gui.views.plots.drawn_widget import DrawnWidget
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import PictureSpec
from clew_shared.journal.events import Histogram

_KEYS: Final = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}


class PicturesCanvas(DrawnWidget):
    """Shows the selected run's pictures, or those of the last run that has any, as they were at ``step`` (None: at the
    end, also when more are taken); beside them those of another run, if one is chosen."""

    steps_changed = Signal()
    """Emitted when another run is shown, or it took more pictures."""
    walked = Signal(int)
    """Asks to go so many pictures forward (left and right arrow)."""
    threshold_moved = Signal(str, float)

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__("Pictures", appearance, parent)
        self._specs: tuple[PictureSpec, ...] = ()
        self._drawn: object = None
        """The pictures that there were when a frame was asked for."""
        self._large = ""
        self._read: QPointF | None = None
        self._gripped: int | None = None
        self._other = ""
        self._kept: tuple[QSize, PicturesChart] | None = None
        self._pixels: tuple[PicturesChart, float, QPixmap] | None = None
        """The layout as pixels, with the widget's ratio of pixels to logical ones."""
        self.step: int | None = None
        self._moved: dict[str, float] = {}
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    # ------------------------------------------------------------ what is shown
    def set_specs(self, specs: Sequence[PictureSpec]) -> None:
        """The pictures of a card, with their thresholds where the exercise has them."""
        self._specs = tuple(specs)
        self._large = ""
        self.step = None
        self.reset_thresholds()

    def reset_thresholds(self) -> None:
        """Resets the thresholds to the run's own."""
        self._moved.clear()
        self._change()

    @property
    def thresholds(self) -> dict[str, float]:
        """Returns the threshold of each histogram: moved by hand, else the run's own at the step that is shown, else
        the exercise's."""
        return self._thresholds(self.taken)

    def _thresholds(self, taken: Sequence[TakenPicture]) -> dict[str, float]:
        usual = {spec.id: spec.threshold for spec in self._specs if spec.threshold is not None}
        shown = (one.figure for one in taken)
        own = {one.name: one.threshold for one in shown if isinstance(one, Histogram) and one.threshold is not None}
        return usual | own | self._moved

    def touch(self) -> None:
        """Asks for a new frame if the runs are others or have taken more pictures."""
        taken = [[(len(known), known[-1]) for known in run.history.figures.values()] for run in self._runs]
        if (self._runs, taken) != self._drawn:
            self._drawn = self._runs, taken
            super().touch()

    @property
    def run(self) -> RunStyle | None:
        """The run whose pictures are shown."""
        there = [run for run in self._runs if run.history.figures]
        selected = [run for run in self._runs if run.selected]
        return next(iter([run for run in there if run.selected] or there[-1:] or selected), None)

    @property
    def steps(self) -> list[int]:
        """The steps at which the shown run took pictures."""
        run = self.run
        return steps_of(self._specs, run.history.figures) if run is not None else []

    @property
    def taken(self) -> tuple[TakenPicture, ...]:
        """The pictures that are shown; one alone when it was made large."""
        return self._taken_of(self.run)

    def _taken_of(self, run: RunStyle | None) -> tuple[TakenPicture, ...]:
        found = taken_at(self._specs, run.history.figures if run is not None else {}, self.step)
        return tuple(one for one in found if self._large in ("", one.spec.id))

    @property
    def others(self) -> list[RunStyle]:
        """The shown runs that took pictures as well."""
        return [run for run in self._runs if run.history.figures and run is not self.run]

    @property
    def other(self) -> RunStyle | None:
        """The run whose pictures are beside those of the first one."""
        return next((run for run in self.others if run.run_id == self._other), None)

    def set_other(self, run: str) -> None:
        """Show the pictures of this run as well; of none for an empty id."""
        if run != self._other:
            self._other = run
            self._change()

    def set_step(self, step: int | None) -> None:
        """Show the pictures as they were at ``step``; None: the latest ones."""
        if step != self.step:
            self.step = step
            self._change()

    def set_threshold(self, picture: str, value: float) -> None:
        """Move the threshold of a histogram."""
        if self.thresholds.get(picture) != value:
            self._moved[picture] = value
            self.threshold_moved.emit(picture, value)
            self._change()

    def enlarge(self, picture: str) -> None:
        """Show one picture alone; all of them for an empty name."""
        if picture != self._large:
            self._large = picture
            self._change()

    def retheme(self) -> None:
        """Change the colours."""
        self._kept = None
        super().retheme()

    def _change(self) -> None:
        self._kept = None
        self._redraw()

    def _advance(self) -> None:
        self._timer.stop()
        self._kept = None
        self.steps_changed.emit()
        self._describe(self.chart().words())
        self.update()

    def chart(self, size: QSize | None = None) -> PicturesChart:
        """The pictures in ``size`` for a file; by default in the widget's own, where the slider says the step."""
        room, taken = size or self.size(), self.taken
        latest = max((one.figure.step for one in taken if one.figure is not None), default=None)
        shown_step = None if size is not None else latest
        run, other, beside = self.run, self.other, None
        if run is not None and other is not None:
            pictures = self._taken_of(other)
            beside = Beside((run.label, other.label), pictures, self._thresholds(pictures))
        box = Box(0, 0, room.width(), room.height())
        return PicturesChart(taken, box, SIZES, self.thresholds, shown_step, beside)

    # ------------------------------------------------------------ painting
    def paintEvent(self, event: QPaintEvent) -> None:
        """The pictures. While only the pointer moves they are neither laid out nor painted again."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        shown, ratio = self.shown, self.devicePixelRatioF()
        if self._pixels is None or self._pixels[:2] != (shown, ratio):
            self._pixels = shown, ratio, pixmap_of(self, drawn(shown, self._theme, SIZES))
        painter.drawPixmap(0, 0, self._pixels[2])
        if self._read is not None:
            drawing = Drawing(self._theme, SIZES)
            shown.draw_reading(drawing, self._read.x(), self._read.y())
            paint(painter, drawing.items)
        self._paint_ring(painter)
        painter.end()

    @property
    def shown(self) -> PicturesChart:
        """The layout that is on the screen."""
        if self._kept is None or self._kept[0] != self.size():
            self._kept = self.size(), self.chart()
        return self._kept[1]

    # ------------------------------------------------------------ mouse and keys
    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of a threshold."""
        at = event.position()
        number = self.shown.grip_at(at.x(), at.y())
        if event.button() is Qt.MouseButton.LeftButton and number:
            self._gripped = int(number)
        else:
            super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the threshold, or read out what is under the pointer."""
        if self._gripped is not None:
            self._drag(self._gripped, event.position().x())
            return
        at = event.position()
        grip = self.shown.grip_at(at.x(), at.y())
        self.setCursor(Qt.CursorShape.SizeHorCursor) if grip else self.unsetCursor()
        self._read = at
        self.update()

    def _drag(self, number: int, column: float) -> None:
        form = self.shown.forms[number] if number < len(self.shown.forms) else None  # others since the press
        if isinstance(form, HistogramPicture):
            self.set_threshold(self.shown.taken[number].spec.id, form.value_at(column))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the drag of a threshold."""
        super().mouseReleaseEvent(event)
        self._gripped = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Show one picture alone, or all of them again."""
        at = event.position()
        if event.button() is Qt.MouseButton.LeftButton:
            self.enlarge("" if self._large else self.shown.tile_at(at.x(), at.y()))

    def leaveEvent(self, event: QEvent) -> None:
        """Take the read-out away."""
        super().leaveEvent(event)
        self._read = None
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Goes through the steps with Left and Right; Escape shows all pictures again."""
        if Qt.Key(event.key()) in _KEYS:
            self.walked.emit(_KEYS[Qt.Key(event.key())])
        elif event.key() == Qt.Key.Key_Escape and self._large:
            self.enlarge("")
        else:
            super().keyPressEvent(event)
