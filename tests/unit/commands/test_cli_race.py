"""What ``clew race`` refuses before anything starts, and what it prints."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from clew_gui.commands.main import main
from clew_gui.commands.run import studies
from clew_gui.jobs.job import Place
from clew_gui.session.study_runner import PlannedRun, StudyResult
from clew_gui.sites.site import Site
from clew_gui.sites.store import site_store
from clew_shared.base.places import find_places
from clew_shared.cards import ExerciseCard
from clew_shared.journal.events import Attempt, Points, Schema, State
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.study.study import read_study


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["softmx"], "Did you mean softmax?"),
        (["softmax", "--lanes", "adam,adamax"], "no lane 'adamax'"),
        (["softmax", "--race", "batches"], "Known: optimizers."),
        (["softmax", "--rate", "0.1"], "Write --rate adam=0.1."),
        (["softmax", "--rate", "adam=fast"], "expected a number"),
        (["softmax", "--out", "here"], "does not take --out"),
        (["softmax", "--stepz", "3"], "Did you mean --steps?"),
        (["linear-regression", "--steps", "0"], "Steps"),
        (["none.toml"], "Cannot read none.toml"),
    ],
)
def test_mistakes_are_told_and_nothing_starts(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    assert main(["race", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err
    assert not (home / "runs").exists()


class Trainer:
    """Stands in for the agent: the loss of each lane falls with its rate; a rate above 1 is stopped by hand,
    one above 10 was to be stopped and had just finished."""

    def __init__(self) -> None:
        self.specs: list[RunSpec] = []
        self.headings: list[str] = []

    def __call__(
        self, _shell: object, _own: object, one: PlannedRun, card: ExerciseCard, heading: str, *_more: object
    ) -> StudyResult:
        spec = msgspec.structs.replace(one.run.spec, run=str(uuid.uuid4()))
        self.specs.append(spec)
        self.headings.append(heading)
        rate = spec.params["learning_rate"]
        assert isinstance(rate, float)
        history = History()
        losses = 0.01 * np.arange(5, 0, -1) * (0.1 / rate)
        for event in (
            Attempt(format=1, run=spec.run, attempt=1, exercise=card.id, spec_sha256="", steps=5),
            Schema(id=1, metrics=card.metrics[:1]),
            Points(schema=1, first=0, count=5, seconds=1.0, clock=1.0, values=(losses.astype("<f8").tobytes(),)),
            State(state=RunState.STOPPED if 1 < rate <= 10 else RunState.FINISHED, step=5),
        ):
            history.feed(1, event)
        return one.result(Path(spec.run), history, 130 if 1 < rate <= 10 else 0, asked=rate > 10)


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    stand_in = Trainer()
    monkeypatch.setattr(studies, "train", stand_in)
    return stand_in


def run(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> tuple[int, list[str]]:
    status = main(["race", *words])
    return status, capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("home")
def test_the_table_has_the_winner_first(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = run(capsys, ["linear-regression", "--lanes", "momentum,adam,adagrad", "--steps", "5"])
    assert status == 0
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["lane", "steps", "to", "loss", "0.001", "best", "loss"]
    assert [line.split()[:2] for line in table[1:4]] == [["1.", "Adagrad"], ["2.", "Adam"], ["3.", "Momentum"]]
    assert [line.split()[-2:] for line in table[1:4]] == [["–", "0.002"], ["–", "0.005"], ["–", "0.1"]]
    assert table[4].endswith("5 steps each")
    assert trainer.headings[0] == "Optimizer race, lane 1 of 3: Momentum 0.01"
    assert len({spec.run for spec in trainer.specs}) == 3
    assert {spec.params["steps"] for spec in trainer.specs} == {5}


@pytest.mark.usefixtures("home")
def test_the_budget_is_the_races_own_unless_asked_for(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    for words, steps in (([], 400), (["--preset", "tiny"], 100), (["--preset", "tiny", "--steps", "7"], 7)):
        run(capsys, ["linear-regression", "--lanes", "adam", *words])
        assert trainer.specs[-1].params["steps"] == steps


@pytest.mark.usefixtures("home")
def test_a_stopped_lane_ends_the_race(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = run(capsys, ["linear-regression", "--rate", "momentum=2", "--json"])
    assert status == 130
    assert [spec.params["optimizer"] for spec in trainer.specs] == ["sgd", "momentum"]
    assert [lane["state"] for lane in json.loads(lines[0])["lanes"]] == ["STOPPED", "FINISHED"]


@pytest.mark.usefixtures("home")
def test_a_request_that_comes_too_late_for_its_lane_ends_the_race_all_the_same(
    trainer: Trainer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = run(capsys, ["linear-regression", "--rate", "momentum=20", "--json"])
    assert status == 130
    assert [lane["state"] for lane in json.loads(lines[0])["lanes"]] == ["FINISHED", "FINISHED"]


@pytest.mark.usefixtures("home")
def test_a_saved_study_can_be_raced_again(trainer: Trainer, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    words = ["linear-regression", "--lanes", "adam", "--rate", "adam=0.5", "--seed", "4", "--save", str(file)]
    assert run(capsys, words)[0] == 0
    assert read_study(file).lanes[0].values["learning_rate"] == 0.5
    assert run(capsys, [str(file)])[0] == 0
    first, again = trainer.specs
    assert (again.seed, again.params, again.study) == (first.seed, first.params, first.study)
    assert main(["race", str(file), "--seed", "5"]) == 2
    assert "--seed 5" in capsys.readouterr().err
    assert main(["race", "linear-regression", "--save", str(tmp_path / "none" / "x.toml")]) == 2
    assert "could not be written" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_a_race_goes_to_a_site_as_one_job(
    trainer: Trainer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, list[object]]] = []

    def show_script(_context: object, place: Place, specs: Sequence[RunSpec], _as_json: bool) -> int:
        shown.append((place.site, [spec.params["optimizer"] for spec in specs]))
        return 0

    monkeypatch.setattr("clew_gui.commands.run.site_run.show_script", show_script)
    site_store(find_places()).save("lab", Site(host="login.example.org", scheduler="slurm"))
    words = ["linear-regression", "--lanes", "adam,momentum", "--site", "lab"]
    assert run(capsys, [*words, "--dry-run"])[0] == 0
    assert shown == [("lab", ["momentum", "adam"])], "in the order of the race"
    assert main(["race", *words, "--detach"]) == 2
    assert "Add --save FILE." in capsys.readouterr().err
    assert trainer.specs == [], "nothing trains here"
