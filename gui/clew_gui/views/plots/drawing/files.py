"""Pictures as files: pixels and drawings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QByteArray, QPoint, QRect, QSize
from PySide6.QtGui import QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgGenerator

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
