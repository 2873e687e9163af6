"""The ``clew`` command as a person types it: real processes, a real trainer, no window and no Qt."""

from __future__ import annotations

import csv
import gzip
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from PIL import Image

from clew_shared.journal.files import MAGIC
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run, summary
from clew_shared.spec import read_spec
from tests.integration.agent_runs import LIMIT_S, json_line, listing, trained, wait_for

BLOCKER = """
import sys

class NoQt:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("PySide6", "shiboken6", "pyqtgraph"):
            raise ImportError(f"{name} is not to be had here")
        return None

sys.meta_path.insert(0, NoQt())
"""
LESSON = Path(__file__).parents[3] / "docs" / "adding-an-exercise.md"


def clew(*words: object, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """``clew WORDS`` to its end."""
    command = [sys.executable, "-m", "clew_gui", *map(str, words)]
    env = {name: value for name, value in os.environ.items() if name != "CLEW_DATA"} | dict(environ or {})
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)


class Tiny(NamedTuple):
    """A finished run of ``softmax --preset tiny`` and what ``clew run --json`` printed."""

    home: Path
    folder: Path
    environ: dict[str, str]
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Made by Pythons that have no Qt at all, as on a machine without it."""
    home = tmp_path_factory.mktemp("tiny-home")
    blocker = tmp_path_factory.mktemp("no-qt")
    (blocker / "sitecustomize.py").write_text(BLOCKER)
    environ = {"CLEW_HOME": str(home), "PYTHONPATH": str(blocker)}
    done = clew("run", "softmax", "--preset", "tiny", "--seed", 5, "--json", environ=environ)
    (folder,) = (home / "runs").iterdir()
    return Tiny(home, folder, environ, done)


@pytest.fixture
def copy(tiny: Tiny, tmp_path: Path) -> Path:
    """A copy of the run's folder that a test may damage."""
    return Path(shutil.copytree(tiny.folder, tmp_path / "copy"))


# --- Runs -------------------------------------------------------------------------------------------------------------


def test_a_run_without_qt_ends_with_one_line_of_json(tiny: Tiny) -> None:
    blocked = subprocess.run([sys.executable, "-c", "import PySide6"], env=os.environ | tiny.environ, check=False)
    assert blocked.returncode == 1, "Qt cannot be imported there"
    assert tiny.done.returncode == 0, tiny.done.stderr
    (line,) = tiny.done.stdout.splitlines()
    found = json.loads(line)
    assert (found["exercise"], found["state"], found["steps"]) == ("softmax", "FINISHED", 100)
    assert found["run"] == tiny.folder.name
    assert 0.8 < found["metrics"]["test_accuracy"] <= 1
    assert found["steps_per_second"] > 0
    assert 0 < found["first_point_seconds"] <= found["seconds"]
    assert Path(found["run_dir"]) == tiny.folder
    assert Path(found["journal"]).read_bytes().startswith(MAGIC)
    assert found == json.loads(json.dumps(summary(read_run(tiny.folder), tiny.folder)))


def test_what_is_for_people_goes_to_standard_error(tiny: Tiny) -> None:
    err = tiny.done.stderr
    assert err.startswith("Softmax on MNIST: preset tiny, seed 5, data digits\n")
    for words in ("Data set digits", "step 100 of 100", "Finished: 100 steps", str(tiny.folder)):
        assert words in err
    assert "[ ] 2 more goals with MNIST\n[ ] 1 more goal with Fashion-MNIST\n" in err
    assert "] 90 % on the small digits (Test accuracy: " in err


def test_the_run_is_listed_and_shown(tiny: Tiny) -> None:
    (run,) = json.loads(clew("runs", "--json", environ=tiny.environ).stdout)
    shown = json.loads(clew("show", "last", "--json", environ=tiny.environ).stdout)
    assert run == {"number": 1} | shown
    assert (shown["preset"], shown["seed"], shown["data"]) == ("tiny", 5, "digits")
    assert shown["params"]["steps"] == 100
    assert shown["goals"].keys() == {"digits"}
    assert " digits Finished " in " ".join(clew("runs", environ=tiny.environ).stdout.split())
    assert {name: shown[name] for name in json_line(tiny.done.stdout)} == json_line(tiny.done.stdout)


def test_try_asks_the_trained_network_what_an_image_file_shows(tiny: Tiny, tmp_path: Path) -> None:
    path = tmp_path / "stroke.png"
    image = Image.new("L", (40, 60), 255)
    image.paste(0, (17, 8, 22, 52))
    image.save(path)
    done = clew("try", "last", path, "--json", environ=tiny.environ)
    assert done.returncode == 0, done.stderr
    answer = json_line(done.stdout)
    assert (answer["run"], answer["step"], answer["label"]) == (tiny.folder.name, 100, -1)
    assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-5)
    assert answer["answer"] == "1", "one stroke, whose thickness and centre are those of MNIST's"
    refused = clew("try", "last", __file__, environ=tiny.environ)
    assert refused.returncode == 2
    assert "is not a readable image" in refused.stderr


def test_verify_finds_one_flipped_byte_in_any_file(tiny: Tiny, copy: Path) -> None:
    assert clew("verify", copy, environ=tiny.environ).returncode == 0
    files = [path for path in sorted(copy.rglob("*")) if path.is_file()]
    assert {"journal.0001", "spec.toml", "log.txt"} <= {path.name for path in files}
    for path in (copy / "spec.toml", copy / "journal.0001"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    done = clew("verify", copy, environ=tiny.environ)
    assert done.returncode == 1
    assert re.search(r"^spec\.toml, offset \d+: ", done.stdout, re.MULTILINE)
    assert re.search(r"^journal\.0001, offset \d+: ", done.stdout, re.MULTILINE)


def test_export_writes_every_step(tiny: Tiny, tmp_path: Path) -> None:
    done = clew("export", tiny.folder.name[:6], "--csv", tmp_path / "out", environ=tiny.environ)
    assert done.returncode == 0, done.stderr
    with Path(done.stdout.splitlines()[0]).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows if row["metric"] == "loss"] == list(range(100))
    assert {row["run"] for row in rows} == {tiny.folder.name}


@pytest.mark.usefixtures("light")
def test_a_terminal_shows_the_curve_while_it_grows(home: Path) -> None:
    """Under a pseudo-terminal: braille dots, a progress bar, and the result behind the picture."""
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "clew_gui", "run", "linear-regression", "--preset", "tiny"]
    environ = os.environ | {"TERM": "xterm-256color", "COLUMNS": "90", "LINES": "40"}
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environ) as process:
        os.close(follower)
        text = b"".join(_read_terminal(leader)).decode()
        os.close(leader)
        assert process.wait(LIMIT_S) == 0
    assert any(0x2800 < ord(char) < 0x2900 for char in text)
    assert "━" in text
    assert "Finished: 100 steps" in text.rsplit("─", 1)[-1]


def _read_terminal(leader: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:  # Linux' word for the end of a pseudo-terminal
            return
        if not data:
            return
        yield data


def test_an_exercise_of_ones_own_runs_as_the_page_says(tmp_path: Path) -> None:
    """The example of docs/adding-an-exercise.md, with flags that only it has."""
    lab = tmp_path / "my-lab"
    lab.mkdir()
    example = re.findall(r"```python\n(.*?)```", LESSON.read_text(encoding="utf-8"), re.DOTALL)[0]
    (lab / "two_layers.py").write_text(example, encoding="utf-8")
    words = ("run", lab / "two_layers.py", "--preset", "tiny", "--hidden", 30, "--activation", "tanh")
    done = clew(*words, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    assert json_line(done.stdout)["metrics"]["test_accuracy"] > 0.7
    params = read_spec(RunFolder(tmp_path / "run").spec).params
    assert (params["hidden"], params["activation"]) == (30, "tanh")
    figures = read_run(tmp_path / "run").figures
    assert {name: found[-1].step for name, found in figures.items()} == {"units": 60, "mistakes": 60, "confusion": 60}


# --- Stopping and going on --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("light")
def test_ctrl_c_stops_with_a_checkpoint_and_resume_goes_on_from_there(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ["run", "softmax", "--data", "digits", "--steps", "10000000", "--out", str(folder), "--json"]
    process = subprocess.Popen([sys.executable, "-m", "clew_gui", *words], stdout=subprocess.PIPE, text=True)
    with process:
        wait_for(folder, trained(100))
        checked = clew("verify", folder)
        assert (checked.returncode, "not as it was written" in checked.stdout) == (0, False)
        assert "It still trains; it was checked up to here." in checked.stdout
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    found = json_line(out)
    assert found["state"] == "STOPPED"
    assert 100 <= found["steps"] < 10_000_000
    assert (folder / "checkpoints" / f"{found['steps']:08d}").is_dir()
    assert clew("verify", folder).returncode == 0

    process = subprocess.Popen(
        [sys.executable, "-m", "clew_gui", "resume", str(folder), "--json"], stdout=subprocess.PIPE, text=True
    )
    with process:
        wait_for(folder, trained(found["steps"] + 1), attempt=2)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    again = json_line(out)
    assert again["steps"] > found["steps"]
    assert Path(again["journal"]).name == "journal.0002"
    assert clew("verify", folder).returncode == 0


@pytest.mark.usefixtures("light")
def test_a_killed_trainer_is_a_failed_run_that_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ["run", "softmax", "--data", "digits", "--steps", "10000000", "--out", str(folder), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "clew_gui", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        (attempt, *_) = wait_for(folder, trained(100))
        psutil.Process(attempt.pid).kill()  # type: ignore[attr-defined]  # the first event is the attempt
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    found = json_line(out)
    assert found["state"] == RunState.FAILED
    assert "SIGKILL" in found["problem"]["text"]
    assert "SIGKILL" in err
    assert clew("verify", folder).returncode == 0


# --- Bad input: exit status 2, one message with everything wrong, no traceback, nothing left behind -------------------


class Runs:
    """Unpickling this would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run softmax --learning-rate -1", ["must be greater than 0, got -1"]),
        (
            "run softmax --learning-rate x --batch-size 0 --optimizer sgdd --seed -3 --preset tinny --data no.npz --st",
            ["'x'", "at least 1, got 0", "'sgdd'", "'-3'", "Did you mean tiny?", "no.npz", "There is no option --st."],
        ),
        ("run sofmax --seed 1.5", ["There is no exercise 'sofmax'. Did you mean softmax?", "'1.5'"]),
        ("run softmax", ["'mnist' was not found", "--data digits", "CLEW_DATA"]),
        ("run softmax --data /nonexistent/mnist.npz", ["There is no file or folder /nonexistent/mnist.npz"]),
        ("run softmax --data {junk}", ["{junk}"]),
        ("run softmax --data {evil}", ["{evil}", "could run code"]),
        ("run softmax --preset tiny --out {full}", ["{full} is not empty"]),
        ("run softmax --preset tiny --out {junk}", ["{junk} is a file"]),
        ("run softmax --preset tiny --out /proc/nowhere", ["/proc/nowhere"]),
        ("run softmax --exercises {full}/none", ["{full}/none"]),
        ("resume {broken}", ["is not valid TOML"]),
        ("show nothing", ["There is no run 'nothing'"]),
        ("verify {full}", ["{full}"]),
        ("export last", ["Choose a format.", "There is no run 'last'"]),
    ],
)
def test_bad_input_is_refused_whole_and_leaves_nothing(words: str, told: list[str], tmp_path: Path) -> None:
    names = {name: tmp_path / name for name in ("full", "broken", "trace")}
    names |= {"junk": tmp_path / "junk.npz", "evil": tmp_path / "mnist.pkl.gz"}
    for folder in ("full", "broken"):
        names[folder].mkdir()
    (names["full"] / "mine.txt").write_text("mine")
    (names["broken"] / "journal.0001").write_bytes(b"")
    (names["broken"] / "spec.toml").write_text("exercise = [")
    names["junk"].write_bytes(b"PK\x03\x04 this is no archive")
    names["evil"].write_bytes(gzip.compress(pickle.dumps((Runs(names["trace"]),) * 3)))
    before = listing(tmp_path)
    temporary, runtime = (tmp_path.parent / f"{tmp_path.name}-{name}" for name in ("tmp", "runtime"))
    temporary.mkdir()
    runtime.mkdir()

    done = clew(*words.format(**names).split(), environ={"TMPDIR": str(temporary), "XDG_RUNTIME_DIR": str(runtime)})

    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for sentence in told:
        assert sentence.format(**names) in done.stderr
    assert len(re.findall("^clew ", done.stderr, re.MULTILINE)) == 1, "one message"
    assert listing(tmp_path) == before
    assert listing(temporary) == []
    assert [path for path in runtime.rglob("*") if not path.is_dir()] == []


# --- clew start without a display -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("light")
def test_start_without_display_and_data_takes_digits_and_paints_the_window(home: Path) -> None:
    done = clew("start", "--exercise", "softmax", environ={"DISPLAY": "", "WAYLAND_DISPLAY": ""})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "There is no display here, so softmax runs in the terminal." in done.stdout
    assert "'mnist' was not found" in done.stdout
    assert "So the built-in digits are used" in done.stdout
    assert "Finished: 500 steps" in done.stdout
    match = re.search(r"^A picture of the window with this run: (.+)$", done.stdout, re.MULTILINE)
    assert match is not None
    picture = Path(match[1])
    assert picture.parent == home / "pictures"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000, "a window, not an empty picture"
    (folder,) = (home / "runs").iterdir()
    assert read_run(folder).fold.state is RunState.FINISHED
