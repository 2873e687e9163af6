"""The lines, numbers and names around the axes of a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clew_gui.charts.kit.drawing import Drawing, Stroke, TextSizes, widest
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Tick

LEFT: Final = 46.0
"""The least width left of the axes, so that charts below each other begin at the same place."""
FOOT: Final = 22.0
"""The height of the numbers below an x axis."""
_KEY: Final = 16.0
_LEAST_KEY: Final = 10.0


def value_room(sizes: TextSizes, ticks: Sequence[Tick], least: float = 0.0) -> float:
    """Pixels left of the axes for the numbers of the ticks."""
    return max(widest(sizes, [tick.text for tick in ticks]) + 12, least)


def draw_grid(drawing: Drawing, frame: Frame, ticks: Sequence[Tick], *, lines: bool = True) -> None:
    """Horizontal lines with their values left of them; without ``lines`` the values alone."""
    stroke, box = Stroke(drawing.theme.grid, crisp=True), frame.box
    for tick in ticks:
        row = round(frame.row(tick.at))
        if lines:
            drawing.line(box.x, row, box.right, row, stroke)
        drawing.text(box.x - 8, row, tick.text, across="right")


def draw_foot(drawing: Drawing, frame: Frame, ticks: Sequence[Tick], title: str = "") -> None:
    """The line at the bottom with its values, as far as they have room beside those before; the axis' name below."""
    box, stroke = frame.box, Stroke(drawing.theme.border, crisp=True)
    drawing.line(box.x, box.bottom, box.right, box.bottom, stroke)
    taken: list[tuple[float, float]] = []
    for tick in ticks:
        at, half = frame.column(tick.at), 0.5 * drawing.width(tick.text) + 4
        if all(at + half < low or at - half > high for low, high in taken):
            taken.append((at - half, at + half))
            drawing.line(at, box.bottom, at, box.bottom + 4, stroke)
            drawing.text(at, box.bottom + 6, tick.text, across="middle", down="top")
    if title:
        drawing.text(
            box.right, box.bottom + FOOT, title, drawing.theme.text2, "captionStrong", across="right", down="top"
        )


def draw_key(drawing: Drawing, room: Box, entries: Sequence[tuple[str, str]]) -> None:
    """Colours and their names from the top down, closer together if space is short. Of those without space it says how
    many they are."""
    high = max(min(_KEY, (room.height - 4) / max(len(entries), 1)), _LEAST_KEY)
    fit = int((room.height - 3.5) / high)
    for number, (colour, name) in enumerate(entries[:fit]):
        top = room.y + 4 + number * high
        if number == fit - 1 and fit < len(entries):
            drawing.text(room.x, top + 8, f"+ {len(entries) - number}", drawing.theme.text2, room=room.width)
            return
        drawing.rect(Box(room.x, top + 3, 10, 10), colour, smooth=False)
        drawing.text(room.x + 16, top + 8, name, drawing.theme.text2, room=room.width - 16)


def draw_level(drawing: Drawing, frame: Frame, at: float, words: str, colour: str, top: float) -> None:
    """A dotted upright at an x with its words beside it, at ``top`` pixels."""
    column, box = min(frame.column(at), frame.box.right), frame.box
    drawing.line(column, top, column, box.bottom, Stroke(colour, 1.2, (2.4, 3.6)))
    wide = drawing.width(words) + 4
    fits = column + 5 + wide < box.right
    drawing.text(column + 5 if fits else column - 4, top + 4, words, colour, across="left" if fits else "right")
