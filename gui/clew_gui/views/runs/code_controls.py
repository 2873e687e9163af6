"""Moves a code by hand: a slider for each number, and the plane of the first two."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QSlider, QWidget

from clew_gui.charts.kit.drawing import Drawing, Stroke, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.numbers import value_text
from clew_gui.charts.pictures.page import PicturesChart
from clew_gui.charts.pictures.planes import ScatterPicture
from clew_gui.charts.pictures.taken import TakenPicture
from clew_gui.views.theme.parts import label

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
