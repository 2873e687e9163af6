"""Curves as tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clew_gui.plotting.table import extract, write_csv
from clew_shared.journal.history import History
from tests.recording import record


@pytest.fixture
def history() -> History:
    history = History()
    curve = np.linspace(2, 1, 200)
    record(history, "loss", 0, curve[:100], clock=(2.0, 2.0), wall=1002.0)
    record(history, "loss", 100, curve[100:], clock=(3.0, 1.0), wall=1013.0)
    return history


def test_the_table_has_every_value(history: History, tmp_path: Path) -> None:
    other = History()
    record(other, "loss", 0, [np.nan, 0.1])
    found = [*extract("a", "7  Warm start", history, ["loss", "none"]), *extract("b", "", other, ["loss"])]
    rows = write_csv(tmp_path / "curves.csv", found)
    lines = (tmp_path / "curves.csv").read_text().splitlines()
    assert rows == 202
    assert lines[0] == "run,step,metric,value,wall_time,name"
    assert lines[1] == "a,0,loss,2.0,1000.020000,7  Warm start"
    assert lines[150].startswith("a,149,loss,1.2512562,1012.5")
    assert lines[-2:] == ["b,0,loss,nan,,", "b,1,loss,0.1,,"]


def test_an_extract_stays_as_it_is_while_the_run_goes_on(history: History) -> None:
    (before,) = extract("a", "", history, ["loss"])
    record(history, "loss", 200, np.zeros(2000))
    assert (len(before.steps), len(before.values), len(before.wall)) == (200, 200, 200)
    assert before.values[-1] == 1.0


def test_a_table_that_cannot_be_written_leaves_nothing(history: History, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OSError, match=r"folder\.csv"):
        write_csv(tmp_path / "folder.csv", extract("a", "", history, ["loss"]))
    assert [path.name for path in tmp_path.iterdir() if path.name != "clew-home"] == ["folder.csv"]
