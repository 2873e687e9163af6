"""The window in which a trained run is tried: a digit is drawn or an image chosen, and what the network makes of it is
shown at once."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QSlider, QWidget

from clew_gui.base.image_file import read_image
from clew_gui.charts.kit.drawing import Drawing, Layout, Stroke, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import value_text
from clew_gui.charts.pictures.page import PicturesChart
from clew_gui.charts.pictures.planes import ScatterPicture
from clew_gui.charts.pictures.taken import TakenPicture, pixels
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.charts.painter import image_of, paint_ring
from clew_gui.views.theme.dialog import Dialog, ask_file
from clew_gui.views.theme.parts import Appearance, Button, ProgressBar, column, label, row, set_role
from clew_shared.base.number_words import quantity
from clew_shared.base.problem import ProblemError
from clew_shared.cards import PictureSpec
from clew_shared.journal.events import Image, Matrix
from clew_shared.wire.messages import Refused, Tried, TryRun

KINDS: Final = ("classes", "code")
"""What of exercises can be tried here (``ExerciseCard.tries``)."""
GRID: Final = 112
"""Pixels of a side of a drawing: four times those of MNIST, so that it can be made smaller smoothly."""
_PEN: Final = 10
"""Pixels of a stroke's width: two and a half of MNIST's."""
_LEFT: Final = 250
_FILES: Final = "Images (*.png *.jpg *.jpeg *.bmp *.gif *.pgm *.ppm *.tif *.tiff *.webp)"


class DrawingField(QWidget):
    """A black square on which one draws in white, or which shows an image."""

    drawn = Signal()
    """Emitted with each piece of a stroke, and when it was cleared."""
    stepped = Signal(int)
    """Asks for the test image so many places on (left and right arrow)."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self.image = QImage(GRID, GRID, QImage.Format.Format_Grayscale8)
        self.is_drawn, self.is_blank = False, True
        self._last: QPointF | None = None
        self.setAccessibleName("Drawing field")
        self.setToolTip("Draw with the mouse; Delete clears; Left and Right go through the test images")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._wipe()

    def sizeHint(self) -> QSize:
        """Returns the square's size."""
        return QSize(_LEFT, _LEFT)

    def clear(self) -> None:
        """Takes away what was drawn or shown."""
        self._wipe()
        self.drawn.emit()

    def show_image(self, image: QImage) -> None:
        """Shows an image; the next stroke begins on black again."""
        self.image, self.is_drawn, self.is_blank = image, False, False
        self.update()

    def _wipe(self) -> None:
        self.image = QImage(GRID, GRID, QImage.Format.Format_Grayscale8)
        self.image.fill(0)
        self.is_drawn, self.is_blank = False, True
        self.update()

    def draw_line(self, start: QPointF, end: QPointF) -> None:
        """Draws a piece of a stroke, in pixels of the widget."""
        if not self.is_drawn:
            self._wipe()
            self.is_drawn, self.is_blank = True, False
        scale = GRID / self.width()
        painter = QPainter(self.image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        round_ = Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin
        painter.setPen(QPen(QColor(255, 255, 255), _PEN, Qt.PenStyle.SolidLine, *round_))
        painter.drawLine(start * scale, end * scale + QPointF(0.01, 0))  # a click leaves a dot
        painter.end()
        self.update()
        self.drawn.emit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begins a stroke."""
        if event.button() is Qt.MouseButton.LeftButton:
            self._last = event.position()
            self.draw_line(self._last, self._last)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Goes on with it."""
        if self._last is not None:
            self.draw_line(self._last, event.position())
            self._last = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Ends it."""
        del event
        self._last = None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete and Backspace clear; the arrows go through the test images."""
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.clear()
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self.stepped.emit(1 if event.key() == Qt.Key.Key_Right else -1)
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paints the image as large as it fits, sharp where it has few pixels."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(0, 0, 0))
        size = QSize(self.image.size()).scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, self.is_drawn)
        left, top = (self.width() - size.width()) / 2, (self.height() - size.height()) / 2
        painter.drawImage(QRectF(left, top, size.width(), size.height()), self.image)
        if self.is_blank:
            painter.setPen(QColor(190, 190, 190))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, "Draw here with the mouse")
        if self.hasFocus():
            paint_ring(painter, self.rect(), self._appearance.theme.accent)
        painter.end()


class TryDialog(Dialog):
    """Asks a run about images. One question is on its way at a time; of what changes meanwhile the last counts."""

    asked = Signal(TryRun)

    def __init__(self, parent: QWidget, appearance: Appearance, run: str, title: str) -> None:
        super().__init__(parent, f"Try {title}")
        self._run = run
        self._waiting = False
        self._wanted = True
        """Whether the answer that is waited for is still to be shown: nothing was cleared since."""
        self._next: TryRun | None = None
        self.field = DrawingField(appearance)
        self.field.drawn.connect(self._changed)
        self.field.stepped.connect(self._step)
        self._sample = 0
        self.clear = Button(appearance, "Clear", "quiet", "cross", "Clear the drawing (Delete)")
        self.clear.clicked.connect(self.field.clear)
        self.sample = Button(appearance, "Test image", "", "reset", "A random test image of the data set")
        self.sample.clicked.connect(self.ask_sample)
        self.open_file = Button(appearance, "Open…", "", "folder", "Choose an image file")
        self.open_file.clicked.connect(self._choose)
        self.answer = label("", "title")
        self.about = label("The network of the run is being loaded…", "body", "2", wrap=True)
        self.loading = ProgressBar("Loading the network")
        self.loading.setRange(0, 0)  # nobody knows how long it takes
        self.shares = ChartView(appearance, "Probabilities", least=150)
        self.seen = ChartView(appearance, "What the network sees", least=150)
        self.sliders = CodeSliders()
        self.sliders.moved.connect(self._ask_code)
        self.plane = ChartView(appearance, "Plane of the code", grip=Qt.CursorShape.CrossCursor, least=150)
        self.plane.gripped.connect(lambda _grip, x, y: self._move_code(x, y))
        self.sliders.hide()
        self.plane.hide()
        self._code: tuple[float, ...] = ()
        self._image: TakenPicture | None = None
        """The last image that was asked, beside what is drawn from a code."""
        buttons = row(self.sample, self.open_file, self.clear, gap=6)
        said = self.answer, self.about, self.loading
        left = column(self.field, buttons, *said, self.shares, self.plane, self.sliders, gap=8)
        left.setStretchFactor(self.shares, 1)
        left.setStretchFactor(self.plane, 3)
        left.setStretchFactor(self.sliders, 1)
        for part in (self.shares, self.plane, self.sliders, self.about, self.loading):
            part.setFixedWidth(_LEFT + 30)
        both = row(gap=22)
        both.addLayout(left)
        both.addWidget(self.seen, 1)
        self.add(both, 1)
        self.finished.connect(lambda _: self.asked.emit(TryRun(run=run, close=True)))
        self.setMinimumWidth(760)
        self.resize(1040, 660)

    # --- Questions ----------------------------------------------------------------------------------------------------

    def ask_sample(self) -> None:
        """Ask for a random test image."""
        self._ask(TryRun(run=self._run, sample=random.getrandbits(31)))

    def _step(self, places: int) -> None:
        self._sample = max(0, self._sample + places)  # beyond the last one it begins again
        self._ask(TryRun(run=self._run, sample=self._sample))

    def _move_code(self, x: float, y: float) -> None:
        """Ask about the code at a place of the plane of its first two numbers."""
        self._code = (x, y, *self._code[2:])
        self._ask_code(self._code)

    def _ask_code(self, code: tuple[float, ...]) -> None:
        self._ask(TryRun(run=self._run, code=code))

    def open_image(self, path: Path) -> None:
        """Ask about the image in a file; one that is none is refused here."""
        try:
            request = read_image(self._run, path)
        except ProblemError as error:
            self.refuse(error.command_text())
            return
        size = request.width, request.height
        self.field.show_image(QImage(request.pixels, *size, 3 * size[0], QImage.Format.Format_RGB888).copy())
        self._ask(request)

    def _choose(self) -> None:
        ask_file(self, "Open an image", _FILES, self.open_image)

    def _changed(self) -> None:
        if self.field.is_drawn:
            drawn = _bytes(self.field.image)
            self._ask(TryRun(run=self._run, width=GRID, height=GRID, pixels=drawn, drawn=True))
        else:
            self._next, self._wanted = None, False
            self._say("", "Draw as large as you like, or open an image.")
            self.shares.show_chart(None)
            self.seen.show_chart(None)

    def _ask(self, request: TryRun) -> None:
        self._wanted = True
        if self._waiting:
            self._next = request
            return
        self._waiting = True
        self.asked.emit(request)

    # --- Answers ------------------------------------------------------------------------------------------------------

    def take(self, reply: Tried | Refused) -> None:
        """Show an answer, and ask what has come up meanwhile."""
        self._waiting = False
        self.loading.hide()
        waiting = self._next
        if isinstance(reply, Refused):
            self.refuse(reply.problem.command_text())
        elif self._wanted and (waiting is None or reply.sample < 0):
            self._show(reply)
        self._next = None
        if waiting is not None:
            self._ask(waiting)

    def refuse(self, sentence: str) -> None:
        """Say why there is no answer."""
        self._say("", sentence, "bad")

    def _show(self, tried: Tried) -> None:
        taken = [TakenPicture(one.spec, one.figure) for one in tried.pictures]
        image = next((one for one in taken if one.spec.id == "input"), None)
        self._sample = tried.sample if tried.sample >= 0 else self._sample
        if tried.sample >= 0 and image is not None and isinstance(image.figure, Image):
            self.field.show_image(image_of(pixels(image.figure)[0]))
        self.shares.setVisible(not tried.code)
        self.sliders.setVisible(bool(tried.code))
        if tried.code:
            taken = self._show_code(tried, taken, image)
        else:
            self._show_shares(tried)
        self.seen.show_chart(_page(taken, tried.step))

    def _show_code(self, tried: Tried, taken: list[TakenPicture], image: TakenPicture | None) -> list[TakenPicture]:
        """The code and how well it is drawn again; returns the pictures to show."""
        self._image = image or self._image
        plane = next((one for one in taken if one.spec.id == "plane"), None)
        self.plane.setVisible(plane is not None)
        if self._next is None:  # a person has moved on: nothing jumps back under the mouse
            self.sliders.show_code(tried.code, tried.ranges)
            self._code = tried.code
            self.plane.show_chart(partial(PlaneChart, plane, tried.code) if plane is not None else None)
        if self._image is None:  # codes are noise: there is no image to encode
            for part in (self.field, self.open_file, self.clear):
                part.hide()
            self.sample.set_words("Another code", "Draw from other noise")
        answer = ""
        if tried.error is not None:
            answer = f"Error {value_text(tried.error)}"
            if tried.threshold is not None:
                what = "Anomaly" if tried.error > tried.threshold else "Normal"
                answer = f"{what}, error {value_text(tried.error)}"
        about = f"Threshold {value_text(tried.threshold)}. " if tried.threshold is not None else ""
        source = self._about_sample(tried) if tried.error is not None else "Drawn from the code below. "
        self._say(answer, f"{source}{about}{self._about_step(tried)}")
        shown = [one for one in taken if one is not plane]
        return shown if image is not None or self._image is None else [self._image, *shown]

    def _about_sample(self, tried: Tried) -> str:
        if tried.label < 0:
            return ""
        name = tried.class_names[tried.label] if tried.class_names else str(tried.label)
        return f"Test image {tried.sample:,} of {tried.samples:,}: it is {name}. "

    def _about_step(self, tried: Tried) -> str:
        return f"By the checkpoint of step {tried.step:,}."

    def _show_shares(self, tried: Tried) -> None:
        names, best, shares = tried.names, tried.best, np.array(tried.probabilities)
        sure = quantity(tried.probabilities[best], "percent")
        tone = "2" if tried.label < 0 else "ok" if tried.label == best else "bad"
        self._say(f"{names[best]}, {sure}", self._about_sample(tried) + self._about_step(tried), tone)
        spec = PictureSpec(id="answer", title="Probabilities", form="shares", labels=names)
        figure = Matrix(name=spec.id, step=tried.step, rows=1, columns=len(names), data=shares.astype("<f8").tobytes())
        self.shares.show_chart(_page([TakenPicture(spec, figure)], tried.step))

    def _say(self, answer: str, about: str, tone: str = "2") -> None:
        self.answer.setText(answer)
        self.answer.setVisible(bool(answer))
        self.about.setText(about)
        set_role(self.about, tone, "tone")


def _page(taken: list[TakenPicture], step: int) -> Layout:
    return lambda box, sizes: PicturesChart(taken, box, sizes, step=step)


def _bytes(image: QImage) -> bytes:
    """The pixels of a grey image, without what fills up its rows."""
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    return rows[:, : image.width()].tobytes()


# --- Codes ------------------------------------------------------------------------------------------------------------


_FINE: Final = 200
"""Places of a slider."""
_MOST_SLIDERS: Final = 12
_SAME: Final = 1e-9


class CodeSliders(QWidget):
    """A slider for each number of a code, as far as there is room; the others stay."""

    moved = Signal(tuple)
    """The code after a person moved a slider."""

    def __init__(self) -> None:
        super().__init__()
        self._code: tuple[float, ...] = ()
        self._ranges: tuple[tuple[float, float], ...] = ()
        self.sliders: list[QSlider] = []
        self._values: list[QLabel] = []
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setVerticalSpacing(2)
        self._more = label("", "caption", "3", wrap=True)

    def show_code(self, code: tuple[float, ...], ranges: tuple[tuple[float, float], ...]) -> None:
        """Move the sliders to a code; ``ranges`` are their ends."""
        self._code, self._ranges = code, tuple(map(_apart, ranges))
        while len(self.sliders) < min(len(code), _MOST_SLIDERS):
            self._add(len(self.sliders))
        left = len(code) - len(self.sliders)
        self._more.setText(f"The other {left} numbers stay as they are." if left else "")
        for number, slider in enumerate(self.sliders):
            low, high = self._ranges[number]
            share = (code[number] - low) / (high - low)
            with QSignalBlocker(slider):
                slider.setValue(round(_FINE * min(max(share, 0.0), 1.0)))
            self._values[number].setText(value_text(code[number]))

    def _add(self, number: int) -> None:
        slider, value = QSlider(Qt.Orientation.Horizontal), label("", "caption", "2")
        slider.setRange(0, _FINE)
        slider.setAccessibleName(f"Number {number + 1} of the code")
        slider.valueChanged.connect(lambda place, number=number: self._moved(number, place))
        value.setFixedWidth(value.fontMetrics().horizontalAdvance("-0.0000"))
        self.sliders.append(slider)
        self._values.append(value)
        for place, item in enumerate((label(str(number + 1), "caption", "2"), slider, value)):
            self._grid.addWidget(item, number, place)
        self._grid.addWidget(self._more, number + 1, 0, 1, 3)
        self._grid.setRowStretch(number + 1, 0)
        self._grid.setRowStretch(number + 2, 1)

    def _moved(self, number: int, place: int) -> None:
        low, high = self._ranges[number]
        value = low + (high - low) * place / _FINE
        self._code = (*self._code[:number], value, *self._code[number + 1 :])
        self._values[number].setText(value_text(value))
        self.moved.emit(self._code)


def _apart(ends: tuple[float, float]) -> tuple[float, float]:
    """The ends of a slider; around a number that is always the same there is room to either side."""
    low, high = ends
    return (low, high) if high - low > _SAME * max(1.0, abs(low)) else (low - 1, high + 1)


class PlaneChart(PicturesChart):
    """The codes of test images, and where the code is that is decoded."""

    def __init__(self, taken: TakenPicture, code: tuple[float, ...], box: Box, sizes: TextSizes) -> None:
        figure = taken.figure
        super().__init__([taken], box, sizes, step=figure.step if figure is not None else None)
        self._code = code

    @property
    def frame(self) -> Frame | None:
        """The axes; None if it is no plane."""
        form = next(iter(self.forms), None)
        return form.axes.frame if isinstance(form, ScatterPicture) else None

    def draw(self, drawing: Drawing) -> None:
        """Add the codes, and a ring at this one."""
        super().draw(drawing)
        frame, theme = self.frame, drawing.theme
        if frame is not None:
            place = frame.at(self._code[0], self._code[1])
            drawing.marks([place[0]], [place[1]], theme.surface, 11.0, edge=Stroke(theme.text, 2.5))

    def grip_at(self, x: float, y: float) -> str:
        """The whole plane: a click moves the code there."""
        return "code" if self.frame is not None and self.frame.box.holds(x, y) else ""

    def value_at(self, grip: str, x: float, y: float) -> tuple[float, float] | None:
        """The first two numbers of the code at a pixel; None beside the plane."""
        return self.frame.place(x, y) if self.frame is not None and self.frame.box.holds(x, y) else None
