"""The tutorial and the teacher's guide, typed command by command as they stand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.pages import CLUSTER, NOT_RUN, marks, type_in

pytestmark = [pytest.mark.unix("bash"), pytest.mark.timeout(240)]
LIMIT_S = 220.0
"""A few trainings of some seconds each, on a busy machine."""


@pytest.mark.usefixtures("light")
def test_the_tutorial_works_as_it_is_written(home: Path, tmp_path: Path) -> None:
    printed = type_in("tutorial.md", tmp_path, home, LIMIT_S)
    assert (tmp_path / "report.html").is_file()
    assert list((tmp_path / ".local").rglob("clew*.desktop")) or list((tmp_path / "Applications").glob("Clew*"))
    assert len(list((home / "runs").iterdir())) == 6, "two lines, three lanes, one softmax"
    assert "Name an exercise by its id" in printed, "clew why answers"
    assert "Question 1 of linear-regression is answered." in printed
    assert "1 question has no answer yet" in printed
    assert "Anna Example: 2 runs, as they were recorded." in printed


@pytest.mark.usefixtures("light")
def test_the_teachers_guide_works_as_it_is_written(home: Path, tmp_path: Path) -> None:
    printed = type_in("teaching.md", tmp_path, home, LIMIT_S)
    assert "3 exercises, nothing is wrong" in printed
    assert "#SBATCH --reservation=monday" in printed
    assert "Handed in on" in printed
    assert "1 student, 0 stuck" in printed
    assert "Anna Example: 1 run, as it was recorded." in printed
    assert not list((tmp_path / "board").iterdir()), "nothing is shared any more"
    assert not list((home / "courses").iterdir())
    assert (tmp_path / "class.html").is_file()
    with (tmp_path / "class.csv").open(newline="") as table:
        assert len(list(csv.reader(table))) == 3, "a head and two hand-ins"


def test_what_is_left_out_of_the_pages_is_counted() -> None:
    assert marks("tutorial.md")[NOT_RUN] == 3, "two installations from the internet, and the window"
    assert marks("teaching.md")[NOT_RUN] == 0
    for page in ("tutorial.md", "teaching.md"):
        assert marks(page)[CLUSTER] == 1, "tests/cluster/test_pages.py runs it"
        assert set(marks(page)) <= {"", CLUSTER, NOT_RUN}
