"""Pages of charts as files: pixels (PNG) and drawings (SVG)."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, QSize
from PySide6.QtGui import QColor, QImage, QImageWriter, QPainter

from clew_gui.charts.kit.svg import ChartPage
from clew_gui.views.charts.painter import SIZES, paint
from clew_shared.base.problem import problem


def page_image(page: ChartPage, scale: float = 2.0) -> QImage:
    """The page as pixels, ``scale`` times as many as logical ones in each direction."""
    size = QSize(round(page.width), round(page.height))
    image = QImage(size * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(QColor(page.ground))
    painter = QPainter(image)
    paint(painter, page.items)
    painter.end()
    return image


def write_page(path: Path, page: ChartPage, kind: str) -> None:
    """Writes a page as "png" or "svg". Raises ``ProblemError`` where that cannot be done."""
    try:
        if kind == "png":
            written = QImageWriter(str(path), QByteArray(b"png")).write(page_image(page))
        else:
            written = path.write_text(page.svg(SIZES), encoding="utf-8", newline="\n") > 0
    except OSError:
        written = False
    if not written:
        raise problem("plots.export", f"{path} could not be written.", "Choose a folder you may write to.", str(path))
