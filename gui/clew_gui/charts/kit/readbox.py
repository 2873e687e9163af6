"""The box of a read-out: a heading, and a row of values for each line that is read out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from clew_gui.base.tokens import FontKind
from clew_gui.charts.kit.drawing import Drawing, Stroke, TextSizes, widest
from clew_gui.charts.kit.gutter import draw_swatch
from clew_gui.charts.kit.layout import Box

_ROW: Final = 17.0
_NAME: Final = 190.0
"""The largest width of a line's name."""


@dataclass(frozen=True)
class ReadRow:
    """One line's values. ``index`` gives the colour and the dash of the piece of line before its name; without one (-1)
    there is none."""

    index: int
    name: str
    values: tuple[str, ...]
    strong: bool = False

    @property
    def kind(self) -> FontKind:
        """The font of the row: bold for the run that stands out."""
        return "captionStrong" if self.strong else "caption"


@dataclass(frozen=True)
class ReadBox:
    """What a read-out says: ``columns`` are the heads over the values, ``omitted`` how many lines are left out."""

    heading: str
    rows: Sequence[ReadRow]
    columns: tuple[str, ...] = ("",)
    omitted: int = 0

    def size(self, sizes: TextSizes) -> tuple[float, float]:
        """Width and height in pixels."""
        names = 18 + self._names(sizes)
        head = sizes.width(self.heading, "captionStrong") + 10
        width = 10 + max(names, head) + sum(wide + 14 for wide in self._widths(sizes)) + 10
        return width, 10 + _ROW * (len(self.rows) + 1 + bool(self.omitted))

    def _names(self, sizes: TextSizes) -> float:
        return min(widest(sizes, [row.name for row in self.rows], "captionStrong"), _NAME)

    def _widths(self, sizes: TextSizes) -> list[float]:
        return [
            widest(sizes, [title, *(row.values[number] for row in self.rows)], "captionStrong")
            for number, title in enumerate(self.columns)
        ]

    def draw(self, drawing: Drawing, x: float, y: float) -> None:
        """Add the box with its left upper corner at this pixel."""
        theme, (width, height) = drawing.theme, self.size(drawing.sizes)
        draw_panel(drawing, Box(x, y, width, height))
        right, widths, middle = x + width - 10, self._widths(drawing.sizes), y + 5 + 0.5 * _ROW
        drawing.text(x + 10, middle, self.heading, theme.text, "captionStrong")
        _draw_values(drawing, right, middle, widths, self.columns, theme.text3, "caption")
        for row in self.rows:
            middle += _ROW
            if row.index >= 0:
                draw_swatch(drawing, x + 10, middle, row.index)
            ink = theme.text if row.strong else theme.text2
            drawing.text(x + 28, middle, row.name, ink, row.kind, room=self._names(drawing.sizes))
            _draw_values(drawing, right, middle, widths, row.values, theme.text, row.kind)
        if self.omitted:
            drawing.text(x + 28, middle + _ROW, f"and {self.omitted} more")


def draw_lines(
    drawing: Drawing, lines: Sequence[str], corner: Callable[[float, float], tuple[float, float]], index: int = -1
) -> None:
    """Adds a box with a heading and lines below it; ``corner`` says for its width and height where its left upper
    corner is. With an ``index`` the heading begins with the colour and the dash of that line."""
    kinds: list[FontKind] = ["captionStrong" if number == 0 else "caption" for number in range(len(lines))]
    indent = 22.0 if index >= 0 else 0.0
    width, height = max(map(drawing.width, lines, kinds)) + 20 + indent, 10 + _ROW * len(lines)
    left, top = corner(width, height)
    draw_panel(drawing, Box(left, top, width, height))
    middle = top + 5 + 0.5 * _ROW
    if index >= 0:
        draw_swatch(drawing, left + 10, middle, index, 14)
    for number, (text, kind) in enumerate(zip(lines, kinds, strict=True)):
        ink = drawing.theme.text if number == 0 else drawing.theme.text2
        drawing.text(left + 10 + indent, middle + _ROW * number, text, ink, kind)


def draw_panel(drawing: Drawing, box: Box) -> None:
    """Adds the ground of a read-out, with round corners."""
    theme = drawing.theme
    edge = Stroke(theme.border if theme.dark else theme.line)
    drawing.rect(Box(box.x + 0.5, box.y + 0.5, box.width, box.height), theme.surface, edge=edge, radius=7)


def _draw_values(
    drawing: Drawing,
    right: float,
    y: float,
    widths: Sequence[float],
    texts: Sequence[str],
    ink: str,
    kind: FontKind,
) -> None:
    for width, text in zip(reversed(widths), reversed(texts), strict=True):
        drawing.text(right, y, text, ink, kind, across="right")
        right -= width + 14
