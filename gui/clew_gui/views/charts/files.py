"""Pages of charts as files: pixels (PNG) and drawings (SVG)."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, QSize
from PySide6.QtGui import QColor, QImage, QImageWriter, QPainter

from clew_gui.charts.kit.chart import ChartPage
from clew_gui.views.charts.painter import SIZES, paint
from clew_shared.base.problem import ProblemError, problem


def write_png(path: Path, image: QImage) -> None:
    """Write pixels. Raises ``ProblemError`` where that cannot be done."""
    if not QImageWriter(str(path), QByteArray(b"png")).write(image):
        raise _not_written(path)


def _not_written(path: Path) -> ProblemError:
    return problem("plots.export", f"{path} could not be written.", "Choose a folder you may write to.", str(path))


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
    write_png(path, page_image(page)) if kind == "png" else write_svg(path, page)


def write_svg(path: Path, page: ChartPage) -> None:
    """Writes a page as a drawing. Raises ``ProblemError`` where that cannot be done."""
    try:
        path.write_text(page.svg(SIZES), encoding="utf-8", newline="\n")
    except OSError as error:
        raise _not_written(path) from error
