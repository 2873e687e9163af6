"""A drawing's text is cut and wrapped to its room, and as SVG nothing leaves its borders or its markup."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.kit.drawing import Drawing, Group, Path, Stroke, UsualSizes, Words
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.svg import ChartPage

SIZES = UsualSizes()


@pytest.fixture
def drawing() -> Drawing:
    return Drawing(LIGHT, SIZES)


def written(drawing: Drawing) -> str:
    return ChartPage(200, 100, drawing.items, "Title", "Words", LIGHT.surface).svg(SIZES)


@given(st.text(min_size=1, max_size=60), st.floats(0, 300))
def test_a_text_is_never_wider_than_its_room(text: str, room: float) -> None:
    shown = Drawing(LIGHT, SIZES).elided(text, room)
    assert SIZES.width(shown) <= room
    assert shown == text or shown == "" or shown.endswith("…")


def test_a_paragraph_is_wrapped_and_its_last_line_says_that_there_is_more(drawing: Drawing) -> None:
    drawing.paragraph(
        Box(10, 20, 120, 2 * SIZES.height("body") + 2), "one two three four five six seven eight nine ten", "#000000"
    )
    first, last = [item for item in drawing.items if isinstance(item, Words)]
    assert first.text == "one two three four"
    assert last.text.endswith("…")
    assert last.y > first.y


def test_names_and_titles_are_no_markup(drawing: Drawing) -> None:
    drawing.text(5, 5, '<script>"&')
    page = ChartPage(200, 100, drawing.items, "<b>", 'x"/><y>', LIGHT.surface)
    root = ET.fromstring(page.svg(SIZES))  # noqa: S314  # our own
    texts = [element.text for element in root.iter() if element.text]
    assert texts == ["<b>", 'x"/><y>', '<script>"&']
    assert root.attrib["width"] == "200"


def test_what_lies_outside_of_a_clip_is_cut_and_words_are_not(drawing: Drawing) -> None:
    with drawing.clipped(Box(0, 0, 100, 50)):
        drawing.path([-50.0, 150.0], [25.0, 25.0], Stroke("#112233"))
        drawing.rect(Box(90, 40, 40, 40), "#445566")
        drawing.rect(Box(150, 0, 10, 10), "#778899")
        drawing.marks([10.0, 120.0], [10.0, 10.0], "#aabbcc", 4.0)
        drawing.text(150, 20, "outside")
    found = written(drawing)
    assert 'd="M0.0 25.0L100.0 25.0"' in found
    assert '<rect x="90.0" y="40.0" width="10.0" height="10.0" fill="#445566"/>' in found
    assert "#778899" not in found
    assert len(re.findall("<circle", found)) == 1
    assert ">outside</text>" in found


def test_of_a_clip_in_a_clip_only_what_lies_in_both_is_shown(drawing: Drawing) -> None:
    with drawing.clipped(Box(0, 0, 50, 50)), drawing.clipped(Box(20, 20, 100, 100)):
        drawing.rect(Box(0, 0, 200, 200), "#123456")
    assert '<rect x="20.0" y="20.0" width="30.0" height="30.0" fill="#123456"/>' in written(drawing)


def test_a_line_is_interrupted_where_it_is_not_finite(drawing: Drawing) -> None:
    drawing.path([0.0, 1.0, np.nan, 3.0, 4.0, 5.0], [0.0, 1.0, 2.0, np.inf, 4.0, 5.0], Stroke("#000000"))
    pieces = [item for item in drawing.items if isinstance(item, Path)]
    assert [piece.x.tolist() for piece in pieces] == [[0.0, 1.0], [4.0, 5.0]]


def test_a_group_is_moved(drawing: Drawing) -> None:
    drawing.text(1, 2, "here")
    drawing.items = [Group(tuple(drawing.items), shift=(30.0, 40.0))]
    assert '<g transform="translate(30 40)"><text x="1.0"' in written(drawing)
