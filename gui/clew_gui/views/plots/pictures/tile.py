"""One tile of the page of pictures: its title, what a form paints below it, and what is read out under the pointer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from clew_gui.plotting.pictures import TakenPicture
from clew_gui.views.theme.theme import Theme, contrast, font

TITLE: Final = 22.0
CENTRE = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter
TO_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
TO_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True, eq=False)
class Tile:
    """A picture, where it is painted, in which colours, and where its threshold is, if it has one."""

    taken: TakenPicture
    rect: QRectF
    theme: Theme
    threshold: float | None = None

    @property
    def room(self) -> QRectF:
        """The space below the title."""
        return self.rect.adjusted(0, TITLE, 0, 0)


class Painted(Protocol):
    """A form in a tile, laid out."""

    def paint(self, painter: QPainter) -> None:
        """Paint what is below the title."""

    def read(self, at: QPointF) -> str:
        """Describes what is under a pixel; empty for nothing."""

    def words(self) -> str:
        """The picture in words, for people who cannot see it."""


class Nothing:
    """A picture that was not taken yet."""

    def __init__(self, tile: Tile) -> None:
        self._tile = tile

    def paint(self, painter: QPainter) -> None:
        """Say so."""
        write(painter, self._tile.room, "Not taken yet", self._tile.theme.text3, CENTRE)

    def read(self, at: QPointF) -> str:
        """Returns an empty text."""
        del at
        return ""

    def words(self) -> str:
        """Says that the picture is not taken yet."""
        return "not taken yet"


def write(
    painter: QPainter, box: QRectF, text: str, ink: str, align: Qt.AlignmentFlag = TO_LEFT, strong: bool = False
) -> None:
    """A line of small text."""
    painter.setFont(font("captionStrong" if strong else "caption"))
    painter.setPen(QColor(ink))
    painter.drawText(box, align, text)


def elided(text: str, width: float, strong: bool = False) -> str:
    """The text, cut with an ellipsis if it is wider."""
    metrics = QFontMetricsF(font("captionStrong" if strong else "caption"))
    return metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)


def width_of(text: str, strong: bool = False) -> float:
    """Returns the width of a text in small type."""
    return QFontMetricsF(font("captionStrong" if strong else "caption")).horizontalAdvance(text)


def mixed(first: str, second: str, share: float) -> QColor:
    """A colour between two: ``share`` of the second."""
    one, two = QColor(first), QColor(second)
    pairs = ((one.red(), two.red()), (one.green(), two.green()), (one.blue(), two.blue()))
    return QColor(*(round((1 - share) * a + share * b) for a, b in pairs))


def ink_on(ground: QColor, theme: Theme) -> str:
    """The theme's ink that is best to read on a colour."""
    return max((theme.surface, theme.text), key=lambda ink: contrast(ink, ground.name()))
