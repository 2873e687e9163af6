"""Paints a timeline: a row for each device, a bar for each piece of work, and what the colours mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from clew_gui.plotting.axes.ticks import Span, Tick
from clew_gui.plotting.measured import MeasuredLine
from clew_gui.plotting.timeline import Bar, bars, busy_share, last_end
from clew_gui.views.plots.drawing.pixels import Frame
from clew_gui.views.theme.theme import Theme, contrast, font

FORWARD: Final = 0
BACKWARD: Final = 1
"""The colours of the bars, as numbers of curves."""
_SHARE: Final = 0.78
"""The part of a row's height that its bar takes."""
_KEY_ROW: Final = 15.0
_NAME: Final = 15.0
"""The pixels that a row's name needs."""
_WAIT: Final = 0.5


def spans(lines: Sequence[MeasuredLine]) -> tuple[Span, Span]:
    """Time from 0 to the end; a row at each whole number, the first one on top."""
    return Span(0.0, last_end(lines) or 1.0), Span(-0.5, max(len(lines), 1) - 0.5)


def rows(count: int) -> list[int]:
    """The y of each row."""
    return list(reversed(range(count)))


def row_ticks(lines: Sequence[MeasuredLine], height: float) -> tuple[Tick, ...]:
    """The name of each row, or of every second or third one if there is no room for all."""
    every = max(-int(-_NAME * len(lines) // max(height, 1.0)), 1)
    named = zip(rows(len(lines)), lines, strict=True)
    return tuple(Tick(float(y), line.name) for k, (y, line) in enumerate(named) if k % every == 0)


def index_of(bar: Bar) -> int:
    """The number of its colour."""
    return BACKWARD if bar.backward else FORWARD


def paint_bars(painter: QPainter, frame: Frame, lines: Sequence[MeasuredLine], theme: Theme) -> None:
    """Paints all rows; while a device waits, its row shows only a faint ground."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    high = frame.rect.height() / max(len(lines), 1)
    ground = QColor(theme.line)
    ground.setAlphaF(_WAIT)
    painter.setFont(font("caption"))
    numbered = _numbered(frame, lines, QFontMetricsF(painter.font()))
    for y, line in zip(rows(len(lines)), lines, strict=True):
        top = round(frame.row(y) - 0.5 * _SHARE * high)
        bottom = round(frame.row(y) + 0.5 * _SHARE * high)
        painter.fillRect(QRectF(frame.rect.left(), top, frame.rect.width(), bottom - top), ground)
        for bar in bars(line):
            left, right = round(frame.column(bar.start)), round(frame.column(bar.end))
            gap = 1 if right - left > 3 else 0
            box = QRectF(left, top, max(right - left - gap, 1), bottom - top)
            painter.fillRect(box, QColor(theme.curve(index_of(bar)).colour))
            if bar.backward in numbered:
                _paint_number(painter, box, bar, theme)


def _numbered(frame: Frame, lines: Sequence[MeasuredLine], metrics: QFontMetricsF) -> set[bool]:
    """The directions (backward or not) in which each bar has room for its number."""
    if metrics.capHeight() + 4 > _SHARE * frame.rect.height() / max(len(lines), 1):
        return set()
    narrow = {
        bar.backward
        for line in lines
        for bar in bars(line)
        if metrics.horizontalAdvance(str(bar.piece)) + 4 > frame.column(bar.end) - frame.column(bar.start)
    }
    return {False, True} - narrow


def _paint_number(painter: QPainter, box: QRectF, bar: Bar, theme: Theme) -> None:
    inks = (theme.surface, theme.text)
    colour = theme.curve(index_of(bar)).colour
    painter.setPen(QColor(max(inks, key=lambda ink: contrast(ink, colour))))
    painter.drawText(box.adjusted(0, -4, 0, 4), Qt.AlignmentFlag.AlignCenter, str(bar.piece))


def paint_key(painter: QPainter, room: QRectF, lines: Sequence[MeasuredLine], theme: Theme) -> None:
    """Paints the key below the title in the gutter: what the colours mean, and how much of the time all rows wait."""
    end = last_end(lines)
    wait = 1 - sum(busy_share(line, end) for line in lines) / max(len(lines), 1)
    entries = (
        (theme.curve(FORWARD).colour, "Forward", ""),
        (theme.curve(BACKWARD).colour, "Backward", ""),
        ("", "Bubble", f"{wait:.1%}".replace("%", " %")),
    )
    painter.setFont(font("caption"))
    y = room.top() + 14
    for colour, name, value in entries:
        if y + _KEY_ROW > room.bottom():
            return
        square = QRectF(room.left() + 16, y + 2.5, 10, 10)
        ground = QColor(colour or theme.line)
        ground.setAlphaF(1.0 if colour else _WAIT)
        painter.fillRect(square, ground)
        painter.setPen(QPen(QColor(theme.text2)))
        box = QRectF(room.left() + 32, y, room.width() - 34, _KEY_ROW)
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, value)
        y += _KEY_ROW
