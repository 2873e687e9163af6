"""The rows of a timeline of tasks: one for each device, a bar for each piece of work, and what the colours mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clew_gui.base.tokens import ink_on
from clew_gui.charts.drawing import Drawing
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.ticks import Span, Tick
from clew_gui.plotting.measured import MeasuredLine
from clew_gui.plotting.timeline import Bar, bars, busy_share, last_end

FORWARD: Final = 0
BACKWARD: Final = 1
"""The colours of the bars, as numbers of curves."""
_SHARE: Final = 0.78
"""The part of a row's height that its bar takes."""
_KEY_ROW: Final = 15.0
_NAME: Final = 12.0
"""The pixels that a row's name needs."""
_WAIT: Final = 0.5
_PIECES: Final = ("Forward", "Backward")


def task_spans(lines: Sequence[MeasuredLine]) -> tuple[Span, Span]:
    """Time from 0 to the end; a row at each whole number, the first one on top."""
    return Span(0.0, last_end(lines) or 1.0), Span(-0.5, max(len(lines), 1) - 0.5)


def row_ticks(lines: Sequence[MeasuredLine], height: float) -> tuple[Tick, ...]:
    """The name of each row, or of every second or third one if there is no room for all."""
    every = max(-int(-_NAME * len(lines) // max(height, 1.0)), 1)
    named = zip(_rows(len(lines)), lines, strict=True)
    return tuple(Tick(float(y), line.name) for k, (y, line) in enumerate(named) if k % every == 0)


def index_of(bar: Bar) -> int:
    """The number of its colour."""
    return BACKWARD if bar.backward else FORWARD


def draw_tasks(drawing: Drawing, frame: Frame, lines: Sequence[MeasuredLine], names: Sequence[str] = ()) -> None:
    """Draws all rows; while a device waits, its row shows only a faint ground. Bars that have ``names`` are no pieces
    with a number."""
    theme, high = drawing.theme, frame.box.height / max(len(lines), 1)
    numbered = set() if names else _numbered(drawing, frame, lines)
    for y, line in zip(_rows(len(lines)), lines, strict=True):
        top, bottom = (round(frame.row(y) + side * 0.5 * _SHARE * high) for side in (-1, 1))
        ground = Box(frame.box.x, top, frame.box.width, bottom - top)
        drawing.rect(ground, theme.line, _WAIT, smooth=False)
        for bar in bars(line):
            left, right = round(frame.column(bar.start)), round(frame.column(bar.end))
            gap = 1 if right - left > 3 else 0
            colour = theme.curve(index_of(bar)).colour
            box = Box(left, top, max(right - left - gap, 1), bottom - top)
            drawing.rect(box, colour, smooth=False)
            if bar.backward in numbered:
                drawing.text(box.across, box.middle, str(bar.piece), ink_on(colour, theme), across="middle")


def _rows(count: int) -> list[int]:
    """The y of each row."""
    return list(reversed(range(count)))


def _numbered(drawing: Drawing, frame: Frame, lines: Sequence[MeasuredLine]) -> set[bool]:
    """The directions (backward or not) in which each bar has room for its number."""
    if 0.73 * drawing.sizes.size() + 4 > _SHARE * frame.box.height / max(len(lines), 1):
        return set()
    narrow = {
        bar.backward
        for line in lines
        for bar in bars(line)
        if drawing.width(str(bar.piece)) + 4 > frame.column(bar.end) - frame.column(bar.start)
    }
    return {False, True} - narrow


def draw_task_key(drawing: Drawing, room: Box, lines: Sequence[MeasuredLine], names: Sequence[str] = ()) -> None:
    """Draws the key below the title in the gutter: what the colours mean, and how much of the time all rows wait."""
    theme, end = drawing.theme, last_end(lines)
    wait = 1 - sum(busy_share(line, end) for line in lines) / max(len(lines), 1)
    colours = theme.curve(FORWARD).colour, theme.curve(BACKWARD).colour
    entries = [(colour, 1.0, name, "") for colour, name in zip(colours, names or _PIECES, strict=False)]
    entries += [] if names else [(theme.line, _WAIT, "Bubble", f"{wait:.1%}".replace("%", " %"))]
    y = room.y + 14
    for colour, opacity, name, value in entries:
        if y + _KEY_ROW > room.bottom:
            return
        middle = y + 0.5 * _KEY_ROW
        drawing.rect(Box(room.x + 16, y + 2.5, 10, 10), colour, opacity, smooth=False)
        drawing.text(room.x + 32, middle, name, theme.text2)
        drawing.text(room.right - 2, middle, value, theme.text2, across="right")
        y += _KEY_ROW
