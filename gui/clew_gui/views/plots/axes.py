"""The quiet part of the plots: grid, numbers on the axes, titles."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from clew_gui.plotting.scene import PlotScene, Scene
from clew_gui.views.plots.geometry import TITLE, Frame, Stack
from clew_gui.views.theme import Theme, font

_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def heading(plot: PlotScene) -> str:
    """The plot's title, with its scale where that is logarithmic."""
    return plot.setup.title + (", log scale" if plot.log else "")


def key(plot: PlotScene) -> str:
    """Which of a plot's several metrics is which; empty where it has one."""
    looks: dict[str, str] = {}
    for item in sorted(plot.curves, key=lambda d: not d.headline):
        look = "points" if item.curve.sparse else "line" if item.headline else "thin"
        looks.setdefault(item.curve.metric, look)
    if len(looks) < 2:
        return ""
    return ", ".join(f"{look}: {plot.setup.label(metric)}" for metric, look in looks.items())


def paint_axes(
    painter: QPainter, scene: Scene, stack: Stack, frames: Sequence[Frame], theme: Theme, unit_label: str
) -> None:
    """Draw grid lines with their numbers for each plot, and the x axis below the last."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setFont(font("caption"))
    for plot, frame in zip(scene.plots, frames, strict=True):
        r = frame.rect
        for tick in plot.ticks:
            y = round(frame.row(tick.at))
            painter.setPen(QPen(QColor(theme.grid), 1))
            painter.drawLine(QLineF(r.left(), y, r.right(), y))
            painter.setPen(QColor(theme.text3))
            painter.drawText(QRectF(0, y - 9, r.left() - 7, 18), _RIGHT, tick.text)
        painter.setPen(QPen(QColor(theme.line), 1))
        painter.drawLine(QLineF(r.left(), round(r.bottom()), r.right(), round(r.bottom())))
        if not stack.gutter:
            painter.setPen(QColor(theme.text3))
            painter.drawText(QRectF(0, r.top() - TITLE, r.right(), TITLE - 6), _LEFT, heading(plot))
    if frames:
        _x_axis(painter, scene, stack, frames[-1], theme, unit_label)


def _x_axis(painter: QPainter, scene: Scene, stack: Stack, frame: Frame, theme: Theme, unit_label: str) -> None:
    metrics = QFontMetricsF(painter.font())
    painter.setPen(QColor(theme.text3))
    occupied = -1e9
    for tick in scene.ticks:
        width = metrics.horizontalAdvance(tick.text)
        left = min(frame.column(tick.at) - width / 2, stack.width - stack.gutter - width)
        if left >= occupied + 10:
            occupied = left + width
            painter.drawText(QRectF(left, frame.rect.bottom() + 5, width + 1, 18), _LEFT, tick.text)
    if unit_label:
        painter.setPen(QColor(theme.text2))
        box = QRectF(frame.rect.left(), frame.rect.bottom() + 23, frame.rect.width(), 18)
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, unit_label)
