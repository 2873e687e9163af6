"""When a soak begins another round, and what it sums up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

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
