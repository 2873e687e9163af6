"""Labels do not overlap, boxes go where little is hidden, lines end at borders."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.charts.kit.clip import clip_lines, drawable
from clew_gui.charts.kit.layout import Box, Placement, emptiest, spread
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
    placement = Placement(Box(0, 0, 100, 50), NOWHERE)
    here, touching, across = Box(0, 0, 40, 20), Box(40, 0, 40, 20), Box(30, 10, 40, 20)
    assert placement.take([here, across]) == here
    assert placement.take([across, touching]) == touching
    assert placement.take([across]) is None
    assert placement.take([Box(80, 30, 40, 20)]) is None, "outside"


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
