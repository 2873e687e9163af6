"""``clew scaling`` and ``clew study``: what they refuse, what they run, and that nothing runs twice."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from clew_gui.commands.main import main
from clew_gui.commands.output.study_tables import study_scene
from clew_gui.commands.run import studies
from clew_gui.session.kept_studies import study_lock
from clew_gui.session.study_runner import PlannedRun, StudyResult
from clew_shared.base.places import find_places
from clew_shared.cards import ExerciseCard, Preset
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Attempt, Points, Schema, State
from clew_shared.journal.files import JOURNAL_FORMAT, JournalWriter
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, read_spec, to_toml
from clew_shared.study.study import read_study

SCALING = ["softmax", "--data", "digits", "--steps", "60", "--warm-up", "10"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["softmx"], "Did you mean softmax?"),
        (["softmax", "--devices", "1,two"], "--devices takes whole numbers, got 'two'"),
        (["softmax", "--devices", "1,0"], "whole numbers from 1 on, got '1,0'"),
        (["softmax", "--devices", "1,3"], "1 device, not on 3"),
        (["linear-regression"], "1 device, not on 4"),
        (["softmax", "--devices", "1,2", "--nodes", "1,2"], "both --devices and --nodes"),
        (["softmax", "--repeats", "none"], "Write --repeats 3."),
        (["softmax", "--steps", "20", "--warm-up", "20"], "shorter than the run of 20 steps"),
        (["softmax", "--queue"], "does not take --queue"),
        (["softmax", "--stepz", "3"], "Did you mean --steps?"),
    ],
)
def test_mistakes_are_told_and_nothing_starts(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    assert main(["scaling", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert complaint in err
    assert not (home / "runs").exists()


class Trainer:
    """Stands in for the agent: n devices take (0.1 + 0.9 / n) s for 1,000 images, and as long for the warm-up.

    It leaves real run folders. The run with the number ``stop_at`` is stopped by hand.
    """

    def __init__(self) -> None:
        self.specs: list[RunSpec] = []
        self.headings: list[str] = []
        self.stop_at = 0

    def __call__(
        self, _shell: object, _own: object, one: PlannedRun, card: ExerciseCard, heading: str, *_more: object
    ) -> StudyResult:
        spec = msgspec.structs.replace(one.run.spec, run=str(uuid.uuid4()))
        folder = find_places().runs / spec.run
        self.specs.append(spec)
        self.headings.append(heading)
        stopped = len(self.specs) == self.stop_at
        folder.mkdir(parents=True)
        run = RunFolder(folder)
        run.spec.write_text(to_toml(spec))
        size, rows = int(str(spec.params.get("batch_size", 100))), np.zeros(10, "<f4").tobytes()
        seconds = (0.1 + 0.9 / spec.devices) * size / 100
        metrics = tuple(metric for metric in card.metrics if metric.per_step)[:1]
        events = [
            Attempt(format=JOURNAL_FORMAT, run=spec.run, attempt=1, exercise=card.id, spec_sha256="", steps=60),
            Schema(id=1, metrics=metrics, batch_size=size, shared_cores=2 if spec.devices > 1 else 0),
            State(state=RunState.RUNNING),
            *(
                Points(
                    schema=1, first=10 * k, count=10, seconds=seconds * (9 if not k else 1), clock=0.0, values=(rows,)
                )
                for k in range(6)
            ),
            State(state=RunState.STOPPED if stopped else RunState.FINISHED, step=60),
        ]
        history = History()
        with JournalWriter.create(run.journal(1)) as writer:
            for event in events:
                writer.append(event)
                history.feed(1, event)
        return one.result(folder, history, 130 if stopped else 0, asked=stopped)


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    stand_in = Trainer()
    monkeypatch.setattr(studies, "train", stand_in)
    monkeypatch.setattr(studies, "check_study_here", lambda *_, **__: None)
    return stand_in


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("words", [["run"], ["sweep", "--over", "learning_rate=0.1, 0.2"]], ids=["run", "sweep"])
def test_a_file_that_is_no_data_set_is_refused_before_the_agent_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    def begun(*_: object) -> None:
        raise AssertionError

    junk = tmp_path / "junk.npz"
    junk.write_text("a letter")
    monkeypatch.setattr("clew_gui.session.session.Session.start_run", begun)
    assert main([words[0], "softmax", *words[1:], "--data", str(junk)]) == 2
    assert "is not a data set that Clew can read." in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_a_sampler_that_needs_results_is_refused_on_a_site(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["linear-regression", "--over", "learning_rate=0.01 to 1 log", "--method", "tpe", "--count", "3"]
    assert main(["sweep", *asked, "--site", "anywhere"]) == 2
    assert "Take the method random on a site, or run it on this computer." in capsys.readouterr().err
    assert not (home / "studies").exists(), "nothing is left behind"


@pytest.mark.usefixtures("home")
def test_the_table_has_a_row_for_each_number_of_devices(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", *SCALING, "--repeats", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("") + 1 :]
    assert [row.split() for row in table[1:4]] == [
        ["1", "6.00", "s", "1,000", "1,000", "to", "1,000", "1.00×", "100", "%"],
        ["2", "3.30", "s", "1,818", "1,820", "to", "1,820", "1.82×", "91", "%"],
        ["4", "1.95", "s", "3,077", "3,080", "to", "3,080", "3.08×", "77", "%"],
    ]
    assert table[4].endswith("strong scaling, batch 100: 2 repeats each, first 10 steps dropped as warm-up")
    assert table[6:] == [
        "Four devices share two cores here: no speed-up is to be expected.",
        "Four devices train 3.1 times as fast as one.",
    ]
    assert [(spec.strategy, spec.devices, spec.seed) for spec in trainer.specs] == [
        ("mirrored", count, 1) for count in (1, 2, 4, 1, 2, 4)
    ]
    assert trainer.headings[4] == "Softmax on MNIST, strong scaling, run 5 of 6: 2 devices, 2 of 2"


@pytest.mark.usefixtures("home")
def test_programs_get_one_line(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", *SCALING, "--devices", "1,2", "--weak", "--strategy", "local-sgd", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [spec.params["batch_size"] for spec in trainer.specs] == [100, 200]
    assert (found["strategy"], found["axis"], found["scaling"], found["warm_up"]) == (
        "local-sgd",
        "devices",
        "weak",
        10,
    )
    one, two = found["table"]
    assert (one["devices"], two["devices"], one["interval_over"]) == (1, 2, "blocks")
    assert two["efficiency"] == pytest.approx(1 / (0.1 + 0.9 / 2) / 2)
    assert found["fits"]["gustafson"]["serial"] == pytest.approx(2 - 1 / 0.55)
    assert found["sentence"] == "Two devices share two cores here: no speed-up is to be expected."
    assert [run["state"] for run in found["runs"]] == ["FINISHED"] * 2


@pytest.mark.usefixtures("home")
def test_a_stopped_study_is_continued_and_nothing_runs_twice(
    trainer: Trainer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "study.toml"
    trainer.stop_at = 3
    assert main(["scaling", *SCALING, "--repeats", "2", "--devices", "1,2", "--save", str(file)]) == 130
    assert len(trainer.specs) == 3
    trainer.stop_at = 0
    assert main(["study", str(file)]) == 0
    assert [spec.name for spec in trainer.specs[3:]] == ["1 device, 2 of 2", "2 devices, 2 of 2"]
    assert main(["study", str(file), "--json"]) == 0
    assert len(trainer.specs) == 5
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len({run["run"] for run in last["runs"]}) == 4
    assert [row["repeats"] for row in last["table"]] == [2, 2]


def test_a_study_that_another_program_is_doing_is_refused_before_anything_starts(
    trainer: Trainer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["scaling", *SCALING, "--devices", "1", "--save", str(tmp_path / "s.toml")]) == 0
    done = len(trainer.specs)
    lock = study_lock(find_places(), read_study(tmp_path / "s.toml").study)
    assert lock.acquire()
    assert main(["study", str(tmp_path / "s.toml")]) == 2
    assert "Another program on this computer is doing the runs" in capsys.readouterr().err
    lock.release()
    assert main(["study", str(tmp_path / "s.toml")]) == 0
    assert len(trainer.specs) == done


def test_a_window_that_looks_whether_a_study_is_being_done_keeps_nobody_from_doing_it(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["scaling", *SCALING, "--devices", "1", "--save", str(tmp_path / "s.toml")]) == 0
    look = study_lock(find_places(), read_study(tmp_path / "s.toml").study)
    assert look.acquire()
    monkeypatch.setattr("clew_gui.commands.run.studies.time.sleep", lambda _seconds: look.release())
    assert main(["study", str(tmp_path / "s.toml")]) == 0


def test_a_run_that_was_continued_is_no_measurement(
    home: Path, trainer: Trainer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "study.toml"
    assert main(["scaling", *SCALING, "--devices", "1,2", "--save", str(file)]) == 0
    (second,) = (folder for folder in (home / "runs").iterdir() if "2 devices" in (folder / "spec.toml").read_text())
    again = Attempt(
        format=JOURNAL_FORMAT, run=second.name, attempt=2, exercise="softmax", spec_sha256="", resumes=1, start_step=60
    )
    with JournalWriter.create(RunFolder(second).journal(2)) as writer:
        writer.append(again)
        writer.append(State(state=RunState.FINISHED, step=60))
    study, results = read_study(file), []
    for folder in (home / "runs").iterdir():
        spec = read_spec(RunFolder(folder).spec)
        results.append(StudyResult(spec.name, spec.devices, spec, folder, read_run(folder)))
    card = find_card(load_builtin().exercises, "softmax")
    assert [row.replicas for row in study_scene(study, card, results).scaling.rows] == [1]
    assert main(["study", str(file)]) == 0
    assert [spec.devices for spec in trainer.specs] == [1, 2, 2]
    assert capsys.readouterr().out.count("finished before") == 1


@pytest.mark.usefixtures("home")
def test_a_study_over_a_hyperparameter_is_ranked(
    trainer: Trainer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "batches.toml"
    file.write_text(
        'format = 2\naxis = "batch_size"\nvalues = [16, 64]\n[base]\nexercise = "softmax"\n'
        'data = "digits"\n[base.params]\nsteps = 60\n'
    )
    assert main(["study", str(file)]) == 0
    assert [(spec.study, spec.params["batch_size"]) for spec in trainer.specs] == [("batches", 16), ("batches", 64)]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[-3:-1]] == [["1.", "batch", "size"], ["2.", "batch", "size"]]
    assert main(["race", str(file)]) == 2
    assert "Run it with: clew study" in capsys.readouterr().err
    assert read_study(file).axis == "batch_size"


def test_the_base_takes_what_its_preset_says(
    home: Path, trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    file = tmp_path / "study.toml"
    text = 'format = 2\naxis = "batch_size"\nvalues = [16]\n[base]\nexercise = "softmax"\npreset = "tiny"\n'
    file.write_text(text)
    assert main(["study", str(file)]) == 0
    (spec,) = trainer.specs
    assert (spec.preset, spec.data, spec.params["steps"]) == ("", "digits", 100)
    file.write_text(text + 'data = "own"\n[base.params]\nsteps = 60\n')
    assert main(["study", str(file)]) == 0
    assert (trainer.specs[1].data, trainer.specs[1].params["steps"]) == (str(tmp_path / "own"), 60)
    assert main(["study", str(file)]) == 0
    assert len(trainer.specs) == 2
    file.write_text(text.replace("tiny", "tinny"))
    assert main(["study", str(file)]) == 2
    assert len(list((home / "runs").iterdir())) == 2


def test_a_seed_in_the_base_wins_over_that_of_the_preset() -> None:
    card = ExerciseCard(id="mine", title="Mine", presets=(Preset(name="fixed", title="Fixed", seed=9),))
    base = RunSpec(exercise="mine", preset="fixed")
    assert [studies.complete_base(base, card, seeded).seed for seeded in (False, True)] == [9, 1]
    assert studies.complete_base(RunSpec(exercise="mine"), card, seeded=False) == RunSpec(exercise="mine")


def test_runs_that_the_card_no_longer_knows_and_dangling_links_are_no_harm(
    home: Path, trainer: Trainer, tmp_path: Path
) -> None:
    file = tmp_path / "study.toml"
    file.write_text('format = 2\naxis = "batch_size"\nvalues = [16]\n[base]\nexercise = "softmax"\ndata = "digits"\n')
    assert main(["study", str(file)]) == 0
    (folder,) = (home / "runs").iterdir()
    spec = RunFolder(folder).spec
    spec.write_text(spec.read_text() + "gone = 3\n")
    (home / "runs" / "dangling").symlink_to(tmp_path / "nowhere")
    assert main(["study", str(file)]) == 0
    assert len(trainer.specs) == 2


@pytest.mark.parametrize(
    ("axis", "steps", "end"), [("batch_size", "", ", 500 steps each"), ("steps", "steps = 60\n", "Study study")]
)
@pytest.mark.usefixtures("home", "trainer")
def test_the_last_line_says_how_many_steps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, axis: str, steps: str, end: str
) -> None:
    file = tmp_path / "study.toml"
    base = f'[base]\nexercise = "softmax"\ndata = "digits"\n[base.params]\n{steps}'
    file.write_text(f'format = 2\naxis = "{axis}"\nvalues = [16, 64]\n{base}')
    assert main(["study", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(end)


@pytest.mark.usefixtures("home")
def test_nodes_are_an_axis_as_well(trainer: Trainer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", *SCALING, "--nodes", "1,2", "--reduce", "float16", "--json"]) == 0
    assert [(spec.strategy, spec.devices, spec.nodes, spec.options) for spec in trainer.specs] == [
        ("multi-worker", 1, count, {"reduce": "float16"}) for count in (1, 2)
    ]
    found = json.loads(capsys.readouterr().out)
    assert (found["axis"], [row["devices"] for row in found["table"]]) == ("nodes", [1, 2])
    assert [run["nodes"] for run in found["runs"]] == [1, 2]


_LEFT = """
import os, socket, sys, time
from pathlib import Path
from clew_shared.journal.events import Attempt, Schema, State, RunState
from clew_shared.journal.files import JOURNAL_FORMAT, JournalWriter
from clew_shared.journal.run_folder import RunFolder

folder = RunFolder(Path(sys.argv[1]))
with JournalWriter.create(folder.journal(1)) as writer:
    about = dict(time=time.time(), format=JOURNAL_FORMAT, run=folder.path.name, attempt=1, exercise="softmax")
    writer.append(Attempt(**about, spec_sha256="", host=socket.gethostname(), pid=os.getpid()))
    writer.append(State(state=RunState.RUNNING))
    print(flush=True)
    sys.stdin.read()
    writer.append(State(state=RunState.FINISHED, step=60))
    writer.seal("trainer")
"""


def test_a_run_that_goes_on_after_its_program_was_killed_is_waited_for(
    home: Path, tmp_path: Path, trainer: Trainer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside it nothing could be measured, and done again it would be there twice."""
    file = tmp_path / "scaling.toml"
    assert main(["scaling", *SCALING, "--save", str(file)]) == 0
    first = next(one for one in (home / "runs").iterdir() if read_spec(one / "spec.toml").devices == 2)
    RunFolder(first).journal(1).unlink()
    before = sorted((home / "runs").iterdir())
    words = [sys.executable, "-c", _LEFT, str(first)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as left:
        assert left.stdin is not None
        assert left.stdout is not None
        left.stdout.readline()
        stdin = left.stdin

        def follow_to_its_end(context: object, own: object, one: PlannedRun, *given: Any) -> StudyResult:
            if one.known is None:
                return trainer(context, own, one, *given)
            stdin.close()
            left.wait()
            return one.result(first, read_run(first))

        monkeypatch.setattr(studies, "train", follow_to_its_end)
        capsys.readouterr()
        assert main(["study", str(file)]) == 0
    assert f"2 devices: it trains already, in {first}; waiting for it." in capsys.readouterr().out
    assert sorted((home / "runs").iterdir()) == before
    assert len(trainer.specs) == 3, "nothing was done again"
