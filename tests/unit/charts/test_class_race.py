"""The goals of a class over time."""

from __future__ import annotations

from clew_gui.charts.class_race import class_goals


def test_each_exercise_climbs_by_one_for_each_goal_and_goes_on_to_the_end() -> None:
    plot = class_goals({"Lines": [100.0, 160.0], "Digits": [130.0], "Nobody": []}, 220.0)
    assert plot is not None
    lines, digits = plot.lines
    assert (lines.name, lines.value, digits.value) == ("Lines", "2", "1")
    assert lines.path is not None
    assert [*zip(*(one.tolist() for one in lines.path), strict=True)] == [(0, 0), (0, 1), (60, 1), (60, 2), (120, 2)]
    assert digits.x.tolist() == [30.0]
    assert lines.words is not None
    assert lines.words(1) == "2 goals after 1 minute"


def test_one_early_goal_stretches_no_axis() -> None:
    plot = class_goals({"Lines": [0.0, *(1e9 + second for second in range(40))]}, 1e9 + 40)
    assert plot is not None
    assert plot.x.span.high < 50
    assert plot.lines[0].x[0] == 0


def test_one_goal_alone_and_an_end_before_it_are_a_chart() -> None:
    plot = class_goals({"Lines": [100.0]}, 0.0)
    assert plot is not None
    assert plot.x.span.size > 0
    assert class_goals({"Lines": []}, 5.0) is None
