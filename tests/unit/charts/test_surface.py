"""A surface between its grid's points, its contours, and the paths over it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew_gui.base.state_words import NONE
from clew_gui.charts.compare import RESULT, ComparedRun, CompareOptions, CurveCache, compare_scene, title_of
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.ticks import Span
from clew_gui.charts.surface import Heights, Trail
from clew_shared.cards import SurfaceSpec
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Attempt, Evaluation
from clew_shared.journal.history import History
from clew_shared.surface import Grid, make_surface
from tests.unit.runs import pulse

INKS = [np.array(ink, np.float64) for ink in ((255, 255, 255), (0, 0, 200), (90, 0, 0), (1, 2, 3))]
FRAME = Frame(Box(10, 20, 100, 50), Span(0, 10), Span(-1, 1))


def bowl(x: Grid, y: Grid) -> Grid:
    return 3 * x**2 + x * (y - 1) + 2 * (y - 1) ** 2


def surface(loss: object = bowl, points: int = 9) -> SurfaceSpec:
    return make_surface(loss, title="Bowl", metrics=("a", "b"), x=(-2, 2), y=(-1, 3), points=points)  # type: ignore[arg-type]


def test_between_the_points_a_parabola_is_exact_up_to_the_edge() -> None:
    heights = Heights(surface())
    x, y = np.linspace(-2, 2, 41), np.linspace(-1, 3, 37)
    np.testing.assert_allclose(heights.sample(x, y), bowl(*np.meshgrid(x, y)), rtol=1e-5, atol=1e-5)
    assert heights.at(0.33, 0.77) == pytest.approx(bowl(np.array(0.33), np.array(0.77)), rel=1e-5)


def test_beyond_the_grid_nothing_is_known() -> None:
    heights = Heights(surface())
    assert heights.at(2.1, 0.0) is None
    found = heights.sample(np.array([0.0, 2.5]), np.array([-1.5, 0.0]))
    assert np.isnan(found).tolist() == [[True, True], [False, True]]


def test_levels_are_round_and_apart_by_factors_where_all_is_positive() -> None:
    heights = Heights(surface(points=81))
    assert heights.log
    assert 4 <= len(heights.levels) <= 16
    texts = [tick.text for tick in heights.levels]
    assert {"1", "10"} <= set(texts)
    below = Heights(surface(lambda x, y: x - y))
    assert not below.log
    assert [tick.at for tick in below.levels] == sorted(tick.at for tick in below.levels)
    assert all(-5 <= tick.at <= 3 for tick in below.levels)


def test_the_map_is_lightest_at_the_minimum_has_contours_and_an_outside() -> None:
    heights = Heights(surface(points=81))
    x, y = np.linspace(-2.5, 2, 226), np.linspace(3, -1, 200)
    picture = heights.picture(x, y, INKS)
    blue_less = 255 - picture[..., 0].astype(int)  # red falls from low to high ground
    sampled = heights.sample(x, y)
    row, column = np.unravel_index(np.nanargmin(sampled), sampled.shape)
    assert picture[row, column].tolist() == [255, 255, 255]
    assert (picture[np.isnan(sampled)] == (1, 2, 3)).all()
    corner = blue_less[-1, -1]
    assert corner > blue_less[row, column]
    line = (picture[..., 2] < picture[..., 0]).sum()
    assert 0 < line < picture.size / 12


@pytest.mark.parametrize("loss", [lambda *_: np.array(0.0), lambda *_: np.array(np.nan), lambda *_: np.array(1e300)])
def test_a_surface_without_shape_is_drawn_all_the_same(loss: object) -> None:
    with np.errstate(over="ignore"):
        spec = surface(loss)
    picture = Heights(spec).picture(np.linspace(-2, 2, 8), np.linspace(-1, 3, 8), INKS)
    assert picture.shape == (8, 8, 3)


def test_a_tiny_grid_can_be_read() -> None:
    assert Heights(surface(points=2)).at(0.0, 1.0) is not None


# --- Paths ----------------------------------------------------------------------------------------------------------


def test_places_become_pixels_and_back() -> None:
    assert FRAME.at(0, -1) == (10, 70)
    assert FRAME.at(10, 1) == (110, 20)
    assert FRAME.place(60, 45) == (5, 0)
    zoomed = FRAME.zoomed(0.5, (5.0, 0.0))
    assert (zoomed.x, zoomed.y) == (Span(2.5, 7.5), Span(-0.5, 0.5))
    assert FRAME.zoomed(3.0, (2.0, 0.5)).at(2.0, 0.5) == pytest.approx(FRAME.at(2.0, 0.5))
    assert FRAME.moved(10, -5).at(5, 0) == pytest.approx((70, 40))


def walk(size: int, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.normal(0, 0.05, size)) + 5, np.cumsum(rng.normal(0, 0.02, size))


@settings(max_examples=40)
@given(st.lists(st.integers(0, 60), max_size=12), st.integers(0, 99))
def test_a_path_that_grows_is_the_path_from_whole(parts: list[int], seed: int) -> None:
    x, y = walk(sum(parts), seed)
    whole, grown = Trail(FRAME), Trail(FRAME)
    whole.extend(x, y)
    before = 0
    for end in np.cumsum(parts):
        grown.extend(x[:end], y[:end])
        assert np.array_equal(grown.news(), whole.points[max(before - 1, 0) : len(grown.points)])
        before = len(grown.points)
    assert np.array_equal(grown.points, whole.points)
    assert (grown.taken, grown.outside) == (whole.taken, whole.outside)


def test_what_cannot_be_told_apart_is_left_out() -> None:
    trail = Trail(FRAME)
    x = np.full(100_000, 5.0) + np.linspace(0, 1e-4, 100_000)
    trail.extend(x, np.zeros(100_000))
    assert len(trail.points) <= 2
    assert trail.taken == 100_000
    line = Trail(FRAME)
    line.extend(np.linspace(0, 10, 100_000), np.zeros(100_000))
    assert len(line.points) <= 202


def test_it_ends_before_the_first_value_that_is_no_number() -> None:
    trail = Trail(FRAME)
    x, y = np.array([1.0, 2, 3, np.nan, 4]), np.zeros(5)
    trail.extend(x, y)
    assert trail.ended
    trail.extend(np.append(x, 6.0), np.zeros(6))
    assert (trail.taken, len(trail.points)) == (3, 3)


def test_the_first_step_outside_is_noted_and_far_away_is_no_trouble() -> None:
    trail = Trail(FRAME)
    trail.extend(np.array([1.0, 2.0]), np.zeros(2))
    outside = [trail.outside]
    trail.extend(np.array([1.0, 2.0, 11.0, 1e200, 3.0]), np.zeros(5))
    assert [*outside, trail.outside] == [None, 2]
    assert np.isnan(trail.points).any(axis=1).tolist() == [False, False, False, True, False]
    trail.extend(np.array([1.0, 2.0, 11.0, 1e200, 3.0, *([1e300] * 1000)]), np.zeros(1005))
    assert len(trail.points) == 6
    assert trail.nearest(1e9, 45) is not None


def test_the_nearest_point_and_which_value_it_was() -> None:
    trail = Trail(FRAME)
    assert trail.nearest(0, 0) is None
    trail.extend(np.array([0.0, 0.0, 5.0, 10.0]), np.zeros(4))
    assert trail.nearest(61, 45) == (1.0, 2)
    assert trail.nearest(10, 45) == (0.0, 0)


# --- How groups of compared runs are called ---------------------------------------------------------------------------


def test_a_group_of_seeds_has_the_name_of_the_point_not_of_its_first_seed() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    runs = [ComparedRun(str(k), k, f"0.01, seed {k}", {"learning_rate": 0.01, "seed": k}, History()) for k in (1, 2)]
    assert title_of(runs, ["learning_rate"], card) == "1, 2  0.01"
    other = [run._replace(name="0.01") if run.number == 1 else run._replace(name="again") for run in runs]
    assert title_of(other, ["learning_rate"], card) == "1, 2  rate 0.01"
    assert title_of(runs[:1], [], card) == "1  0.01, seed 1"


def test_groups_are_coloured_by_their_results() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    bests = {1: 0.5, 2: 0.9, 3: 0.7, 4: None}
    runs = [ComparedRun(str(k), k, "", {"learning_rate": k}, ended_at(best)) for k, best in bests.items()]
    scene = compare_scene(runs, card, CompareOptions("test_accuracy", colour=RESULT), "", CurveCache())
    places = {group.runs[0].number: group.ink.place for group in scene.groups}
    assert (places[1], places[2], places[4]) == (0.0, 1.0, None)
    assert places[3] == pytest.approx(0.5)
    assert [text for _, text in scene.legend] == ["50.00 %", "70.00 %", "90.00 %"]
    assert scene.coloured_by == "Best test accuracy"


def ended_at(accuracy: float | None) -> History:
    history = History()
    history.feed(1, Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256=""), 0)
    if accuracy is not None:
        history.feed(1, Evaluation(step=5, values={"test_accuracy": accuracy}), 1)
    return history


def test_a_scatter_is_logarithmic_as_asked_and_leaves_out_what_is_not_above_zero() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    bests = {1: 0.0, 2: 0.001, 3: 1.0}
    runs = [ComparedRun(str(k), k, "", {"learning_rate": k}, ended_at(best)) for k, best in bests.items()]
    for log, places in ((True, {1, 2}), (False, {0, 1, 2})):
        scene = compare_scene(runs, card, CompareOptions("test_accuracy", log=log), "", CurveCache())
        assert scene.scatter[1].log is log
        assert set(scene.places) == places


def test_what_the_runs_used_of_their_machines_is_in_the_table_as_far_as_it_is_known() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    histories = {1: ended_at(0.9), 2: ended_at(0.5)}
    histories[1].feed(1, pulse(10, cpu=[1.0, 1.0], memory=[1e9, 2e9], power=[90.0, 90.0]))
    runs = [ComparedRun(str(k), k, "", {"learning_rate": k}, one) for k, one in histories.items()]
    heads, *rows = compare_scene(runs, card, CompareOptions("test_accuracy"), "", CurveCache()).table
    assert heads[-4:] == ("CPU", "Peak memory", "Energy", "Test accuracy per Wh")
    assert [row[-4:] for row in rows] == [("100 %", "2.0 GB", "90 J", "3600.00 %"), (NONE,) * 4]
