"""The benchmarks' own arithmetic, and one short race with real processes, so that they run when they are wanted."""

from __future__ import annotations

import pytest

from tests.bench.__main__ import names, updated
from tests.bench.bench_loops import Contender, Race, check_results, race, rows
from tests.bench.measure import Timing, ratio, table


def test_a_ratio_of_medians_lies_within_its_interval() -> None:
    found = ratio([20.0, 22.0, 19.0, 21.0, 40.0], [10.0, 11.0, 9.5, 10.5, 10.0])
    assert found.value == pytest.approx(2.1)
    assert 1.8 < found.low <= found.value <= found.high <= 4.2


def test_a_ratio_without_scatter_has_no_width() -> None:
    assert str(ratio([3000.0] * 7, [1.0] * 7)) == "3,000 (3,000 to 3,000)"
    assert str(ratio([1.5] * 7, [1.0] * 7)) == "1.5 (1.5 to 1.5)"


def test_a_section_of_the_page_is_replaced_and_the_others_stay() -> None:
    page = updated(updated("# Benchmarks\n", "loops", "first"), "plot", "curves")
    again = updated(page, "loops", "second")
    assert "first" not in again
    assert again == page.replace("first", "second")


def test_all_benchmarks_are_known() -> None:
    assert {"loops", "99"} <= set(names())


def test_a_table_lines_up() -> None:
    assert table(("a", "long"), [("1", "2")]) == "| a | long |\n| - | ---- |\n| 1 | 2    |"


def test_a_contender_that_did_something_else_is_found_out() -> None:
    same = {"clew": [Timing(500, 1, 0.9079)], "course": [Timing(500, 4, 0.9078)]}
    check_results("softmax", same, real=True)
    with pytest.raises(AssertionError):
        check_results("softmax", same | {"fast": [Timing(500, 0.1, 0.4)]}, real=True)


def test_a_short_race_has_a_row_for_each_contender() -> None:
    contest = Race("linear-regression", 300, (Contender("clew", "ours", 900), Contender("course", "theirs", 900)))
    timings = race(contest, rounds=2)
    check_results("linear-regression", timings, real=False)
    assert [row[0] for row in rows(contest, timings)] == ["ours", "theirs"]
    assert all(len(found) == 2 and all(timing.seconds > 0 for timing in found) for found in timings.values())
