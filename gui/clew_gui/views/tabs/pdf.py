"""A report as PDF: the text of the page laid out by Qt, with the same figures."""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QMarginsF, QUrl
from PySide6.QtGui import QGuiApplication, QImage, QPageLayout, QPageSize, QPainter, QPdfWriter, QTextDocument
from PySide6.QtSvg import QSvgRenderer

from clew_gui.reports.figures import WIDTH, ReportFigure
from clew_gui.reports.page import LabReport, render
from clew_gui.views.theme.theme import load_fonts
from clew_shared.base.problem import os_refused

_SCALE = 3
"""Pixels of a figure for each of its own: about 300 per inch on paper."""


def application() -> QGuiApplication:
    """Returns the application that Qt needs before it can draw text: the window's own, or one without a window."""
    found = QGuiApplication.instance()
    app = found if isinstance(found, QGuiApplication) else QGuiApplication(sys.argv[:1])
    load_fonts(app)
    return app


def write_pdf(report: LabReport, path: Path) -> None:
    """Write the report on A4 pages. Raises ``ProblemError`` where the file cannot be written."""
    document = QTextDocument()
    for number, figure in enumerate(report.all_figures):
        place = QUrl(f"figure:{number}")
        document.addResource(QTextDocument.ResourceType.ImageResource.value, place, figure_image(figure))
    document.setHtml(render(report, for_print=True))
    with os_refused("report.write", f"Cannot write {path}", "Choose another place.", str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("wb").close()  # Qt does not say why a file cannot be written
    writer = QPdfWriter(str(path))
    writer.setTitle(f"Lab report {report.facts.student}".strip())
    writer.setCreator(f"Clew {report.facts.version}")
    page = QPageSize(QPageSize.PageSizeId.A4)
    writer.setPageLayout(QPageLayout(page, QPageLayout.Orientation.Portrait, QMarginsF(0, 0, 0, 0)))  # Qt adds 2 cm
    document.print_(writer)


def figure_image(figure: ReportFigure, pixels: int = WIDTH * _SCALE) -> QImage:
    """A figure, so many ``pixels`` wide."""
    image = QImage(pixels, round(figure.height * pixels / WIDTH), QImage.Format.Format_RGB32)
    image.fill(0xFFFFFFFF)
    painter = QPainter(image)
    painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.TextAntialiasing)
    QSvgRenderer(figure.svg.encode()).render(painter)
    painter.end()
    return image
