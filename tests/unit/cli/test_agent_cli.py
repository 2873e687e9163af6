"""``clew-agent`` on the command line: refusals are one message, name everything, and leave nothing behind."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from clew_agent.cli import main as cli
from clew_agent.cli.headless import ProgressLine, line, with_preset
from clew_agent.node.exit_codes import exit_code_for
from clew_shared import __version__
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import State
from clew_shared.journal.files import encode_frame
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunFold, RunState
from clew_shared.spec import RunSpec
from tests.integration.agent_runs import listing
from tests.unit.runs import begin_run, small_run

SOFTMAX = 'exercise = "softmax"\ndata = "digits"\n'

LONG_NAME = pytest.mark.unix("Windows says of a name that is too long that nothing has it")
REFUSALS = {
    "wrong value": (SOFTMAX + "[params]\nlearning_rate = -1", ["learning_rate", "greater than 0", "-1"]),
    "wrong kind": (SOFTMAX + '[params]\nsteps = "many"', ["steps", "many"]),
    "several at once": (
        SOFTMAX + 'strategy = "teleport"\n[params]\nlearning_rate = 0\nsteps = -5\nbatchsize = 3\noptimizer = "magic"',
        ["5 things", "learning_rate", "steps", "Did you mean batch_size?", "magic", "teleport"],
    ),
    "unknown exercise": ('exercise = "sofmax"', ["'sofmax'", "Did you mean softmax?"]),
    "unknown preset": (SOFTMAX + 'preset = "teeny"', ["'teeny'", "tiny"]),
    "unknown data": ('exercise = "softmax"\ndata = "mnsit"', ["'mnsit'", "Did you mean mnist?"]),
    "missing data": ('exercise = "softmax"\ndata = "/no/such/file.npz"', ["file.npz", "digits"]),
    "missing mnist": (
        'exercise = "softmax"',
        ["mnist", "Choose the file", "Use --data /here/mnist.npz or --data"],
    ),
    "data name too long": (f'exercise = "softmax"\ndata = "{"x" * 5000}"', ["There is no data set"]),
    "name too long": (SOFTMAX + f'name = "{"x" * 5000}"', ["60 characters, this one has 5000"]),
    "data where none is needed": ('exercise = "linear-regression"\ndata = "digits"', ["takes no data set"]),
    "another file": (SOFTMAX + 'source_hash = "0123"', ["another version of softmax"]),
    "too many devices": (SOFTMAX + "devices = 4", ["1 device, not on 4"]),
    "broken TOML": ("exercise = softmax", ["not valid TOML", "line 1"]),
    "unknown field": (SOFTMAX + "colour = 3", ["colour"]),
    "no exercise": ("seed = 3", ["exercise"]),
    "future format": (SOFTMAX + "format = 9", ["9"]),
    "run id that is a path": (SOFTMAX + 'run = "../../etc"', ["../../etc"]),
}


@pytest.fixture(autouse=True)
def nobodys_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """No MNIST is to be found."""
    monkeypatch.delenv("CLEW_DATA", raising=False)
    monkeypatch.delenv("CLEW_COURSE_DATA", raising=False)


TOO_LONG = (f'exercise = "softmax"\ndata = "/{"x" * 5000}.npz"', ["The data path", "too long"])
CASES = [pytest.param(*case, id=name) for name, case in REFUSALS.items()]


@pytest.mark.parametrize(("text", "words"), [*CASES, pytest.param(*TOO_LONG, id="data path too long", marks=LONG_NAME)])
def test_bad_input_is_one_message_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: list[str]
) -> None:
    (tmp_path / "spec.toml").write_text(text)
    before = listing(tmp_path)
    assert cli.main(["run", str(tmp_path / "spec.toml"), "--json"]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["problems"]
    assert said.err.startswith("clew-agent run: ")
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run"], "A run spec is needed"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["run", "--resume", "nowhere"], "not a run folder"),
        (["replay", "nowhere"], "'nowhere'"),
        pytest.param(["run", "x" * 5000], "too long", marks=LONG_NAME),
        pytest.param(["run", "--resume", "x" * 5000], "too long", marks=LONG_NAME),
        pytest.param(["replay", "x" * 5000], "too long", marks=LONG_NAME),
        pytest.param(["catalogue", "--exercises", "x" * 5000], "too long", marks=LONG_NAME),
        (["dance"], "no command 'dance'"),
        (["catalogue", "--exercises", "nowhere"], "nowhere"),
    ],
)
def test_wrong_use_is_told(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    said = capsys.readouterr()
    assert text in said.err
    assert "Traceback" not in said.err


def test_a_folder_with_something_in_it_is_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.toml").write_text(SOFTMAX)
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("years of work")
    assert cli.main(["run", str(tmp_path / "spec.toml"), "--out", str(full)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert listing(full) == ["thesis.tex"]


@pytest.mark.unix("Windows says of a name that is too long that nothing has it")
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.toml").write_text(SOFTMAX)
    (tmp_path / "file").write_text("")
    before = listing(tmp_path)
    assert cli.main(["run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "file" / "run")]) == 2
    assert "cannot be made" in capsys.readouterr().err
    assert listing(tmp_path) == before
    assert cli.main(["run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / ("x" * 5000)), "--json"]) == 2
    said = capsys.readouterr()
    assert "is too long for a file" in said.err
    assert json.loads(said.out)["problems"][0]["code"] == "path.long"
    assert listing(tmp_path) == before


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"clew-agent {__version__}\n"
    assert cli.main([]) == 0
    assert "catalogue" in capsys.readouterr().out


def test_a_preset_fills_what_the_spec_leaves_open() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    tiny = next(preset for preset in card.presets if preset.name == "tiny")
    spec = RunSpec(exercise="softmax", preset="tiny", params={"learning_rate": 0.123})
    full = with_preset(spec, card, seeded=False)
    assert full.params == tiny.values | {"learning_rate": 0.123}
    assert full.data == tiny.data == "digits"
    assert with_preset(full, card, seeded=True) == full
    assert with_preset(RunSpec(exercise="softmax", preset="tiny", data="mnist"), card, seeded=True).data == "mnist"


@pytest.mark.parametrize(
    ("state", "exit_code", "expected"),
    [
        (RunState.FINISHED, None, 0),
        (RunState.FAILED, 1, 1),
        (RunState.FAILED, -9, 1),
        (RunState.FAILED, 2, 2),
        (RunState.TIMED_OUT, None, 1),
        (RunState.STOPPED, None, 130),
    ],
)
def test_exit_codes(state: RunState, exit_code: int | None, expected: int) -> None:
    fold = RunFold()
    fold.feed(1, State(state=RunState.RUNNING))
    fold.feed(1, State(state=state, exit_code=exit_code))
    assert exit_code_for(fold) == expected


def test_replay_prints_every_event_with_readable_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_run(tmp_path / "run")
    assert cli.main(["replay", str(folder.path)]) == 0
    lines = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert lines[0]["event"]["t"] == "attempt"
    assert lines[-1]["event"]["t"] == "seal"
    first = next(one["event"] for one in lines if one["event"]["t"] == "points")
    assert len(first["values"]["loss"]) == first["count"]


def test_replay_reports_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = small_run(tmp_path / "run")
    data = bytearray(folder.journal(1).read_bytes())
    data[20] ^= 1
    folder.journal(1).write_bytes(data)
    assert cli.main(["replay", str(folder.path)]) == 1
    lines = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert lines[0]["offset"] == 0
    assert "damage" in lines[0]


class Terminal(io.StringIO):
    """A stream that takes itself for a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_progress_line_says_how_far_the_run_is(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    screen = Terminal()
    show = ProgressLine(folder, 1, screen)
    show.tick()
    assert "FINISHED  step 4 of 4" in screen.getvalue()
    assert "test_accuracy 0.9" in screen.getvalue()
    length = len(screen.getvalue())
    show.tick()
    assert len(screen.getvalue()) == length, "once a second is enough"
    show.close()
    assert screen.getvalue().endswith("\r")


def test_the_progress_line_reads_a_frame_again_that_was_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_agent.cli.headless._EVERY_S", 0.0)
    folder = begin_run(tmp_path / "run")
    screen = Terminal()
    show = ProgressLine(folder, 1, screen)
    first, second = (encode_frame(State(state=state)) for state in (RunState.STARTING, RunState.PREPARING))
    longer = encode_frame(State(state=RunState.RUNNING, reason="of some length"))
    for content in (first + longer[:-3], first, first + second):
        folder.journal(1).write_bytes(content)
        show.tick()
    assert [word for word in screen.getvalue().split() if word.isupper()] == ["STARTING", "STARTING", "PREPARING"]


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_no_progress_where_nobody_looks(tmp_path: Path, stream: io.StringIO) -> None:
    show = ProgressLine(small_run(tmp_path / "run"), 1, stream, quiet=stream.isatty())
    show.tick()
    show.close()
    assert stream.getvalue() == ""


def test_a_progress_line_without_any_record() -> None:
    assert line(History()) == "DRAFT  step 0"


@pytest.mark.parametrize(
    "words", [["run", "--json", "spec.toml"], ["run", "--json"], ["run", "--json", "--resume", "."]]
)
def test_with_json_a_refusal_is_a_line_for_programs_as_well(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SOFTMAX + "[params]\nlearning_rate = 0\nsteps = -5", encoding="utf-8")
    assert cli.main(words) == 2
    told = capsys.readouterr()
    assert told.err
    problems = json.loads(told.out)["problems"]
    assert all(problem["text"] for problem in problems)
    assert len(problems) == (2 if "spec.toml" in words else 1)


@pytest.mark.parametrize(
    ("name", "words"),
    [("Two Layers", "small letters, digits and single hyphens"), ("../x", "cannot be the name"), ("there", "exists")],
)
def test_a_new_exercise_is_refused_where_it_could_do_harm(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "there.py").write_text("mine")
    assert cli.main(["new", name, "--folder", str(lab)]) == 2
    assert words in capsys.readouterr().err
    assert [path.read_text() for path in lab.iterdir()] == ["mine"]
