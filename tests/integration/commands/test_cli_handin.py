"""From runs to a hand-in and its check, as student and teacher do it, with a real trainer that repeats first steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from clew_gui.commands.main import main
from clew_gui.reports.facts import read_source
from clew_shared.journal.events import Digest, Evaluation, Event, Files, Live, Points, RunState, Seal, State
from clew_shared.journal.files import JournalWriter, Record, journal_path, read_journal
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import Pruning
from tests.integration.agent_runs import agent, write_spec


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    found = main(words)
    shown = capsys.readouterr()
    assert found == status, shown.err + shown.out
    return shown.out


def forge(run: Path, into: Path, change: Callable[[Event], Event | None]) -> Path:
    """A copy of a run in which every event went through ``change``, with journals that verify; None: it is left out."""
    into.mkdir(parents=True)
    RunFolder(into).spec.write_bytes(RunFolder(run).spec.read_bytes())
    with JournalWriter.create(journal_path(into, 1)) as writer:
        for item in read_journal(journal_path(run, 1)):
            assert isinstance(item, Record)
            event = None if isinstance(item.event, Digest | Seal | Files | None) else change(item.event)
            if event is not None:
                writer.append(event)
        writer.seal("trainer")
    return into


def better_loss(event: Event) -> Event:
    """Every loss from step 3 on is a little better."""
    if not isinstance(event, Points):
        return event
    loss = np.frombuffer(event.values[0], "<f4").copy()
    loss[max(0, 3 - event.first) :] *= 0.5
    return msgspec.structs.replace(event, values=(loss.tobytes(), *event.values[1:]))


def better_accuracy(event: Event) -> Event:
    """All evaluations are nearly perfect."""
    return msgspec.structs.replace(event, values={"test_accuracy": 0.999}) if isinstance(event, Evaluation) else event


def measured_less_often(event: Event) -> Event | None:
    """An evaluation after every fourth step, as another version of Clew may choose."""
    return None if isinstance(event, Evaluation) and event.step % 4 else event


def live_from_the_start(event: Event) -> Event:
    """After the schema a change by hand that changes nothing, to keep anyone from repeating the run."""
    if isinstance(event, State) and event.state is RunState.RUNNING:
        return Live(name="learning_rate", value=0.5, step=0)
    return better_loss(event)


@pytest.mark.timeout(280)
def test_a_hand_in_is_checked_by_training_its_first_steps_again(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = json.loads(said(capsys, "run", "softmax", "--preset", "tiny", "--steps", "20", "--json"))
    run = Path(ended["run_dir"])
    said(capsys, "hand-in", str(run), "--student", "Anna Example", "--out", "class/anna.clew.zip")
    shown = json.loads(said(capsys, "verify-handin", "class/anna.clew.zip", "--rerun", "8", "--json"))
    assert shown["ok"]
    found = "the first 8 steps came out the same, bit by bit (32 values, 4 evaluations compared)."
    assert found in shown["notes"][-1]
    assert shown["notes"][-1].endswith(" The 12 later steps and what was measured there were not compared.")
    for name, change, word in (
        ("accuracy", better_accuracy, "Test accuracy differs at step 2: 0.999 was handed in"),
        ("live", live_from_the_start, "Training loss differs at step 3"),
    ):
        said(capsys, "hand-in", str(forge(run, tmp_path / name / run.name, change)), "--out", f"{name}.clew.zip")
        assert word in said(capsys, "verify-handin", f"{name}.clew.zip", "--rerun", "30", status=1)

    said(capsys, "hand-in", str(forge(run, tmp_path / "older" / run.name, measured_less_often)), "--out", "o.clew.zip")
    assert "(24 values, 2 evaluations compared)" in said(capsys, "verify-handin", "o.clew.zip", "--rerun", "8")

    forged = forge(run, tmp_path / "forged" / run.name, better_loss)
    said(capsys, "hand-in", str(forged), "--student", "Ben Example", "--out", "class/ben.clew.zip")
    assert "Ben Example: 1 run, as it was recorded." in said(capsys, "verify-handin", "class/ben.clew.zip")
    out = said(capsys, "verify-handin", "class/ben.clew.zip", "--rerun", "8", status=1)
    assert f"Altered: Run {run.name[:8]} trained again gives other values: Training loss differs at step 3" in out

    table = said(capsys, "class", "class", "--html", "class.html", "--csv", "class.csv", status=1)
    assert f"ben.clew.zip: Run {run.name[:8]} was also handed in by Anna Example." in table
    assert len((tmp_path / "class.csv").read_text().splitlines()) == 3
    assert read_source(run).spec.student == ""


def test_a_script_is_handed_in_but_not_repeated_and_no_pruner_ends_it(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert agent("new", "straight-line", "--script", "--folder", tmp_path / "lab").returncode == 0
    own = ("--exercises", "lab")
    values = "learning_rate=0.1, 0.5"
    assert main(("sweep", "straight-line", *own, "--over", values, "--pruner", "halving")) == 2
    assert "straight-line is a training script: Clew cannot end its run early" in capsys.readouterr().err
    spec = write_spec(tmp_path, "straight-line", pruning=Pruning("median", "loss"))
    refused = agent("run", spec, *own, "--out", tmp_path / "run")
    assert refused.returncode == 2
    assert "straight-line is a training script: Clew cannot end its run early" in refused.stderr

    run = json.loads(said(capsys, "run", "straight-line", *own, "--preset", "tiny", "--json"))["run_dir"]
    said(capsys, "hand-in", run, *own, "--student", "Anna Example", "--out", "anna.clew.zip")
    shown = json.loads(said(capsys, "verify-handin", "anna.clew.zip", *own, "--rerun", "8", "--json"))
    assert shown["notes"][-1] == (
        f"Run {Path(run).name[:8]} was not repeated: it ran a training script, and only the script knows which random"
        " numbers it draws."
    )
