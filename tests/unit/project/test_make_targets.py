"""What the longer targets of make do: how far a soak goes, in which order tests begin, what is tried on GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from clew_agent.node.devices import Devices, Gpu
from tests.durations import Durations, file_of, longest_first, recorded
from tests.gpu_check import check
from tests.integration.faults.chance import Chance, Tally
from tests.soak import PLAYED, goes_on, read_tally, summary


@pytest.mark.parametrize(
    ("rounds", "minutes", "done", "seconds", "more"),
    [
        (0, 0.0, 100, 1e6, True),
        (2, 0.0, 1, 1e6, True),
        (2, 0.0, 2, 0.0, False),
        (0, 1.0, 0, 1e6, True),
        (0, 1.0, 5, 59.0, True),
        (0, 1.0, 5, 60.0, False),
        (9, 1.0, 5, 60.0, False),
    ],
)
def test_rounds_and_minutes_bound_a_soak(rounds: int, minutes: float, done: int, seconds: float, more: bool) -> None:
    assert goes_on(rounds, minutes, done, seconds) is more


def test_the_counts_of_all_rounds_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_TALLY", str(tmp_path / "tally"))
    assert read_tally(tmp_path / "tally") == Counter()
    for kills in (2, 3):
        tally = Tally()
        tally.add("kills", kills)
        tally.add("bytes compared", 1000)
        tally.keep()
    counts = read_tally(tmp_path / "tally")
    assert summary(2, 90.0, counts) == "soak: 2 rounds in 1.5 minutes: 2,000 bytes compared, 5 kills"


def test_a_seed_throws_the_same_dice_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_SEED", "7")
    first, again, other = Chance("a test"), Chance("a test"), Chance("another")
    throws = [[one.dice.random() for _ in range(5)] for one in (first, again, other)]
    assert throws[0] == throws[1] != throws[2]
    monkeypatch.setenv("CLEW_SOAK", "1")
    assert (len(first.rounds(2, 9)), len(Chance("a test").rounds(2, 9))) == (2, 9)


@pytest.mark.parametrize("test", [one for _, tests in PLAYED for one in tests if one.startswith("tests/")])
def test_what_a_soak_plays_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    path = Path(__file__).parents[3] / file
    assert path.exists()
    assert not name or f"def {name}(" in path.read_text(encoding="utf-8")


# --- In which order ``make test`` begins its files, and how long it says that they take -------------------------------

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


# --- What ``make gpu-check`` tries on which machine, and what it writes -----------------------------------------------


@pytest.mark.parametrize(("gpus", "devices"), [(1, "1"), (3, "2"), (4, "4")])
def test_every_way_is_tried_and_one_failure_is_the_status(gpus: int, devices: str, tmp_path: Path) -> None:
    called: list[Sequence[str]] = []

    def call(words: Sequence[str]) -> tuple[int, str]:
        called.append(words)
        return int("--precision" in words), "Finished: 500 steps\n"

    log = tmp_path / "gpu-check.log"
    found = Devices(tuple(Gpu(str(number), f"NVIDIA H100 ({number})") for number in range(gpus)))
    assert check(found, log, call) == 1
    measured = ["pipeline", "bandwidth", "cnn"]
    assert [words[1] for words in called] == ["softmax"] * 4 + ["model-parallel"] * 2 + ["ps-lab"] * 2 + measured
    assert ["--trace" in words for words in called[:4]] == [False, True, True, False]
    assert called[2][-1] == devices
    assert [words[-1] for words in called[4:6]] == ["tiny" if devices == "1" else devices, "hybrid"]
    text = log.read_text()
    assert "NVIDIA H100 (0)" in text.splitlines()[0]
    assert (text.count("exit status 0"), text.count("exit status 1")) == (10, 1)


def test_without_a_gpu_nothing_is_tried_and_nothing_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def call(words: Sequence[str]) -> tuple[int, str]:
        raise AssertionError(words)

    assert check(Devices(), tmp_path / "gpu-check.log", call) == 0
    assert "There is no GPU here" in capsys.readouterr().out
    assert not (tmp_path / "gpu-check.log").exists()
