"""Charts and other pictures as files: pixels (PNG) and drawings (SVG)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QByteArray, QPoint, QRect, QSize
from PySide6.QtGui import QColor, QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgGenerator

from clew_gui.charts.chart import Page
from clew_gui.views.charts.chart_widget import SIZES
from clew_gui.views.charts.painter import paint
from clew_shared.base.problem import ProblemError, problem

Paint = Callable[[QPainter], None]


def picture(size: QSize, scale: float, paint: Paint) -> QImage:
    """Returns the picture that ``paint`` draws, with ``scale`` pixels for each logical one of ``size`` in each
    direction."""
    image = QImage(size * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    painter = QPainter(image)
    paint(painter)
    painter.end()
    return image


def write_png(path: Path, image: QImage) -> None:
    """Write pixels. Raises ``ProblemError`` where that cannot be done."""
    if not QImageWriter(str(path), QByteArray(b"png")).write(image):
        raise _not_written(path)


def write_svg(path: Path, size: QSize, dpi: int, title: str, description: str, paint: Paint) -> None:
    """Write what ``paint`` draws; ``dpi`` is that of the screen: fonts are in points, and would not match the lines.
    Raises ``ProblemError`` if it cannot be written.

    Raises ``ProblemError`` where it cannot be written.
    """
    generator = QSvgGenerator()
    generator.setFileName(str(path))
    generator.setResolution(dpi)
    generator.setSize(size)
    generator.setViewBox(QRect(QPoint(0, 0), size))
    generator.setTitle(title)
    generator.setDescription(description)
    painter = QPainter()
    if not painter.begin(generator):
        raise _not_written(path)
    paint(painter)
    painter.end()


def _not_written(path: Path) -> ProblemError:
    return problem("plots.export", f"{path} could not be written.", "Choose a folder you may write to.", str(path))


def page_image(page: Page, scale: float = 2.0) -> QImage:
    """The page as pixels, ``scale`` times as many as logical ones in each direction."""
    size = QSize(round(page.width), round(page.height))

    def paint_page(painter: QPainter) -> None:
        painter.fillRect(0, 0, size.width(), size.height(), QColor(page.ground))
        paint(painter, page.items)

    return picture(size, scale, paint_page)


def write_page(path: Path, page: Page, kind: str) -> None:
    """Writes a page as "png" or "svg". Raises ``ProblemError`` where that cannot be done."""
    if kind == "png":
        write_png(path, page_image(page))
        return
    try:
        path.write_text(page.svg(SIZES), encoding="utf-8")
    except OSError as error:
        raise _not_written(path) from error
