"""Commands in this process: help, runs, show, verify, export, catalogue, and how refusals are told."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from rich.console import Console

from clew_gui.base.student import student_name
from clew_gui.commands import runs as look
from clew_gui.commands import start
from clew_gui.commands.find import KeptJobs, find_run, kept_runs
from clew_gui.commands.main import COMMANDS, main
from clew_gui.commands.output.words import state_word
from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus, status_at_end
from clew_gui.jobs.job_book import job_book
from clew_gui.reports.facts import answers_path
from clew_gui.schedulers.state import JobState, JobUse, Phase, Reason
from clew_gui.session.run_record import RunLine, run_record
from clew_shared import __version__
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue
from clew_shared.catalogue import FIRST_EXERCISE, find_card, load_builtin
from clew_shared.goal_settings import questions
from clew_shared.journal.events import Evaluation, Schema, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.history import JOB_ENDED
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Value
from clew_shared.spec import RateRange, RunSpec, read_spec, to_toml
from tests.simulated_cluster import SCHEMA, SimulatedCluster
from tests.unit.runs import METRICS, RUN, begin_run, describe, end_run, points, pulse, small_run, trace

IDS = ("aa11-first", "aa22-second", "bb33-third")


@pytest.fixture
def kept(home: Path) -> list[Path]:
    """Three kept runs, begun in the order of their names but written in another."""
    folders = [home / "runs" / name for name in IDS]
    for number in (2, 0, 1):
        folder = begin_run(folders[number])
        with JournalWriter.create(folder.journal(1)) as writer:
            writer.append(describe(folder, time=1_700_000_000.0 + number))
            end_run(folder, writer, RunState.STOPPED)
    return folders


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a refused command: exit status 2, nothing on standard output, no traceback."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys)
    assert text == said(capsys, "--help") == said(capsys, "help")
    for command in COMMANDS:
        assert re.search(rf"^  {command.name} +{re.escape(command.about)}$", text, re.MULTILINE)
    without_window = f"open last; without a display {FIRST_EXERCISE})"
    assert without_window in " ".join(said(capsys, "start", "--help").split()), "which the window opens at first"


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_a_help_of_its_own(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, command, "--help")
    assert text.startswith(f"usage: clew {command}")
    assert text == said(capsys, "help", command)


def test_the_code_of_an_exercise_is_written_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "code", "softmax").startswith('"""Softmax regression on MNIST')
    text = said(capsys, "code", "softmax", "--as", "keras", "--learning-rate", "0.25", "--seed", "7")
    assert 'OPTIMIZER = "sgd"\nLEARNING_RATE = 0.25\n' in text
    assert "SEED = 7\n" in text
    assert "STEPS = 10000\n" in said(capsys, "code", "softmax", "--as", "keras", "--preset", "long")
    assert "The exercise ps-lab has no Keras script." in refused(capsys, "code", "ps-lab", "--as", "keras")
    assert "expected a number such as 0.5" in refused(
        capsys, "code", "softmax", "--as", "keras", "--learning-rate", "fast"
    )
    assert "does not take --queue" in refused(capsys, "code", "softmax", "--queue")


_SCRIPT = """# /// clew
# id = "fits"
# [params.rate]
# default = 0.5
# [params.steps]
# default = 10
# [metrics.loss]
# better = "lower"
# ///
"""


def test_the_path_of_a_file_stands_for_its_exercise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that take the options of ``clew run`` read it alike."""
    file = tmp_path / "fit.py"
    file.write_text(_SCRIPT)
    assert said(capsys, "code", str(file), "--rate", "2").strip() == _SCRIPT.strip()
    assert "There is no file fit.py." in refused(capsys, "code", "fit.py")
    (tmp_path / "_fit.py").write_text(_SCRIPT)
    assert f"{tmp_path} has no exercise _fit.py." in refused(capsys, "run", str(tmp_path / "_fit.py"))
    assert "expected a number" in refused(capsys, "run", "--preset", "a.py", str(file), "--rate", "fast")


def test_a_job_script_of_ones_own_is_in_the_words_of_the_machine(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "code", "softmax", "--as", "job") == MINOTAURO
    assert said(capsys, "code", "vae", "--as", "job") == DAVIDE
    assert said(capsys, "code", "cnn", "--as", "job", "--site", "bluewaters") == BLUE_WATERS
    said(capsys, "site", "add", "mine", "--host", "there", "--scheduler", "pbs", "--partition", "short")
    assert "#PBS -q short\n" in said(capsys, "code", "rnn", "--as", "job", "--site", "mine")
    assert "site.absent" in refused(capsys, "code", "softmax", "--as", "job", "--site", "nowhere")
    script = said(capsys, "code", "cnn", "--as", "job", "--site", "slurm", "--time", "02:00:00", "--partition", "gpu")
    assert "#SBATCH --time=02:00:00\n#SBATCH --partition=gpu\n" in script
    for option, value in (("nodes", "2"), ("strategy", "mirrored"), ("trace", "5")):
        words = ("code", "cnn", "--as", "job", "--site", "slurm", f"--{option}", value)
        assert f"clew code does not take --{option}." in refused(capsys, *words)
    assert "ps-lab has no Keras script for a job to run" in refused(capsys, "code", "ps-lab", "--as", "job")
    assert "does not take --site" in refused(capsys, "code", "cnn", "--as", "keras", "--site", "mine")


MINOTAURO = """#!/bin/bash -l
# @ job_name = softmax
# @ initialdir = .
# @ output = softmax.log
# @ error = softmax.log
# @ total_tasks = 1
# @ gpus_per_node = 4
# @ wall_clock_limit = 02:00:00
# @ features = k80

module load K80 cuda mkl CUDNN python_ML

python softmax_keras.py
"""
DAVIDE = """#!/bin/bash -l
#SBATCH --job-name=vae
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:tesla:1
#SBATCH --time=01:00:00
#SBATCH --output=vae.log

module load autoload

python vae_keras.py
"""
BLUE_WATERS = """#!/bin/bash -l
#PBS -N cnn
#PBS -l nodes=1:ppn=16:xk
#PBS -l walltime=01:00:00
#PBS -o cnn.log
#PBS -j oe

cd "$PBS_O_WORKDIR"
aprun -q -b -n 1 -N 1 -d 16 python cnn_keras.py
"""


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--version") == f"clew {__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnu"], "clew rnu: There is no command 'rnu'. Did you mean run? (clew why cli.command)\n"),
        (
            ["frobnicate"],
            "clew frobnicate: There is no command 'frobnicate'. See: clew --help (clew why cli.command)\n",
        ),
        (
            ["show"],
            "clew show: The following arguments are required: RUN. See: clew show --help (clew why cli.usage)\n",
        ),
        (["runs", "--jsno"], "clew runs: Unrecognized arguments: --jsno. See: clew runs --help (clew why cli.usage)\n"),
        (
            ["catalogue", "sofmax"],
            "clew catalogue: There is no exercise 'sofmax'. Did you mean softmax? (clew why exercise.unknown)\n",
        ),
        (
            ["start", "--exercise", "cn"],
            "clew start: There is no exercise 'cn'. Did you mean cnn? (clew why exercise.unknown)\n",
        ),
    ],
)
def test_a_command_that_is_not_understood_is_refused_in_one_sentence(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *words) == message


LONG = "x" * 5000


@pytest.mark.unix("Windows says of a name that is too long that nothing has it")
@pytest.mark.parametrize("path", [LONG, f"/tmp/{LONG}"])
@pytest.mark.parametrize(
    "words",
    [
        ["show", LONG],
        ["verify", LONG],
        ["export", LONG, "--csv", "out"],
        ["export", "last", "--csv", LONG],
        ["resume", LONG],
        ["run", "linear-regression", "--out", LONG],
        ["run", "softmax", "--data", LONG],
        ["run", "linear-regression", "--exercises", LONG],
        ["race", f"{LONG}.toml"],
        ["site", "add", "lab", "--file", LONG],
    ],
    ids=lambda words: " ".join(words).replace(LONG, "LONG"),
)
def test_a_path_that_is_too_long_is_refused_in_one_sentence(
    words: list[str], path: str, kept: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, *(word.replace(LONG, path) for word in words))
    assert message.startswith(f"clew {words[0]}: ")
    assert "too long" in message


def test_several_problems_are_one_message_and_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "softmax", "--learning-rate", "0", "--seed", "x", "--json"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("clew run: 2 things are wrong, and nothing was started.\n  - Learning rate")
    problems = json.loads(out)["problems"]
    assert [problem["where"] for problem in problems] == ["learning_rate", "seed"]


def test_an_unexpected_error_is_one_sentence_and_its_traceback_is_kept(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(places: object) -> None:
        raise ZeroDivisionError("nothing to divide")

    monkeypatch.setattr(look, "kept_runs", fail)
    assert main(["runs"]) == 1
    out, err = capsys.readouterr()
    log = home / "log" / "command.log"
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("clew runs: an unexpected error, ZeroDivisionError: nothing to divide. Please report it")
    assert str(log) in err
    assert "Traceback" in log.read_text()


def test_a_full_disk_below_the_output_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    small_run(home / "runs" / "0a1b2c3d-first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(Full(), encoding="utf-8"))
        assert main(["runs"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("clew runs: What it prints or writes is not complete: No space left on device. Make room")
    assert said.rstrip().endswith("(clew why cli.space)")


@pytest.mark.parametrize(("words", "asked"), [(["start"], ""), (["start", "--exercise", "cnn"], "cnn")])
def test_start_opens_what_was_open_last_unless_an_exercise_is_named(
    words: list[str], asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    window = ModuleType("clew_gui.app")

    def open_window(exercise: str, _catalogue: Catalogue, file: str) -> int:
        opened.append(exercise + file)
        return 0

    monkeypatch.setattr(window, "open_window", open_window, raising=False)
    monkeypatch.setitem(sys.modules, "clew_gui.app", window)
    monkeypatch.setattr(start, "has_display", lambda *_: True)
    assert main(words) == 0
    assert opened == [asked]


def test_ctrl_c_ends_a_command_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(places: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(look, "kept_runs", interrupt)
    assert main(["runs"]) == 130
    assert capsys.readouterr().err == ""


# --- Which run is meant -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "index"), [("1", 0), ("3", 2), ("last", 2), ("aa2", 1), ("aa11-first", 0), ("bb33-third", 2)]
)
def test_a_run_is_found_by_number_id_beginning_or_last(word: str, index: int, kept: list[Path]) -> None:
    assert find_run(find_places(), word) == kept[index]


def test_a_run_has_the_number_that_the_window_gave_it(kept: list[Path]) -> None:
    record = run_record(find_places())
    record.number("gone-since")
    record.number(IDS[2])
    assert [(run.number, run.folder) for run in kept_runs(find_places())] == [(2, kept[2]), (3, kept[0]), (4, kept[1])]
    assert find_run(find_places(), "2") == find_run(find_places(), "last") == kept[2]
    assert record.number(IDS[0]) == 3, "a window that is open keeps the number that a command has shown"
    assert record.number("new") == 5


def test_numbers_that_cannot_be_kept_are_shown_all_the_same(kept: list[Path], home: Path) -> None:
    (home / "mirrors").write_text("a file where the folder should be")
    assert [(run.number, run.folder) for run in kept_runs(find_places())] == [(n + 1, kept[n]) for n in range(3)]


def test_a_run_is_found_by_its_folder_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small_run(tmp_path / "elsewhere" / "mine").path
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert find_run(find_places(), "mine") == find_run(find_places(), str(folder)) == folder


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("aa", "2 runs begin with 'aa': aa11-first, aa22-second. Give more of the id."),
        ("0", "There is no run '0'. `clew runs` lists them."),
        ("4", "There is no run '4'. `clew runs` lists them."),
        ("99999999999999999999", "There is no run '99999999999999999999'. `clew runs` lists them."),
        ("", "There is no run ''. `clew runs` lists them."),
        ("zz", "There is no run 'zz'. `clew runs` lists them."),
    ],
)
def test_a_run_that_is_not_there_or_not_one_is_refused(word: str, message: str, kept: list[Path]) -> None:
    with pytest.raises(ProblemError) as caught:
        find_run(find_places(), word)
    assert str(caught.value) == message


def test_without_any_run_the_refusal_says_how_to_begin(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="begin with: clew run softmax"):
        find_run(find_places(), "last")
    with pytest.raises(ProblemError, match=r"holds no run: it has no journal\.0001"):
        find_run(find_places(), str(tmp_path))


def test_the_last_run_is_not_an_earlier_one_while_it_waits_on_a_site(kept: list[Path]) -> None:
    places = find_places()
    kept_runs(places)
    job_book(places).note_order(JobOrder(job=JOB, site="lab", runs=(RunSpec(exercise="softmax", run=RUN),)), "The lab")
    run_record(places).number(RUN)
    with pytest.raises(ProblemError) as caught:
        find_run(places, "last")
    text = "Nothing of the last run, run 4, is here yet: it is on The lab. Follow it with: clew attach 4"
    assert str(caught.value) == text
    job_book(places).note_news(JobStatus(job=JOB, stage=JobStage.ENDED))
    assert find_run(places, "last") == kept[2], "nothing will ever come of the one that was cancelled"


def test_a_damaged_first_frame_does_not_hide_a_run(kept: list[Path]) -> None:
    journal = kept[1] / "journal.0001"
    journal.write_bytes(b"\0" * 40 + journal.read_bytes()[40:])
    assert {run.folder for run in kept_runs(find_places())} == set(kept)


# --- Looking ----------------------------------------------------------------------------------------------------------


def test_runs_lists_the_oldest_first(kept: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "runs").splitlines()
    assert [line.split()[:5] for line in lines[1:]] == [
        [str(number), name[:8], "softmax", "mnist", "Stopped"] for number, name in enumerate(IDS, 1)
    ]


def test_runs_as_json_is_one_line(kept: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = said(capsys, "runs", "--json").splitlines()
    assert [(run["number"], run["run_dir"]) for run in json.loads(line)] == [
        (number, str(folder)) for number, folder in enumerate(kept, 1)
    ]


def test_an_unreadable_run_does_not_hide_the_others(kept: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    (kept[0] / "spec.toml").write_bytes(b"\xff")
    assert len(said(capsys, "runs").splitlines()) == 4


def test_show_tells_state_values_settings_and_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_run(tmp_path / "run").path
    text = said(capsys, "show", str(folder))
    for words in ("Finished: 4 steps in 4.0 s at 2.00 steps/s", "test accuracy 90.00 %", "learning_rate", str(folder)):
        assert words in text
    assert any(0x2800 < ord(char) < 0x2900 for char in text), "the curve"
    RunFolder(folder).spec.write_text(to_toml(RunSpec(exercise="softmax", run=RUN, data="digits")))
    assert re.search(r"^\[ \] \d more goals? with MNIST$", said(capsys, "show", str(folder)), re.MULTILINE)


def test_show_as_json_is_the_summary_with_spec_and_goals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_run(tmp_path / "run").path
    (line,) = said(capsys, "show", str(folder), "--json").splitlines()
    found = json.loads(line)
    assert (found["state"], found["steps"], found["metrics"]["test_accuracy"]) == ("FINISHED", 4, 0.9)
    assert found["metrics"]["loss"] is None, "the last loss is not a number, which JSON cannot hold"
    assert found["params"] == {"learning_rate": 0.5}
    assert set(found["goals"].values()) == {False}


def test_show_ticks_a_goal_with_a_question_once_that_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a student finds out: which question it is stands in the goal's line."""
    card = find_card(load_builtin().exercises, "autoencoder")
    (goal,) = (one for one in card.goals if one.id == "pca")
    folder = begin_run(tmp_path / "run", exercise="autoencoder")
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder, exercise="autoencoder"))
        writer.append(Schema(id=1, metrics=card.metrics))
        writer.append(Evaluation(step=5000, values={"test_gain": 1.7}))
    path = str(folder.path)
    assert f"[ ] {goal.text}" in (shown := said(capsys, "show", path))
    assert f"an answer to “{goal.question}”: not reached, because the question has no answer yet" in shown
    number = questions(card.guide).index(goal.question) + 1
    said(capsys, "answer", "autoencoder", str(number), "Principal components.")
    assert f"[x] {goal.text}" in said(capsys, "show", path)
    assert json.loads(said(capsys, "show", path, "--json"))["goals"]["pca"]
    answers_path(find_places(), "autoencoder").write_text("no TOML")
    assert f"[ ] {goal.text}" in said(capsys, "show", path), "a run is shown whatever is wrong with the answers"


def test_show_tells_what_parameter_servers_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Value] = {"mode": "bounded", "staleness": 2, "late": "drop", "workers": 3}
    folder = begin_run(tmp_path / "run", strategy="parameter-server", options=options)
    cluster = SimulatedCluster(workers=3, bound=2)
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        for event in (SCHEMA, *cluster.join(), *cluster.train(2), cluster.slow(1, 5.0), *cluster.train(2, 4)):
            writer.append(event)
        end_run(folder, writer, RunState.FINISHED)
    text = said(capsys, "show", str(folder.path))
    assert re.search(r"Staleness at most 2 by dropping, 3 workers, 1 server: \d+ gradients applied, \d+ dropped", text)
    assert re.search(r"^ +2 +\d\d % +#+$", text, re.MULTILINE)
    assert re.search(r"Shares +worker 0 \d\d %, worker 1 \d+ %, worker 2 \d\d %", text)
    found = json.loads(said(capsys, "show", str(folder.path), "--json"))
    assert found["cluster"] == {**options, "servers": 1}
    assert found["updates"]["applied"] + found["updates"]["dropped"] == found["updates"]["gradients"] > 150
    assert found["updates"]["staleness"]["max"] == 2
    assert sum(worker["share"] for worker in found["updates"]["workers"]) == pytest.approx(1.0)
    exported = said(capsys, "export", str(folder.path), "--csv", str(tmp_path / "out")).splitlines()
    assert exported[-1].endswith("-updates.csv")


# --- Runs of jobs on sites --------------------------------------------------------------------------------------------

JOB = "9c1f0d6a-0000-4000-8000-00000000000a"


class Copy:
    """The copy of a run on a site, whose journal ends as ``last`` says: without an end if that is None."""

    def __init__(self, last: State | None = None) -> None:
        places = find_places()
        folder = begin_run(places.mirrors / RUN)
        with JournalWriter.create(folder.journal(1)) as writer:
            for event in (describe(folder, job=JOB), State(state=RunState.RUNNING), *([last] if last else [])):
                writer.append(event)
        self.book, self._record = job_book(places), run_record(places)
        self.book.note_order(JobOrder(job=JOB, site="lab", runs=(RunSpec(exercise="softmax", run=RUN),)), "The lab")
        self._record.number(RUN)

    def job(self, stage: JobStage, settled: bool = True, request: EndRequest | None = None, **news: object) -> None:
        """What became known of its job; ``settled``: all that it left is here."""
        if request is not None:
            self.book.note_end_request(JOB, request)
        self.book.note_news(JobStatus(job=JOB, stage=stage, id="7", **news))  # type: ignore[arg-type]
        if settled:
            self._record.add(RunLine(run=RUN, job=JOB))


def shown(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The run's state, which is the same everywhere, and what is said of its end."""
    state = json.loads(said(capsys, "show", "1", "--json"))["state"]
    word = state_word(RunState(state))
    assert f"softmax   mnist  {word} " in said(capsys, "runs").splitlines()[1]
    assert json.loads(said(capsys, "runs", "--json"))[0]["state"] == state
    lines = said(capsys, "show", "1").splitlines()
    assert lines[1].startswith(f"{word}: 0 steps")
    return state, lines[2]


@pytest.mark.usefixtures("home")
def test_a_run_whose_node_lost_its_power_has_failed_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    copy = Copy()
    copy.job(JobStage.RUNNING)
    assert shown(capsys)[0] == "RUNNING"
    text = "A node of the job failed on node1."
    copy.job(JobStage.ENDED, phase=Phase.NODE_FAILED, text=text, problem=Problem("job.node", text))
    assert shown(capsys) == ("FAILED", f"{text} (clew why job.node)")


@pytest.mark.usefixtures("home")
def test_that_the_end_was_not_fetched_yet_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Copy().job(JobStage.ENDED, settled=False, phase=Phase.COMPLETED, text="The job has ended.")
    end = "The job has ended. Some of it may not be here yet: clew attach 1 fetches it."
    assert shown(capsys) == ("LOST", end)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (EndRequest.CANCEL, "You cancelled the job."),
        (None, "The job was cancelled by root. Continue starts from the last checkpoint, if there is one."),
    ],
)
def test_who_cancelled_the_job_is_said(asked: EndRequest | None, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    copy = Copy(State(state=RunState.STOPPED, reason=JOB_ENDED))
    assert shown(capsys) == ("STOPPED", JOB_ENDED), "what the node knows"
    use = JobUse(waited=754.0, memory=3.1e9, energy=11_000.0)
    state = JobState(id="7", phase=Phase.CANCELLED, by="root", use=use)
    news = status_at_end(copy.book.news(JOB), state, Reason("The job was cancelled by root."), asked)
    copy.book.note_news(news)
    assert shown(capsys) == ("STOPPED", text if asked else f"{text} (clew why job.cancelled)")
    counted = "The scheduler's accounts of its job: waited 13 minutes, 3.1 GB of memory at most, 3.1 Wh."
    assert counted in said(capsys, "show", "1").splitlines()
    assert json.loads(said(capsys, "show", "1", "--json"))["job_use"]["energy"] == 11_000.0


@pytest.mark.usefixtures("home")
def test_a_run_that_waits_for_its_next_job_is_queued(capsys: pytest.CaptureFixture[str]) -> None:
    copy = Copy(State(state=RunState.TIMED_OUT, reason="Its time was up."))
    copy.job(JobStage.ENDED, phase=Phase.TIMED_OUT)
    assert shown(capsys) == ("TIMED_OUT", "Its time was up.")
    following = JobOrder(job=JOB.replace("9c", "8d"), site="lab", runs=(RunSpec(exercise="softmax", run=RUN),))
    copy.book.note_order(following)
    copy.book.note_news(JobStatus(job=following.job, stage=JobStage.QUEUED, id="8", text="Other jobs come first."))
    assert shown(capsys) == ("QUEUED", "Other jobs come first.")


# --- Keeping ----------------------------------------------------------------------------------------------------------


def test_verify_names_file_and_offset_of_a_flipped_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_run(tmp_path / "run").path
    assert "is as it was written" in said(capsys, "verify", str(folder))
    damaged = folder / "artifacts" / "picture.bin"
    damaged.write_bytes(b"\x00\x01\x03")
    assert main(["verify", str(folder)]) == 1
    assert capsys.readouterr().out.startswith("artifacts/picture.bin, offset 0: bytes 0–2: changed")
    assert main(["verify", str(folder), "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["file"], finding["offset"]) == ("artifacts/picture.bin", 0)


def test_export_writes_every_point_in_each_form_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = small_run(tmp_path / "run").path, tmp_path / "out"
    text = said(capsys, "export", str(folder), "--csv", str(out), "--jsonl", str(out), "--tensorboard", str(out))
    paths = [Path(line) for line in text.splitlines()]
    assert [path.is_file() for path in paths] == [True, True, True]
    with paths[0].open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["run", "step", "metric", "value", "wall_time"]
    assert len(rows) == 1 + 4 + 4 + 1, "four losses, four weights, one evaluation"
    assert {row[2] for row in rows[1:]} == {metric.name for metric in METRICS}


def test_export_says_that_a_journal_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_run(tmp_path / "run")
    journal = folder.journal(1)
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)
    assert main(["export", str(folder.path), "--csv", str(tmp_path / "out")]) == 1
    told = capsys.readouterr()
    assert Path(told.out.strip()).is_file()
    assert "damaged parts of the journals were left out (1)" in told.err


def test_export_names_everything_wrong_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    err = refused(capsys, "export", "nothing", "--csv", str(tmp_path / "file"))
    assert "2 things are wrong" in err
    assert f"{tmp_path / 'file'} is a file, not a folder." in err
    assert "There is no run 'nothing'" in err
    assert "Choose a format." in refused(capsys, "export", "last")
    assert (tmp_path / "file").read_text() == "mine"


# --- The catalogue ----------------------------------------------------------------------------------------------------


def test_the_catalogue_lists_the_exercises(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "catalogue")
    assert [name for name in ("linear-regression", "softmax", "cnn") if f"  {name} " in text] == [
        "linear-regression",
        "softmax",
        "cnn",
    ]


def test_the_catalogue_shows_one_exercise_with_its_flags(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "catalogue", "softmax")
    for words in ("--preset tiny", "--learning-rate", "mnist", "digits", "learning_rate 0.5"):
        assert words in text


def test_the_catalogue_as_json_holds_the_cards(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "catalogue", "--json"))
    cards = {card["id"]: card for card in found["exercises"]}
    assert {"id", "presets", "strategies", "params"} <= set(cards["cnn"])
    assert json.loads(said(capsys, "catalogue", "cnn", "--json")) == cards["cnn"]


# --- Comparing --------------------------------------------------------------------------------------------------------


@pytest.fixture
def rates(home: Path) -> list[Path]:
    """Three runs of softmax: two that differ in the seed alone, and one with another rate that did better."""
    folders = []
    for number, (rate, seed, best) in enumerate(((0.5, 1, 2.0), (0.5, 2, 4.0), (0.1, 1, 1.0))):
        folder = begin_run(home / "runs" / f"{number}-{seed}-0000-0000-{number}")
        spec = RunSpec(exercise="softmax", run=folder.path.name, seed=seed, params={"learning_rate": rate})
        folder.spec.write_text(to_toml(spec))
        with JournalWriter.create(folder.journal(1)) as writer:
            writer.append(describe(folder, time=1_700_000_000.0 + number))
            writer.append(Schema(id=1, metrics=METRICS))
            writer.append(points(0, [5, best]))
            end_run(folder, writer)
        folders.append(folder.path)
    return folders


def test_runs_are_compared_by_what_differs_with_repeats_as_one_line(
    rates: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "note", "3", "--name", "Slow rate", "--tag", "good")
    table = tmp_path / "compared.csv"
    said(capsys, "compare", "1", "2", "3", "--metric", "loss", "--target", "2", "--csv", str(table))
    assert list(csv.reader(table.read_text().splitlines())) == [
        ["Run", "Learning rate", "Best loss", "To baseline", "Steps to 2", "Seconds"],
        ["1, 2 (baseline)", "0.5", "3 ± 1.414", "", "1 (1 of 2)", "2.00"],
        ["3  Slow rate #good", "0.1", "1", "-2", "1", "2.00"],
    ]
    found = json.loads(said(capsys, "compare", "3", "--filter", "seed = 1", "--metric", "loss", "--json"))
    assert [(group["runs"], group["delta"]) for group in found["groups"]] == [([3], 0.0), ([1], 1.0)]


def test_runs_of_an_exercise_that_is_not_built_in_are_shown_and_the_folder_is_asked_for(
    rates: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.commands.agent_program.load_builtin", Catalogue)
    for words in (["show", "1"], ["compare", "1", "3"]):
        assert main(words) == 0
        assert "softmax is not one of Clew's own exercises." in capsys.readouterr().err
        assert refused(capsys, *words, "--exercises", "away").startswith(f"clew {words[0]}: There is no folder away.")


def test_a_range_test_is_not_compared(rates: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    spec = RunFolder(rates[1]).spec
    spec.write_text(to_toml(msgspec.structs.replace(read_spec(spec), rate_range=RateRange(0.001, 10.0))))
    text = "clew compare: Run 2 is a learning-rate range test: its values are of many rates."
    assert refused(capsys, "compare", "1", "2").strip() == f"{text} Leave it out. (clew why compare.range_test)"
    found = json.loads(said(capsys, "compare", "--filter", "softmax", "--metric", "loss", "--json"))
    assert [group["runs"] for group in found["groups"]] == [[1], [3]]
    assert "Range test        0.001 to 10" in said(capsys, "show", "2")


def test_runs_are_filtered_and_fit_eighty_columns(rates: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "note", "2", "--note", "again", "--tag", "twice")
    assert json.loads(said(capsys, "note", "2", "--json"))["tags"] == ["twice"]
    listed = json.loads(said(capsys, "runs", "--json", "--filter", "learning_rate > 0.2 #twice"))
    assert [(run["number"], run["note"]) for run in listed] == [(2, "again")]
    seen = [look.look_at(run, load_builtin(), KeptJobs(find_places())) for run in kept_runs(find_places())]
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(look.runs_table(seen, (), 80))
    lines = console.export_text().splitlines()
    assert len(lines) == 4
    assert [" ".join(line.split()[3:7]) for line in lines[1:]] == [
        "rate 0.5, seed 1",
        "rate 0.5, seed 2",
        "rate 0.1, seed 1",
    ]


def test_where_the_time_of_traced_steps_went_is_said_and_exported(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_run(home / "runs" / RUN, [trace(step=2)])
    lines = said(capsys, "show", "1").splitlines()
    assert "Steps 3 to 4, 2.00 ms each: compute 75 %, input 12 %, host 5.0 %, idle 7.5 %." in lines
    shown = json.loads(said(capsys, "show", "1", "--json"))["trace"]
    assert (shown["step"], shown["count"], shown["compute"]) == (2, 2, pytest.approx(0.75))
    (written,) = said(capsys, "export", "1", "--trace", str(tmp_path / "out")).split()
    assert json.loads(Path(written).read_text(encoding="utf-8"))["displayTimeUnit"] == "ms"


def test_what_runs_used_of_their_machine_is_said_listed_and_filtered(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used = pulse(1_700_000_000.0, cpu=[1.5] * 5, memory=[1e9, 2e9, 1e9, 1e9, 1e9], memory_limit=[16e9] * 5)
    folder = small_run(home / "runs" / RUN, [used])
    assert "CPU 150 % on average; memory 2.0 of 16 GB at most." in said(capsys, "show", "1").splitlines()
    shown = json.loads(said(capsys, "show", "1", "--json"))
    assert shown["usage"] == {"cpu": 1.5, "memory": 2e9, "memory_limit": 16e9, "seconds": 4.0}
    assert re.search(r"150 % +2\.0 GB +–", said(capsys, "runs", "--columns", "mean_cpu,peak_memory,energy"))
    assert len(json.loads(said(capsys, "runs", "--json", "--filter", "peak_memory > 1e9"))) == 1
    assert json.loads(said(capsys, "runs", "--json", "--filter", "mean_cpu > 2")) == []
    assert said(capsys, "export", str(folder.path), "--csv", str(tmp_path)).splitlines()[-1].endswith("-pulse.csv")
    small_run(home / "runs" / RUN.replace("0001", "0002"))
    compared = said(capsys, "compare", "1", "2")
    assert "Peak memory" in compared
    assert "150 %" in compared
    found = json.loads(said(capsys, "compare", "1", "2", "--json"))["groups"]
    assert [group["usage"] for group in found] == [{"mean_cpu": 1.5, "peak_memory": 2e9}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "1"], "clew compare: 1 run to compare. Name two runs or more, for example: clew compare 3 7"),
        (
            ["compare", "1", "2", "--metric", "los"],
            "clew compare: None of these runs recorded 'los'. Recorded: loss, W.",
        ),
        (["runs", "--filter", "rate > 1"], "clew runs: No run has a value named 'rate'."),
        (["runs", "--columns", "seed,lerning_rate"], "clew runs: No run has a value named 'lerning_rate'. Did you"),
        (["answer", "softmax", "--exercises", "away", "1", "So."], "clew answer: There is no folder away."),
        (["note", "1", "--name", "x" * 61], "clew note: A run's name may have 60 characters, this one has 61."),
    ],
)
def test_a_comparison_that_cannot_be_made_says_why(
    words: list[str], message: str, rates: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *words).startswith(message)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["compl"], ["completion"]),
        (["compare", ""], ["last", "3", "2", "1"]),
        (["compare", "1", "--base"], ["--baseline"]),
        (["run", "soft"], ["softmax"]),
        (["run", "softmax", "--lear"], ["--learning-rate"]),
        (["nothing", ""], []),
    ],
)
def test_tab_offers_commands_runs_exercises_and_options(
    words: list[str], offered: list[str], rates: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "completion", "--words", *words).split() == offered


@pytest.mark.parametrize("command", [one.name for one in COMMANDS])
def test_tab_offers_the_options_of_each_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--help" in said(capsys, "completion", "--words", command, "--h").split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_the_command_itself(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "clew completion --words" in said(capsys, "completion", shell)


@pytest.mark.parametrize("number", ["\u0661", "1_0", "0x1", "1.0", "one", "\u00b2", "1e0", "1,5"])
@pytest.mark.parametrize(
    "words", [("answer", "softmax"), ("try", "1", "--sample"), ("scaling", "softmax", "--repeats")]
)
def test_a_whole_number_has_plain_digits(
    words: tuple[str, ...], number: str, kept: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, number]) == 2
    assert "whole number" in (err := capsys.readouterr().err)
    assert repr(number) in err


@pytest.mark.parametrize("number", ["\u0661", "1_0", "0,5", "half"])
def test_a_number_has_plain_digits(number: str, kept: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "1", "2", "--target", number]) == 2
    assert f"Argument --target: expected a number such as 0.5 or 25,000, got {number!r}" in capsys.readouterr().err


@pytest.mark.parametrize("point", ["\u0661,0.5", "1_0,0.5", "100,\u0661", "100,1_0"])
def test_a_predicted_point_has_plain_digits(point: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "drawn.csv"
    file.write_text(f"step,loss\n0,2.3\n{point}\n", encoding="utf-8")
    assert main(["run", "softmax", "--data", "digits", "--predict", str(file)]) == 2
    assert "is not a prediction" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("note", "1", "--name", "caf\udce9"),
        ("note", "1", "--tag", "\udcff"),
        ("answer", "softmax", "1", "caf\udce9"),
        ("hand-in", "1", "--student", "caf\udce9"),
        ("report", "1", "--html", "report.html", "--student", "caf\udce9"),
        ("run", "softmax", "--data", "digits", "--name", "caf\udce9"),
        ("runs", "--filter", "caf\udce9"),
        ("show", "caf\udce9"),
    ],
    ids=lambda words: words[0],
)
def test_an_argument_that_is_no_text_is_refused_or_found_nowhere(
    words: tuple[str, ...], kept: list[Path], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted((home / "runs").iterdir())
    status = main(words)
    out, err = capsys.readouterr()
    assert "unexpected" not in err + out
    assert status == (0 if words[0] == "runs" else 2)
    if words[0] in ("note", "answer", "hand-in", "report", "run"):
        shown = "%FF" if "--tag" in words else "caf%E9"
        assert f"clew {words[0]}: '{shown}' is no text: it has bytes that are no UTF-8 (shown as %FF)" in err
    assert student_name(find_places()) == ""
    assert sorted((home / "runs").iterdir()) == before


def test_a_recording_is_one_of_a_run_that_has_ended_and_needs_a_display(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert main(["replay", "--list"]) == 0
    assert capsys.readouterr().out.split() == ["demo:parameter-servers", "demo:two-nodes"]
    folder = begin_run(home / "runs" / RUN)
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
    for words, says in (
        (["replay", "demo:two-nodes"], "There is no display here to show the recording."),
        (["replay", "demo:two-node"], "There is no demonstration 'two-node'. Did you mean"),
        (["replay", RUN], f"The run in {folder.path} has not ended."),
    ):
        assert main(words) == 2
        assert says in capsys.readouterr().err
