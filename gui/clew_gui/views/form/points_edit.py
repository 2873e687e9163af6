"""The field for points in a plane: a square to click them into, and their text below it."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QWidget

from clew_gui.base.tokens import DARK, LIGHT
from clew_gui.views.theme.parts import column
from clew_shared.params import MOST_POINTS, ParamSpec, PlanePoint, Value, format_value, points_text, read_points

_SIDE: Final = 150
_EDGE: Final = 5.0
_DOT: Final = 4.0
_NEAR: Final = 7.0
"""A click within so many pixels of a point removes it."""
_FADED: Final = 0.4
"""How much is seen of the points that were there before the text became one that cannot be read."""


class _Square(QWidget):
    """The plane from -1 to 1. The left button sets a point of class 0, the right one of class 1."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.points: tuple[PlanePoint, ...] = ()
        self.setFixedSize(_SIDE, _SIDE)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)

    def at(self, x: float, y: float) -> QPointF:
        """The pixel of a point."""
        half = 0.5 * _SIDE - _EDGE
        return QPointF(_EDGE + half * (1 + x), _EDGE + half * (1 - y))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Remove the point under the pointer, or set one."""
        at, half = event.position(), 0.5 * _SIDE - _EDGE
        kept = tuple(one for one in self.points if (self.at(*one[:2]) - at).manhattanLength() > _NEAR)
        if len(kept) == len(self.points) and len(kept) < MOST_POINTS:
            x, y = (min(max(one, -1.0), 1.0) for one in ((at.x() - _EDGE) / half - 1, 1 - (at.y() - _EDGE) / half))
            kind = 0 if event.button() is Qt.MouseButton.LeftButton else 1
            kept = (*kept, (round(x, 2), round(y, 2), kind))
        self.points = kept
        self.changed.emit()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The axes and the points, in the colours that classes have in pictures."""
        del event
        ground = self.palette().color(QPalette.ColorRole.Base)
        theme = DARK if ground.lightnessF() < 0.5 else LIGHT
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(theme.border))
        painter.setBrush(QColor(theme.surface))
        painter.setOpacity(1.0 if self.isEnabled() else _FADED)
        painter.drawRoundedRect(QRectF(0.5, 0.5, _SIDE - 1, _SIDE - 1), 6, 6)
        painter.setPen(QColor(theme.grid))
        painter.drawLine(self.at(-1, 0), self.at(1, 0))
        painter.drawLine(self.at(0, -1), self.at(0, 1))
        painter.setPen(Qt.PenStyle.NoPen)
        for x, y, kind in self.points:
            painter.setBrush(QColor(theme.class_colour(kind)))
            painter.drawEllipse(self.at(x, y), _DOT, _DOT)
        painter.end()


class PointsEdit(QWidget):
    """The square, and the same points as text, for the keyboard."""

    edited = Signal()

    def __init__(self, spec: ParamSpec) -> None:
        super().__init__()
        self.square, self.text = _Square(), QLineEdit()
        self.square.setToolTip(spec.help)
        self.text.setAccessibleName(f"{spec.label} as text")
        self.text.setPlaceholderText("0.5,-0.2,1 …")
        self.text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        column(self.square, self.text, gap=4, parent=self)
        self.setFocusProxy(self.text)
        self.square.changed.connect(self._clicked)
        self.text.textChanged.connect(self._typed)

    def raw(self) -> object:
        """The text."""
        return self.text.text()

    def set_value(self, value: Value) -> None:
        """Show these points."""
        self.text.setText(format_value(value))
        self.text.setCursorPosition(0)

    def widget(self) -> QWidget:
        """Returns the field itself."""
        return self

    def _clicked(self) -> None:
        with QSignalBlocker(self.text):
            self.text.setText(points_text(self.square.points))
        self.edited.emit()

    def _typed(self) -> None:
        try:
            self.square.points = read_points(self.text.text())
            self.square.setEnabled(True)
        except ValueError:  # half typed; the form says what is wrong, and a click must not write over it
            self.square.setEnabled(False)
        self.square.update()
        self.edited.emit()
