"""In which order ``make test`` begins its files, and which stay together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.durations import Durations, recorded
from tests.sharing import CLUSTER, Sharing, file_of, longest_first

SHORT = "tests/unit/test_words.py::test_a"
LONG = "tests/gui/window/test_real_agent.py::test_a_first_day"
LONGER = "tests/exercises/test_cnn.py::test_the_slides_values"
JOB = f"{CLUSTER}test_thread.py::test_a"
WALLTIME = f"{CLUSTER}test_thread_walltime.py::test_a"

NAMES = ("run", "ends", "services", "doctor", "jobs", "site")
SECONDS = (90.0, 40.0, 30.0, 20.0, 15.0, 10.0)
RECORDED = {f"{CLUSTER}test_{name}.py": took for name, took in zip(NAMES, SECONDS, strict=True)}

Begun = Callable[..., tuple[Sharing, list["Process"]]]


def test_the_cluster_comes_first_then_what_takes_longest_and_files_stay_together() -> None:
    more = f"{LONG}[again]"
    seconds = {JOB: 300.0, LONG: 300.0, WALLTIME: 900.0, LONGER: 400.0}
    recorded = Durations({file_of(test): took for test, took in seconds.items()})
    tests = [JOB, SHORT, LONG, WALLTIME, LONGER, more]
    order = [tests[place] for place in longest_first(tests, recorded)]
    assert order == [WALLTIME, JOB, LONGER, LONG, more, SHORT]


class Process:
    """What the scheduler sees of one."""

    def __init__(self) -> None:
        self.gateway, self.shutting_down = self, False
        self.id = f"gw{id(self)}"
        self.given: list[int] = []

    def send_runtest_some(self, places: list[int]) -> None:
        self.given += places

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def begun(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> Begun:
    """Begins so many processes with these tests."""

    def begin(count: int, *tests: str) -> tuple[Sharing, list[Process]]:
        monkeypatch.setattr(pytestconfig.option, "loadscopereorder", True)
        monkeypatch.setattr(pytestconfig.option, "tx", [f"{count}*popen"])
        sharing, processes = Sharing(pytestconfig, None, Durations(RECORDED)), [Process() for _ in range(count)]
        for process in processes:
            sharing.add_node(process)
            sharing.add_node_collection(process, tests)
        sharing.schedule()
        return sharing, processes

    return begin


OTHERS = [f"tests/unit/test_{letter}.py::test_{number}" for letter in "abcdef" for number in range(3)]


def test_one_of_three_processes_begins_with_the_cluster_and_then_takes_others(begun: Begun) -> None:
    jobs = [f"{JOB}[{number}]" for number in range(4)]
    sharing, (first, *others) = begun(3, *jobs, WALLTIME, *OTHERS)
    assert first.given == list(range(5))
    assert [process.given for process in others] == [[5, 6, 7], [8, 9, 10]], "in their order, and each file in one"
    sharing.mark_test_complete(others[1], 8)
    assert others[1].given == list(range(8, 14))
    for done in range(3):
        sharing.mark_test_complete(first, done)
    assert first.given == [*range(5), 14, 15, 16]


def test_two_of_four_processes_have_a_cluster_each(begun: Begun) -> None:
    jobs = [f"{JOB}[{number}]" for number in range(3)]
    _, processes = begun(4, *jobs, WALLTIME, *(f"{CLUSTER}test_ssh.py::test_{letter}" for letter in "ab"), *OTHERS)
    assert [process.given for process in processes] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


def test_two_of_five_processes_compute_and_three_have_clusters_and_about_as_much_to_do(begun: Begun) -> None:
    found = [f"{CLUSTER}test_{name}.py::test_{number}" for name in NAMES for number in range(2)]
    _, processes = begun(5, *found, *OTHERS)
    given = [[0, 1, 18, 19, 20], [2, 3, 8, 9], [4, 5, 6, 7, 10, 11], [12, 13, 14], [15, 16, 17]]
    assert [process.given for process in processes] == given


def test_one_of_two_processes_takes_others_after_the_cluster(begun: Begun) -> None:
    _, (first, other) = begun(2, JOB, WALLTIME, *OTHERS)
    assert first.given == [0, 1, 5, 6, 7]
    assert other.given == [2, 3, 4]


def test_nothing_but_the_clusters_tests_are_shared_out_like_others(begun: Begun) -> None:
    _, processes = begun(2, JOB, WALLTIME)
    assert [process.given for process in processes] == [[0], [1]]


def test_the_beginning_says_how_long_it_takes_and_on_which_computer() -> None:
    known = Durations({"each other test": 0.5, file_of(JOB): 400.0, file_of(LONGER): 300.0})
    assert known.sentence([JOB, JOB + "b", LONGER], 2) == "3 tests: about 7 min on two cores that do nothing else."
    said = known.sentence([LONGER, *[SHORT] * 6000], 16)
    assert said == "6,001 tests: about 11 min on two cores that do nothing else; this computer has 16."


def test_long_files_are_recorded_longest_first_and_a_mean_of_all_others() -> None:
    seconds = {"tests/b.py": 10.04, "tests/c.py": 20.0, "tests/a.py": 2.0, "tests/d.py": 1.0}
    counts = {"tests/b.py": 1, "tests/c.py": 1, "tests/a.py": 4, "tests/d.py": 2}
    found = recorded(seconds, counts)
    assert list(found.items()) == [("each other test", 0.5), ("tests/c.py", 20.0), ("tests/b.py", 10.0)]
