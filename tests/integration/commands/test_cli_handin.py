"""From runs to a hand-in and its check, as student and teacher do it, with a real trainer that repeats first steps."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from clew_gui.commands.main import main
from clew_gui.reports.facts import read_source
from clew_gui.reports.repeated import NOT_COMPARED
from clew_shared.journal.events import (
    Attempt,
    Checkpoint,
    Digest,
    Evaluation,
    Event,
    Files,
    Live,
    Points,
    RunState,
    Schema,
    Seal,
    State,
)
from clew_shared.journal.files import JournalWriter, Record, journal_path, read_journal
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import Pruning, to_toml
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


def hand_in_forged(
    capsys: pytest.CaptureFixture[str], run: Path, name: str, change: Callable[[Event], Event | None], *words: str
) -> str:
    """Hands in a copy of a run in which every event went through ``change``; returns the file."""
    said(capsys, "hand-in", str(forge(run, Path(name) / run.name, change)), *words, "--out", f"{name}.clew.zip")
    return f"{name}.clew.zip"


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
    """An evaluation after every eighth step, as another version of Clew may choose."""
    return None if isinstance(event, Evaluation) and event.step % 8 else event


def live_from_the_start(event: Event) -> Event:
    """After the schema a change by hand that changes nothing, to keep anyone from repeating the run."""
    if isinstance(event, State) and event.state is RunState.RUNNING:
        return Live(name="learning_rate", value=0.5, step=0)
    return better_loss(event)


@pytest.mark.timeout(280)
def test_a_hand_in_is_checked_by_training_its_first_steps_again(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clew chooses to evaluate after every fourth step, and ends the run early."""
    monkeypatch.chdir(tmp_path)
    early = ("--steps", "80", "--patience", "3", "--learning-rate", "20", "--trace", "4")
    run = json.loads(said(capsys, "run", "softmax", "--preset", "tiny", *early, "--json"))["run_dir"]
    history = read_source(Path(run)).history
    assert history.trace is not None
    assert 16 < (steps := history.fold.step) < 80
    older = hand_in_forged(capsys, Path(run), "older", measured_less_often, "--student", "Anna Example")
    shown = json.loads(said(capsys, "verify-handin", older, "--rerun", "16", "--json"))
    assert shown["ok"]
    *_, compared, never = shown["notes"]
    assert re.search(r"first 16 steps .*, bit by bit \(40 values, 2 evaluations, \d+ pictures compared\)\.", compared)
    assert compared.endswith(f" The {steps - 16} later steps and what was measured there were not compared.")
    assert never == NOT_COMPARED

    said(capsys, "hand-in", run, "--out", "early.clew.zip")
    shown = json.loads(said(capsys, "verify-handin", "early.clew.zip", "--rerun", "400", "--json"))
    assert any("came out the same, bit by bit" in note for note in shown["notes"])


@pytest.mark.usefixtures("light")
def test_what_was_altered_is_found_by_training_again(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("run", "softmax", "--preset", "tiny", "--steps", "20", "--evaluate-every", "2", "--json")
    run = Path(json.loads(said(capsys, *words))["run_dir"])
    said(capsys, "hand-in", str(run), "--student", "Anna Example", "--out", "class/anna.clew.zip")
    for name, change, word in (
        ("accuracy", better_accuracy, "Test accuracy differs at step 2: 0.999 was handed in"),
        ("live", live_from_the_start, "Training loss differs at step 3"),
    ):
        forged = hand_in_forged(capsys, run, name, change)
        assert word in said(capsys, "verify-handin", forged, "--rerun", "30", status=1)

    forged = hand_in_forged(capsys, run, "class/ben", better_loss, "--student", "Ben Example")
    assert "Ben Example: 1 run, as it was recorded." in said(capsys, "verify-handin", forged)
    out = said(capsys, "verify-handin", forged, "--rerun", "8", status=1)
    assert f"Altered: Run {run.name[:8]} trained again gives other values: Training loss differs at step 3" in out

    table = said(capsys, "class", "class", "--html", "class.html", "--csv", "class.csv", status=1)
    assert f"ben.clew.zip: Run {run.name[:8]} was also handed in by Anna Example." in table
    assert len((tmp_path / "class.csv").read_text().splitlines()) == 3
    assert read_source(run).spec.student == ""


def elsewhere(event: Event) -> Event:
    """The run was trained on another processor, which rounds otherwise."""
    if isinstance(event, Points):
        loss = np.frombuffer(event.values[0], "<f4") * np.float32(1 + 1e-6)
        event = msgspec.structs.replace(event, values=(loss.tobytes(), *event.values[1:]))
    if isinstance(event, Attempt):
        event = msgspec.structs.replace(event, software=event.software | {"processor": "Other, 4 cores"})
    return event


def elsewhere_and_better(event: Event) -> Event:
    """And a batch of one image, whose accuracy may be anything; evaluations that a goal asks for."""
    if isinstance(event, Schema):
        event = msgspec.structs.replace(event, batch_size=1)
    return better_accuracy(elsewhere(event))


def asking_for(spec: str, event: Event) -> Event:
    """The run was asked for otherwise, and was excellent."""
    if isinstance(event, Attempt):
        event = msgspec.structs.replace(event, spec=spec, spec_sha256=hashlib.sha256(spec.encode()).hexdigest())
    return better_accuracy(event)


class _Until:
    """Leaves out what came after the first checkpoint: there a person stopped the run."""

    def __init__(self) -> None:
        self.saved = False

    def __call__(self, event: Event) -> Event | None:
        kept = None if self.saved else event
        self.saved |= isinstance(event, Checkpoint)
        return (
            State(state=RunState.STOPPED, step=8)
            if isinstance(event, State) and event.state.name == "FINISHED"
            else kept
        )


@pytest.mark.usefixtures("light")
def test_an_honest_run_passes_whatever_became_of_it_and_goals_are_judged_on_what_was_repeated(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    softmax = ("run", "softmax", "--preset", "tiny", "--json", "--learning-rate", "0.01", "--evaluate-every", "2")
    resumed = Path(json.loads(said(capsys, *softmax, "--steps", "20", "--checkpoint-every", "8"))["run_dir"])
    for name, change in (("other", elsewhere), ("better", elsewhere_and_better)):
        hand_in_forged(capsys, resumed, name, change, "--student", "Anna Example")
    forge(resumed, tmp_path / "resumed", _Until())
    RunFolder(resumed).journal(1).unlink()
    (tmp_path / "resumed" / "journal.0001").rename(RunFolder(resumed).journal(1))
    said(capsys, "resume", resumed.name)
    assert read_source(resumed).history.begun.start_step == 8  # type: ignore[union-attr]

    said(capsys, "hand-in", str(resumed), "--student", "Anna Example", "--out", "a.clew.zip")
    shown = json.loads(said(capsys, "verify-handin", "a.clew.zip", "--rerun", "400", "--json"))
    assert shown["ok"]
    assert any("came out the same, bit by bit" in note for note in shown["notes"])
    assert shown["unconfirmed"] == []

    out = said(capsys, "verify-handin", "other.clew.zip", "--rerun", "20")
    assert "the first 20 steps came out the same, within the tolerance, on another processor" in out
    out = said(capsys, "verify-handin", "better.clew.zip", "--rerun", "20", status=1)
    assert "Batch size: 1 was handed in, 0 comes out here." in out, "the stand-in has no batches"
    assert "Test accuracy differs at step" in out
    out = said(capsys, "verify-handin", "better.clew.zip")
    assert "[x] 90 % on the small digits" in out, (
        "that nothing was repeated is not said of a hand-in that nobody repeats"
    )


@pytest.mark.usefixtures("light")
def test_what_a_hand_in_starts_here_is_bounded_and_its_goals_are_open(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run asks for six trainers, or for more memory than is to be had."""
    monkeypatch.chdir(tmp_path)
    run = Path(json.loads(said(capsys, "run", "softmax", "--preset", "tiny", "--json"))["run_dir"])
    for name, asked, why in (
        ("many", {"nodes": 6, "strategy": "multi-worker"}, "it asks for 6 processes, and a hand-in may start 4 here"),
        ("large", {"name": "large"}, "it takes more than"),
    ):
        text = to_toml(msgspec.structs.replace(read_source(run).spec, **asked))
        forged = hand_in_forged(capsys, run, name, partial(asking_for, text), "--student", "Anna Example")
        monkeypatch.setattr("clew_gui.commands.reports.verify_handin._MEMORY", 0.0)
        out = said(capsys, "verify-handin", forged, "--rerun", "300")
        assert why in out
        assert "[?] 90 % on the small digits" in out


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
