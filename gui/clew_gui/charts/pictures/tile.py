"""One tile of the page of pictures: its title, what a form draws below it, and what is read out under the pointer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from clew_gui.charts.kit.axes import draw_foot, draw_grid, value_room
from clew_gui.charts.kit.drawing import Drawing, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Span, Tick, whole_ticks
from clew_gui.charts.measured import axis_ticks
from clew_gui.charts.pictures.taken import TakenPicture

TITLE: Final = 22.0
FOOT: Final = 20.0


@dataclass(frozen=True, eq=False)
class Tile:
    """A picture, where it is drawn, and where its threshold is, if it has one."""

    taken: TakenPicture
    box: Box
    sizes: TextSizes
    threshold: float | None = None

    @property
    def room(self) -> Box:
        """The space below the title."""
        return self.box.inset(0, TITLE, 0, 0)


class Picture(Protocol):
    """A form of picture in a tile, laid out."""

    def draw(self, drawing: Drawing) -> None:
        """Add what is below the title."""

    def read(self, x: float, y: float) -> str:
        """Describes what is under a pixel; empty for nothing."""

    def description(self) -> str:
        """The picture in words, for people who cannot see it."""


class Blank:
    """A picture that cannot be shown, with the reason."""

    def __init__(self, tile: Tile, reason: str) -> None:
        self._room, self._reason = tile.room, reason

    def draw(self, drawing: Drawing) -> None:
        """Say why."""
        drawing.text(*self._room.centre, self._reason, across="middle", room=self._room.width)

    def read(self, x: float, y: float) -> str:
        """Returns an empty text."""
        del x, y
        return ""

    def description(self) -> str:
        """Says why there is no picture."""
        return f"{self._reason[:1].lower()}{self._reason[1:]}"


class PictureAxes:
    """The axes of a picture, with ticks left of them and below them. ``square``: as wide as high. ``counts``: on a
    linear y axis are whole numbers. ``foot``: there are numbers below, else another picture's below it are its own.
    ``apart`` are the pixels between two numbers of the y axis."""

    def __init__(
        self,
        room: Box,
        spans: tuple[Span, Span],
        sizes: TextSizes,
        logs: tuple[bool, bool] = (False, False),
        *,
        square: bool = False,
        counts: bool = False,
        foot: bool = True,
        apart: float = 36.0,
    ) -> None:
        self._foot = foot
        high = max(room.height - (FOOT if foot else 0.0) - 4, 20.0)
        ticks = axis_ticks(spans[1], max(int(high // apart), 2), logs[1], "")
        self._y_ticks = whole_ticks(ticks) if counts and not logs[1] else ticks
        left = value_room(sizes, self._y_ticks, 24.0)
        wide = max(room.width - left - 8, 20.0)
        if square:
            wide = high = min(wide, high)
        self.frame = Frame(Box(room.x + left, room.y + 4, wide, high), *spans)
        self._x_ticks: Sequence[Tick] = axis_ticks(spans[0], max(int(self.frame.box.width // 56), 2), logs[0], "")

    def draw(self, drawing: Drawing) -> None:
        """Add the grid, the numbers and the lower line."""
        draw_grid(drawing, self.frame, self._y_ticks)
        if self._foot:
            draw_foot(drawing, self.frame, self._x_ticks)
