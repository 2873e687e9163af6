"""Labels do not overlap, boxes go where little is hidden, lines end at borders."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.kit.axes import draw_key
from clew_gui.charts.kit.clip import clip_lines, drawable, stretches
from clew_gui.charts.kit.drawing import Drawing, Group, Path, Stroke, UsualSizes, Words
from clew_gui.charts.kit.layout import Box, emptiest, spread
from clew_gui.charts.kit.svg import ChartPage
from clew_gui.charts.kit.ticks import Span, within, zoomed

NOWHERE = np.empty((0, 2))


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [
        ([], []),
        ([50.0], [50.0]),
        ([20.0, 80.0], [20.0, 80.0]),
        ([50.0, 50.0], [41.5, 58.5]),
        ([51.0, 49.0], [58.5, 41.5]),
        ([0.0, 2.0], [10.0, 27.0]),
        ([99.0, 98.0], [90.0, 73.0]),
    ],
)
def test_labels_move_as_little_as_possible(wanted: list[float], placed: list[float]) -> None:
    assert spread(wanted, 17, top=10, bottom=90) == pytest.approx(placed)


@given(st.lists(st.floats(-100, 400), max_size=30))
def test_labels_never_overlap_nor_leave(wanted: list[float]) -> None:
    placed = spread(wanted, 17, top=10, bottom=300)
    gap = min(17, 290 / max(len(wanted) - 1, 1))
    assert all(10 - 1e-6 <= y <= 300 + 1e-6 for y in placed)
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(sorted(placed)))
    by_wish = [placed[i] for i in sorted(range(len(wanted)), key=lambda i: wanted[i])]
    assert by_wish == sorted(by_wish)


def test_the_emptiest_place_wins_and_does_not_flicker() -> None:
    room = Box(0, 0, 100, 100)
    left, right, outside = Box(0, 0, 40, 40), Box(60, 0, 40, 40), Box(90, 0, 40, 40)
    crowd = np.array([[10.0, 10.0], [20.0, 20.0], [70.0, 10.0]])
    assert emptiest([left, right], crowd, room) == 1
    assert emptiest([left, right], NOWHERE, room) == 0
    assert emptiest([left, right], NOWHERE, room, previous=1) == 1
    assert emptiest([left, right], crowd, room, previous=0) == 0
    assert emptiest([outside], crowd, room) == -1


def test_a_label_takes_its_place_so_that_none_lies_on_another() -> None:
    room, here, touching, across = Box(0, 0, 100, 50), Box(0, 0, 40, 20), Box(40, 0, 40, 20), Box(30, 10, 40, 20)
    assert emptiest([here, across], NOWHERE, room) == 0
    assert emptiest([across, touching], NOWHERE, room, taken=[here]) == 1
    assert emptiest([across], NOWHERE, room, taken=[here, touching]) == -1


def test_a_line_is_cut_at_the_border_and_goes_on_where_it_comes_back() -> None:
    x, y = np.array([0.0, 10.0, 20.0, 30.0]), np.array([5.0, 15.0, 5.0, 5.0])
    first, second = clip_lines(x, y, Box(0, 0, 25, 10))
    assert first[0].tolist() == [0.0, 5.0]
    assert first[1].tolist() == [5.0, 10.0]
    assert second[0].tolist() == [15.0, 20.0, 25.0]
    assert second[1].tolist() == [10.0, 5.0, 5.0]


@given(st.lists(st.tuples(st.floats(-50, 150), st.floats(-50, 150)), min_size=2, max_size=40))
def test_cut_lines_stay_inside(points: list[tuple[float, float]]) -> None:
    x, y = np.array(points).T
    for piece_x, piece_y in clip_lines(x, y, Box(0, 0, 100, 100)):
        assert piece_x.size >= 2
        assert piece_x.min() >= -1e-9
        assert piece_x.max() <= 100 + 1e-9
        assert piece_y.min() >= -1e-9
        assert piece_y.max() <= 100 + 1e-9


def test_a_line_inside_is_not_cut_and_one_outside_is_gone() -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    ((same_x, same_y),) = clip_lines(x, y, Box(0, 0, 10, 10))
    assert same_x.tolist() == x.tolist()
    assert same_y.tolist() == y.tolist()
    assert clip_lines(x, y + 50, Box(0, 0, 10, 10)) == []
    assert clip_lines(x[:1], y[:1], Box(0, 0, 10, 10)) == []


@pytest.mark.parametrize(
    ("span", "factor", "around", "shown"),
    [
        (Span(0, 100), 0.5, 20.0, Span(10, 60)),
        (Span(0, 100), 0.5, None, Span(25, 75)),
        (Span(10, 60), 2.0, 20.0, None),
        (Span(0, 20), 2.0, 20.0, Span(0, 40)),
        (Span(40, 60), 1e-9, 50.0, Span(49.99995, 50.00005)),
    ],
)
def test_zooming(span: Span, factor: float, around: float | None, shown: Span | None) -> None:
    result = zoomed(span, Span(0, 100), factor, around)
    assert (result is None) == (shown is None)
    if result is not None and shown is not None:
        assert (result.low, result.high) == pytest.approx((shown.low, shown.high))


def test_what_was_moved_too_far_stays_inside() -> None:
    full = Span(0, 100)
    assert within(Span(50, 70), full) == Span(50, 70)
    assert within(Span(-140, -120), full) == Span(0, 20)
    assert within(Span(220, 240), full) == Span(80, 100)
    assert within(full, full) is None


def test_a_line_in_sight_is_drawn_as_it_is() -> None:
    x, y = np.arange(5.0), np.array([0, 1, 0, 1, 0.0])
    assert all(given is drawn for given, drawn in zip((x, y), drawable(x, y, Span(0, 4), Span(0, 1), 4), strict=True))


def test_a_spike_is_cut_where_it_is_out_of_reach_and_the_rest_stays() -> None:
    x, y = drawable(np.arange(5.0), np.array([0, 0, 10, 0, 0.0]), Span(0, 4), Span(0, 1), reach=1)
    assert x.tolist() == pytest.approx([0, 1, 1.2, np.nan, 2.8, 3, 4], nan_ok=True)
    assert y.tolist() == pytest.approx([0, 0, 2, np.nan, 2, 0, 0], nan_ok=True)


def test_a_line_that_left_for_good_and_far_ends_there() -> None:
    x, y = drawable(np.arange(6.0), np.array([0, 1, 50, 1e9, 1e150, 1e300]), Span(0, 5), Span(0, 1), reach=1)
    assert x[-1] < 2
    assert y.max() == pytest.approx(2)
    nothing, _ = drawable(np.arange(2.0), np.array([1e9, 1e9]), Span(0, 5), Span(0, 1), reach=1)
    assert not nothing.size


# --- What is said at a plot's border of values that lie outside -------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([], []),
        ([5], [(5, 5)]),
        ([5, 40], [(5, 5), (40, 40)]),
        ([5, 6, 8, 12, 40], [(5, 12), (40, 40)]),
    ],
)
def test_neighbours_become_one_stretch_and_a_lonely_spike_stays_one(
    places: list[float], found: list[tuple[float, float]]
) -> None:
    assert stretches(np.array(places, float), 4.0) == found


@given(st.lists(st.integers(0, 2000), max_size=60))
def test_every_place_lies_in_a_stretch_and_stretches_are_apart(places: list[int]) -> None:
    ordered = np.unique(np.array(places, float))
    found = stretches(ordered, 8.0)
    assert all(any(first <= place <= last for first, last in found) for place in ordered.tolist())
    assert all(before[1] + 8.0 < after[0] for before, after in pairwise(found))


# --- A drawing's text is cut and wrapped to its room, and as SVG nothing leaves its borders or its markup. ------------

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


def test_a_key_without_space_for_all_says_how_many_are_missing(drawing: Drawing) -> None:
    named = [("#123456", f"class {number}") for number in range(10)]
    for height, last in ((120.0, "class 9"), (105.0, "class 9"), (60.0, "+ 6")):
        drawing.items.clear()
        draw_key(drawing, Box(0, 0, 90, height), named)
        words = [item for item in drawing.items if isinstance(item, Words)]
        assert words[-1].text == last
        assert words[-1].y <= height - 2
