"""The gutter right of a plot: each run's name and last value at the height of its end. It replaces the legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from clew_gui.plotting.axes.layout import spread
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.curves.readout import prominent
from clew_gui.plotting.curves.scene import PlotScene
from clew_gui.views.plots.drawing.lines import swatch
from clew_gui.views.plots.drawing.pixels import gutter_width
from clew_gui.views.theme.theme import Theme, font

ROW: Final = 17.0
DENSE: Final = 12.5
"""The least height of a label's row, where many runs are shown."""
KEY_ROW: Final = 16
CELL: Final = 92.0
"""The least width of a label without a name; several such labels are side by side in a low plot."""
_LEADER: Final = 16.0


@dataclass(frozen=True)
class Label:
    """One run at the height ``at`` of its curve's end; not ``seen`` when that lies outside the plot."""

    run: RunStyle
    at: float
    value: str
    colour: QColor
    strong: bool
    seen: bool = True
    bad: bool = False


def heading(plot: PlotScene) -> str:
    """The plot's title, with its scale where that is logarithmic."""
    return plot.setup.title + (", log scale" if plot.log else "")


def key(plot: PlotScene) -> str:
    """Explains which line is which of a plot's several metrics, a line of text for each; empty for one metric."""
    styles: dict[str, str] = {}
    for item in sorted(plot.curves, key=lambda d: not d.headline):
        style = f"{plot.mark_of(item.curve.metric)}s" if item.curve.sparse else "line" if item.headline else "thin"
        styles.setdefault(item.curve.metric, style)
    if len(styles) < 2:
        return ""
    if sum(item.curve.sparse for item in {item.curve.metric: item for item in plot.curves}.values()) == 1:
        styles = {metric: "points" if style.startswith("dot") else style for metric, style in styles.items()}
    return "\n".join(f"{style}: {plot.setup.label(metric)}" for metric, style in styles.items())


def gutter_for(runs: Sequence[RunStyle], width: float) -> float:
    """Room right of plots of this ``width`` in which the names of the runs are whole, as far as it leaves enough for
    the curves."""
    metrics = QFontMetricsF(font("captionStrong"))
    widest = max((metrics.horizontalAdvance(run.label) for run in runs), default=0.0)
    needed = widest + metrics.horizontalAdvance("-0.0000 %") + _LEADER + 12
    return max(gutter_width(width), min(needed, 0.4 * width))


class Gutter:
    """Places and paints the labels of one plot: one below the other, or in columns, with the run's number alone, where
    the plot is too low for that."""

    def __init__(self, rect: QRectF) -> None:
        self.rect = rect
        self.placed: list[tuple[Label, float]] = []
        """The labels, and at which height each is."""
        self._cells: list[tuple[Label, QRectF]] = []
        self._omitted = 0
        self._row = ROW

    def place(self, labels: Sequence[Label], key: str = "") -> None:
        """Push the labels apart. If not all fit, the runs that stand out stay and the others are counted. The lines of
        the ``key`` go below the title if all labels still fit.

        Below the title is room for the lines of the ``key`` where all labels still fit.
        """
        room = self.rect.height() - 24
        self._row = ROW if len(labels) * ROW <= room else max(DENSE, room / max(len(labels), 1))
        fit = max(int(room // self._row), 1)
        if len(labels) > fit and self._place_in_columns(labels, fit):
            return
        shown = {
            run.run_id for run in prominent([label.run for label in labels], fit if len(labels) <= fit else fit - 1)
        }
        kept = [label for label in labels if label.run.run_id in shown]
        self._omitted = len(labels) - len(kept)
        bottom = self.rect.bottom() - 6 - (self._row if self._omitted else 0)
        lines = len(key.splitlines())
        room = int((self.rect.height() - 35 - len(labels) * ROW) // KEY_ROW)
        head = 29 + KEY_ROW * min(lines, max(room, 0))
        heights = spread([label.at for label in kept], self._row, min(self.rect.top() + head, bottom), bottom)
        self.placed = list(zip(kept, heights, strict=True))

    def _place_in_columns(self, labels: Sequence[Label], fit: int) -> bool:
        """Put ``fit`` labels below each other in each of several columns, the highest curve's first; False if there is
        no room for columns."""
        across = int((self.rect.width() - 4) // CELL)
        if across < 2:
            return False
        across = min(across, -(-len(labels) // fit))
        kept = {run.run_id for run in prominent([label.run for label in labels], across * fit)}
        shown = sorted((label for label in labels if label.run.run_id in kept), key=lambda label: label.at)
        self._omitted = len(labels) - len(shown)
        if self._omitted:  # the last place says how many others there are
            shown = shown[: across * fit - 1]
            self._omitted = len(labels) - len(shown)
        wide = (self.rect.width() - 4) / across
        left, top = self.rect.left() + 4, self.rect.top() + 15
        self._cells = [
            (label, QRectF(left + number // fit * wide, top + number % fit * self._row, wide - 8, self._row))
            for number, label in enumerate(shown)
        ]
        return True

    def run_at(self, point: QPointF) -> str:
        """The run whose label is at this pixel, or an empty string."""
        for label, cell in self._cells:
            if cell.contains(point):
                return label.run.run_id
        if not self.rect.contains(point) or point.x() < self.rect.left() + _LEADER:
            return ""
        return next((label.run.run_id for label, y in self.placed if abs(point.y() - y) <= self._row / 2), "")

    def paint(self, painter: QPainter, theme: Theme, title: str, key: str) -> None:
        """Draw title, key line, leaders and labels."""
        r = self.rect
        head = QRectF(r.left() + 4, r.top() - 6, r.width() - 8, 18)
        painter.setFont(font("captionStrong"))
        painter.setPen(QColor(theme.text))
        metrics = QFontMetricsF(painter.font())
        painter.drawText(head, Qt.AlignmentFlag.AlignVCenter, _elided(metrics, title, head.width()))
        first = min((y for _, y in self.placed), default=r.bottom())
        self._paint_key(painter, theme, key.splitlines() if not self._cells else (), head, first - ROW / 2)
        for label, y in self.placed:
            self._label(painter, theme, label, y)
        for label, cell in self._cells:
            self._cell(painter, theme, label, cell)
        if self._omitted:
            painter.setFont(font("caption"))
            painter.setPen(QColor(theme.text3))
            box = QRectF(r.left() + _LEADER, r.bottom() - ROW, r.width() - _LEADER - 2, ROW)
            side = Qt.AlignmentFlag.AlignRight if self._cells else Qt.AlignmentFlag.AlignLeft
            painter.drawText(box, side | Qt.AlignmentFlag.AlignVCenter, f"and {self._omitted} more")

    def _paint_key(self, painter: QPainter, theme: Theme, lines: Sequence[str], head: QRectF, until: float) -> None:
        """Writes each line below the last; if there is no room, all in one line, without the word that all end with."""
        room = int((until - head.bottom() - 13 + KEY_ROW) // KEY_ROW)
        if not lines or room < 1:
            return
        painter.setFont(font("caption"))
        painter.setPen(QColor(theme.text3))
        metrics = QFontMetricsF(painter.font())
        for number, text in enumerate(lines if len(lines) <= room else [joined(lines)], 1):
            line = head.translated(0, KEY_ROW * number).adjusted(_LEADER - 4, 0, 4, 0)
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, _elided(metrics, text, line.width()))

    def _cell(self, painter: QPainter, theme: Theme, label: Label, cell: QRectF) -> None:
        """The number of the run and its value, after a piece of its line."""
        swatch(painter, QRectF(cell.left(), cell.top(), 8, cell.height()), theme, label.run.index)
        chosen = font("captionStrong" if label.strong else "caption")
        painter.setFont(chosen)
        box = cell.adjusted(12, 0, 0, 0)
        painter.setPen(QColor(theme.bad if label.bad else theme.text if label.strong else theme.text2))
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, label.value)
        room = box.width() - QFontMetricsF(chosen).horizontalAdvance(label.value) - 6
        number = label.run.label.partition("  ")[0]
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, _elided(QFontMetricsF(chosen), number, room))

    def _label(self, painter: QPainter, theme: Theme, label: Label, y: float) -> None:
        r = self.rect
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        ink = QColor(label.colour)
        ink.setAlphaF(0.75)
        painter.setPen(QPen(ink, 1))
        if label.seen:
            painter.drawLine(QLineF(r.left(), label.at, r.left() + 12, y))
        chosen = font("captionStrong" if label.strong else "caption")
        painter.setFont(chosen)
        metrics = QFontMetricsF(chosen)
        box = QRectF(r.left() + _LEADER, y - 9, r.width() - _LEADER - 2, 18)
        painter.setPen(QColor(theme.bad if label.bad else theme.text if label.strong else theme.text2))
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, label.value)
        painter.setPen(QColor(theme.text if label.strong else theme.text2))
        room = box.width() - metrics.horizontalAdvance(label.value) - 8
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, _elided(metrics, label.run.label, room))


def joined(lines: Sequence[str]) -> str:
    """``points: Test, thin: Training accuracy``: the word that all lines end with, which is the title, is said once."""
    *first, last = lines
    if len({line.rpartition(" ")[2] for line in lines}) == 1:
        first = [line.rpartition(" ")[0] for line in first]
    return ", ".join([*first, last])


def _elided(metrics: QFontMetricsF, text: str, width: float) -> str:
    return metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
