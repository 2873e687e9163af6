"""In which order ``make test`` begins its files, and how long it says that they take."""

from __future__ import annotations

from tests.durations import Durations, file_of, longest_first, recorded

SHORT = "tests/unit/test_words.py::test_a"
LONG = "tests/gui/window/test_real_agent.py::test_a_first_day"
LONGER = "tests/exercises/test_cnn.py::test_the_slides_values"


def test_what_takes_longest_comes_first_and_files_stay_together() -> None:
    more = f"{LONG}[again]"
    durations = Durations({file_of(LONG): 300.0, file_of(LONGER): 400.0})
    tests = [SHORT, LONG, LONGER, more]
    assert [tests[place] for place in longest_first(tests, durations)] == [LONGER, LONG, more, SHORT]


def test_the_beginning_says_how_long_it_takes() -> None:
    known = Durations({"each other test": 0.5, file_of(LONG): 400.0, file_of(LONGER): 300.0})
    assert known.sentence([LONG, LONG + "b", LONGER], 2) == "3 tests: about 7 min on two cores that do nothing else."
    assert known.sentence([LONGER, *[SHORT] * 6000], 3).startswith("6,001 tests: about 19 min on two cores")


def test_long_files_are_recorded_longest_first_with_a_mean_of_all_others_and_what_was_not_run_stays() -> None:
    seconds = {"tests/b.py": 10.04, "tests/c.py": 20.0, "tests/a.py": 2.0, "tests/d.py": 1.0}
    counts = {"tests/b.py": 1, "tests/c.py": 1, "tests/a.py": 4, "tests/d.py": 2}
    before = {"each other test": 0.1, "tests/b.py": 40.0, "tests/d.py": 3.0, "tests/cluster/e.py": 15.0}
    found = recorded(seconds, counts, before)
    assert [*found] == ["each other test", "tests/c.py", "tests/cluster/e.py", "tests/b.py"]
    assert [*found.values()] == [0.5, 20.0, 15.0, 10.0]
