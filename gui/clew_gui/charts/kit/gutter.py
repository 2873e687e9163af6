"""The gutter right of a plot: each run's name and last value at the height of its end. It replaces the legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from clew_gui.base.tokens import FontKind
from clew_gui.charts.curves.model import RunStyle
from clew_gui.charts.curves.readout import prominent
from clew_gui.charts.kit.drawing import Drawing, Stroke, TextSizes, widest
from clew_gui.charts.kit.layout import Box, spread

ROW: Final = 17.0
DENSE: Final = 12.5
"""The least height of a label's row, where many runs are shown."""
KEY_ROW: Final = 16
CELL: Final = 92.0
"""The least width of a label without a value; several such labels are side by side in a low plot."""
_NAME: Final = 76.0
_VALUE: Final = 66.0
"""The room that a name and a value need in such a label."""
_LEADER: Final = 16.0
_SWATCH: Final = 20.0
"""The length of a line's piece: that of a dash and its gap, which tell apart runs of the same colour."""


@dataclass(frozen=True)
class Label:
    """One run at the height ``at`` of its curve's end; not ``seen`` when that lies outside the plot."""

    run: RunStyle
    at: float
    value: str
    strong: bool
    seen: bool = True
    bad: bool = False

    @property
    def kind(self) -> FontKind:
        """The font of a label: bold for the run that stands out."""
        return "captionStrong" if self.strong else "caption"


def gutter_width(width: float) -> float:
    """Room for names and last values right of plots in a picture of this width."""
    return 212.0 if width >= 860 else 204.0 if width >= 620 else 168.0


def gutter_for(runs: Sequence[RunStyle], width: float, sizes: TextSizes) -> float:
    """Room right of plots of this ``width`` in which the names of the runs are whole, as far as it leaves enough for
    the curves."""
    names = widest(sizes, [run.label for run in runs], "captionStrong")
    needed = names + sizes.width("-0.0000 %", "captionStrong") + _LEADER + 12
    return max(gutter_width(width), min(needed, 0.4 * width))


class Gutter:
    """Places and draws the labels of one plot: one below the other, or in columns where the plot is too low for
    that."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.placed: list[tuple[Label, float]] = []
        """The labels, and at which height each is."""
        self._cells: list[tuple[Label, Box]] = []
        self._omitted = 0
        self._row = ROW

    def place(self, labels: Sequence[Label], key: str = "") -> None:
        """Push the labels apart. If not all fit, the runs that stand out stay and the others are counted. The lines of
        the ``key`` go below the title if all labels still fit."""
        room = self.box.height - 24
        self._row = ROW if len(labels) * ROW <= room else max(DENSE, room / max(len(labels), 1))
        fit = max(int(room // self._row), 1)
        if len(labels) > fit and self._place_in_columns(labels, fit):
            return
        shown = {
            run.run_id for run in prominent([label.run for label in labels], fit if len(labels) <= fit else fit - 1)
        }
        kept = [label for label in labels if label.run.run_id in shown]
        self._omitted = len(labels) - len(kept)
        bottom = self.box.bottom - 6 - (self._row if self._omitted else 0)
        lines = len(key.splitlines())
        room = int((self.box.height - 35 - len(labels) * ROW) // KEY_ROW)
        head = 29 + KEY_ROW * min(lines, max(room, 0))
        heights = spread([label.at for label in kept], self._row, min(self.box.y + head, bottom), bottom)
        self.placed = list(zip(kept, heights, strict=True))

    def _place_in_columns(self, labels: Sequence[Label], fit: int) -> bool:
        """Put ``fit`` labels below each other in each of several columns, the highest curve's first; False if there is
        no room for columns."""
        across = int((self.box.width - 4) // CELL)
        if across < 2:
            return False
        across = min(across, -(-len(labels) // fit))
        kept = {run.run_id for run in prominent([label.run for label in labels], across * fit)}
        shown = sorted((label for label in labels if label.run.run_id in kept), key=lambda label: label.at)
        self._omitted = len(labels) - len(shown)
        if self._omitted:  # the last place says how many others there are
            shown = shown[: across * fit - 1]
            self._omitted = len(labels) - len(shown)
        wide = (self.box.width - 4) / across
        left, top = self.box.x + 4, self.box.y + 15
        self._cells = [
            (label, Box(left + number // fit * wide, top + number % fit * self._row, wide - 8, self._row))
            for number, label in enumerate(shown)
        ]
        return True

    @property
    def has_values(self) -> bool:
        """Whether the labels have last values."""
        return not self._cells or self._cells[0][1].width >= _SWATCH + _NAME + _VALUE

    def run_at(self, x: float, y: float) -> str:
        """The run whose label is at this pixel, or an empty string."""
        for label, cell in self._cells:
            if cell.holds(x, y):
                return label.run.run_id
        if not self.box.holds(x, y) or x < self.box.x + _LEADER:
            return ""
        return next((label.run.run_id for label, at in self.placed if abs(y - at) <= self._row / 2), "")

    def draw(self, drawing: Drawing, title: str, key: str) -> None:
        """Add title, key, leaders and labels."""
        box, theme = self.box, drawing.theme
        head = Box(box.x + 4, box.y - 6, box.width - 8, 18)
        drawing.text(head.x, head.middle, title, theme.text, "captionStrong", room=head.width)
        first = min((y for _, y in self.placed), default=box.bottom)
        self._draw_key(drawing, key.splitlines() if not self._cells else (), head, first - ROW / 2)
        for label, y in self.placed:
            self._draw_label(drawing, label, y)
        for label, cell in self._cells:
            self._draw_cell(drawing, label, cell)
        if self._omitted:
            text, y = f"and {self._omitted} more", box.bottom - 0.5 * ROW
            if self._cells:
                drawing.text(box.right - 2, y, text, across="right")
            else:
                drawing.text(box.x + _LEADER, y, text)

    def _draw_key(self, drawing: Drawing, lines: Sequence[str], head: Box, until: float) -> None:
        """Writes each line below the last; if there is no room, all in one line, without the word that all end with."""
        room = int((until - head.bottom - 13 + KEY_ROW) // KEY_ROW)
        if not lines or room < 1:
            return
        for number, text in enumerate(lines if len(lines) <= room else [joined(lines)], 1):
            left = head.x + _LEADER - 4
            drawing.text(left, head.middle + KEY_ROW * number, text, room=head.right + 4 - left)

    def _draw_cell(self, drawing: Drawing, label: Label, cell: Box) -> None:
        """The name of the run after a piece of its line, and its value if there is room for both."""
        theme = drawing.theme
        draw_swatch(drawing, cell.x, cell.middle, label.run.index, _SWATCH)
        ink = theme.bad if label.bad else theme.text if label.strong else theme.text2
        left, right = cell.x + _SWATCH + 4, cell.right
        if self.has_values:
            drawing.text(right, cell.middle, label.value, ink, label.kind, across="right")
            right -= _VALUE
        drawing.text(left, cell.middle, label.run.label, ink, label.kind, room=right - left)

    def _draw_label(self, drawing: Drawing, label: Label, y: float) -> None:
        box, theme = self.box, drawing.theme
        if label.seen:
            drawing.line(box.x, label.at, box.x + 12, y, Stroke(theme.curve(label.run.index).colour, opacity=0.75))
        ink = theme.text if label.strong else theme.text2
        drawing.text(box.right - 2, y, label.value, theme.bad if label.bad else ink, label.kind, across="right")
        room = box.width - _LEADER - 2 - drawing.width(label.value, label.kind) - 8
        drawing.text(box.x + _LEADER, y, label.run.label, ink, label.kind, room=room)


def draw_swatch(drawing: Drawing, x: float, y: float, index: int, width: float = 12) -> None:
    """A short piece of a run's line."""
    style = drawing.theme.curve(index)
    drawing.line(x, y, x + width, y, Stroke(style.colour, 2.4, style.dash))


def joined(lines: Sequence[str]) -> str:
    """``points: Test, thin: Training accuracy``: the word that all lines end with, which is the title, is said once."""
    *first, last = lines
    if len({line.rpartition(" ")[2] for line in lines}) == 1:
        first = [line.rpartition(" ")[0] for line in first]
    return ", ".join([*first, last])
