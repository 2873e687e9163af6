"""What strangers call their runs, metrics and hand-ins, in everything that the commands print and write."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from clew_gui.commands.context import standard_context
from clew_gui.commands.main import main
from clew_shared.base.places import find_places
from clew_shared.journal.events import Evaluation, Log, Schema, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec, to_toml
from tests.unit.base.test_foreign import HOSTILE, controls
from tests.unit.runs import METRICS, begin_run, describe, end_run, points


@pytest.fixture
def hostile_runs(home: Path) -> list[Path]:
    """Two runs with such a name, a metric, a sentence, a student and a reason of such words."""
    folders = [home / "runs" / f"aa{number}-run" for number in (1, 2)]
    for number, place in enumerate(folders):
        folder = begin_run(place)
        spec = RunSpec(
            exercise="softmax",
            run=place.name,
            name=HOSTILE[:50],
            student=HOSTILE[:50],
            params={"learning_rate": 0.5 - number / 10},
        )
        text = to_toml(spec)
        folder.spec.write_text(text)
        metrics = tuple(msgspec.structs.replace(one, label=HOSTILE) for one in METRICS)
        with JournalWriter.create(folder.journal(1)) as writer:
            writer.append(describe(folder, run=place.name, spec=text, time=1_700_000_000.0 + number, host=HOSTILE))
            writer.append(Schema(id=1, metrics=metrics, batch_size=100))
            writer.append(State(state=RunState.RUNNING))
            writer.append(points(0, [4, 3, 2, 1]))
            writer.append(Evaluation(step=4, values={"test_accuracy": 0.9, HOSTILE: 1.0}))
            writer.append(Log(text=HOSTILE, level="warning"))
            writer.append(State(state=RunState.FAILED, reason=HOSTILE))
            end_run(folder, writer, RunState.FAILED)
    return folders


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("runs", "--filter", HOSTILE),
        ("show", "1"),
        ("show", HOSTILE),
        ("compare", "1", "2"),
        ("compare", "1", "2", "--csv", "out.csv"),
        ("export", "1", "--csv", "out"),
        ("note", "1", "--name", HOSTILE[:40]),
        ("verify", "1"),
        ("run", HOSTILE),
        ("report", "1", "2", "--html", "report.html", "--student", HOSTILE[:40]),
        ("hand-in", "1", "2", "--out", "a.clew.zip", "--student", "Anna"),
    ],
    ids=lambda words: " ".join(words[:1]),
)
def test_nothing_that_is_printed_moves_the_cursor(
    words: Sequence[str],
    hostile_runs: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    main(words)
    out, err = capsys.readouterr()
    assert out + err
    assert controls(out + err) == []


def test_no_file_for_people_holds_a_formula_or_a_control_character(
    hostile_runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (
        ("compare", "1", "2", "--csv", "compare.csv"),
        ("export", "1", "--csv", "out", "--wandb", "out"),
        ("report", "1", "2", "--html", "report.html"),
        ("hand-in", "1", "2", "--out", "class/a.clew.zip", "--student", "=2+2"),
    ):
        assert main(words) == 0, capsys.readouterr().err
    main(("class", "class", "--csv", "class.csv", "--html", "class.html"))
    tables = [*tmp_path.rglob("*.csv")]
    assert len(tables) >= 3
    for path in tables:
        with path.open(encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith("=") or controls(cell)], path
    for page in ("report.html", "class.html"):
        text = (tmp_path / page).read_text()
        assert controls(text) == []
        assert "<b>&" not in text


def test_a_traceback_with_bytes_that_are_no_text_is_kept(home: Path) -> None:
    context = standard_context(find_places())
    try:
        raise ValueError("caf\udce9")
    except ValueError:
        assert "Please report it" in context.keep_trace()
    assert "caf\\udce9" in (home / "log" / "command.log").read_text()
