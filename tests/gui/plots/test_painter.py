"""The window paints what files have: SVG is rendered and compared with what the painter paints."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer
from pytestqt.qtbot import QtBot

from clew_gui.base.tokens import DARK, LIGHT, Theme
from clew_gui.charts.kit.drawing import Drawing, Shape, Stroke
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.svg import ChartPage
from clew_gui.views.charts.files import page_image
from clew_gui.views.charts.painter import SIZES

SHAPES: tuple[Shape, ...] = ("dot", "square", "triangle", "diamond", "star", "cross")


def all_shapes(theme: Theme) -> Drawing:
    """Every kind of shape but words, whose fonts the renderer of SVG chooses by itself."""
    drawing = Drawing(theme, SIZES)
    x = np.linspace(10, 290, 40)
    drawing.path(x, 40 + 20 * np.sin(x / 20), Stroke(theme.curve(0).colour, 3.0))
    drawing.path(x, 60 + 20 * np.sin(x / 20), Stroke(theme.curve(1).colour, 2.0, (8, 4), 0.6))
    drawing.band(x, 90 + 0 * x, 110 + 5 * np.cos(x / 15), theme.accent, 0.3)
    drawing.rect(Box(10, 130, 60, 30), theme.ok, 0.7, edge=Stroke(theme.text, 2.0), radius=6)
    drawing.rect(Box(80, 130, 60, 30), theme.bad, smooth=False)
    for number, shape in enumerate(SHAPES):
        edge = Stroke(theme.text, 1.6)
        drawing.marks([160 + 24 * number], [145], theme.accent, 16.0, shape=shape, edge=edge)
    with drawing.clipped(Box(150, 170, 60, 20)):
        drawing.rect(Box(140, 160, 40, 40), theme.warn)
        drawing.path([140.0, 240.0], [175.0, 185.0], Stroke(theme.text, 3.0))
    pixels = np.arange(16, dtype=np.uint8).reshape(4, 4, 1) * 16
    drawing.image(Box(10, 165, 32, 32), pixels)
    return drawing


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_a_page_looks_the_same_painted_and_written(qtbot: QtBot, theme: Theme) -> None:
    page = ChartPage(300, 200, all_shapes(theme).items, "t", "d", theme.surface)
    painted = page_image(page)
    rendered = QImage(painted.size(), QImage.Format.Format_RGB32)
    painter = QPainter(rendered)
    QSvgRenderer(page.svg(SIZES).encode()).render(painter)
    painter.end()
    one, other = (
        np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), -1, 4)[:, :, :3].astype(np.int32)
        for image in (painted, rendered)
    )
    apart = np.abs(one - other).max(axis=2)
    assert np.mean(apart > 48) < 0.01, "only the edges of lines differ"
    assert np.mean(np.abs(one - one[0, 0]).max(axis=2) > 48) > 0.05, "something is drawn"
