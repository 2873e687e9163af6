"""Whether a window could be seen, asked of real sockets."""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from clew_gui.commands.has_display import has_display
from clew_gui.commands.main import main
from clew_gui.commands.output.braille import plot
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunState
from tests.unit.runs import begin_run, describe, end_run


@pytest.fixture
def wayland() -> Iterator[dict[str, str]]:
    """An environment with a socket on which something listens. Paths of sockets are short, hence no tmp_path."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(Path(folder) / "wayland-0"))
        server.listen()
        yield {"XDG_RUNTIME_DIR": folder, "WAYLAND_DISPLAY": "wayland-0"}


@pytest.mark.unix("a Unix socket")
def test_a_wayland_server_that_answers_is_a_display(wayland: dict[str, str]) -> None:
    assert has_display(wayland, "linux")
    assert not has_display({**wayland, "QT_QPA_PLATFORM": "offscreen"}, "linux")
    assert not has_display({**wayland, "QT_QPA_PLATFORM": "minimal:fontconfig"}, "linux")


def test_a_forwarded_x_server_is_asked_over_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1] - 6000
        assert has_display({"DISPLAY": f"127.0.0.1:{number}.0"}, "linux")
    assert not has_display({"DISPLAY": f"127.0.0.1:{number}.0"}, "linux"), "nobody listens any more"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"DISPLAY": ""},
        {"DISPLAY": ":54321"},
        {"DISPLAY": "unix:54321.0"},
        {"DISPLAY": "nonsense"},
        {"DISPLAY": "127.0.0.1:99999"},
        {"WAYLAND_DISPLAY": "wayland-0", "XDG_RUNTIME_DIR": "/nonexistent"},
        {"WAYLAND_DISPLAY": "wayland-0"},
    ],
)
def test_a_name_behind_which_nobody_answers_is_none(environ: dict[str, str]) -> None:
    assert not has_display(environ, "linux")


@pytest.mark.parametrize(
    ("environ", "system", "expected"),
    [({}, "win32", True), ({}, "darwin", True), ({"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, "darwin", False)],
)
def test_other_systems_have_a_screen_but_not_over_ssh(environ: dict[str, str], system: str, expected: bool) -> None:
    assert has_display(environ, system) is expected


# --- Curves drawn with braille dots -----------------------------------------------------------------------------------

BLANK = " "


def dots(lines: tuple[str, ...]) -> int:
    return sum((ord(char) - 0x2800).bit_count() for line in lines for char in line if char != BLANK)


def test_a_falling_line_runs_from_the_upper_left_to_the_lower_right() -> None:
    picture = plot(np.array([0.0, 7.0]), np.array([1.0, 0.0]), width=4, height=2, last_step=7)
    assert picture.lines == ("⠑⢄  ", "  ⠑⢄")
    assert (picture.top, picture.bottom) == (1.0, 0.0)


def test_one_spike_among_ten_thousand_steps_is_drawn() -> None:
    values = np.zeros(10_000)
    values[4321] = 1.0
    picture = plot(np.arange(10_000.0), values, width=20, height=3, last_step=10_000)
    assert picture.lines[0].strip(BLANK), "the spike's top"
    assert len(picture.lines[0].strip(BLANK)) <= 2


def test_a_logarithmic_plot_makes_an_exponential_straight() -> None:
    steps = np.arange(8.0)
    straight = plot(steps, -steps, width=4, height=2, last_step=7)
    assert plot(steps, 10.0**-steps, width=4, height=2, last_step=7, log=True).lines == straight.lines


def test_a_run_that_has_only_begun_leaves_the_rest_empty() -> None:
    picture = plot(np.arange(10.0), np.arange(10.0), width=20, height=2, last_step=100)
    assert all(not line[3:].strip(BLANK) for line in picture.lines)


@pytest.mark.parametrize("values", [[], [np.nan, np.nan], [np.inf], [-1.0]])
def test_what_cannot_be_drawn_is_blank(values: list[float]) -> None:
    picture = plot(np.arange(float(len(values))), np.array(values), width=5, height=2, last_step=3, log=True)
    assert picture.lines == (BLANK * 5, BLANK * 5)
    assert np.isnan(picture.top)


def test_values_that_are_not_finite_leave_the_others_visible() -> None:
    picture = plot(np.arange(4.0), np.array([2.0, np.nan, np.inf, 1.0]), width=2, height=1, last_step=3)
    assert (picture.top, picture.bottom) == (2.0, 1.0)
    assert dots(picture.lines) >= 2


def test_a_constant_curve_is_one_line() -> None:
    picture = plot(np.arange(8.0), np.full(8, 3.0), width=4, height=2, last_step=7)
    assert picture.lines == ("⠉⠉⠉⠉", "    ")


def test_a_gap_in_the_journal_is_a_gap_in_the_curve_but_evaluations_are_joined() -> None:
    whole = np.arange(100.0)
    kept = np.r_[0:30, 70:100].astype(float)
    assert " " not in plot(whole, whole * 0 + 1, 50, 1, 100).lines[0].strip()
    assert " " * 10 in plot(kept, kept * 0 + 1, 50, 1, 100).lines[0].strip()
    lost = np.where((whole >= 30) & (whole < 70), np.nan, 1.0)
    assert " " * 10 in plot(whole, lost, 50, 1, 100).lines[0].strip()
    evaluated = np.array([0.0, 50.0, 99.0])
    assert " " not in plot(evaluated, evaluated * 0 + 1, 50, 1, 100).lines[0].strip()


def test_a_noisy_curve_is_a_line_between_its_bounds_and_no_block() -> None:
    steps = np.arange(6000, dtype=np.float64)
    noise = np.where(steps % 2 == 0, 1.0, -1.0)
    noise[3000] = 9.0
    picture = plot(steps, noise, width=30, height=8, last_step=6000)
    assert picture.top == 9.0
    assert sum(letter != " " for letter in picture.lines[0]) == 1, "one spike, and it is seen"
    full = sum(letter == "\u28ff" for line in picture.lines for letter in line)
    assert full == 0


# --- ``clew try`` on this computer ------------------------------------------------------------------------------------

RUBBISH = """
import json, os, sys
print("an exercise printed this")
print(json.dumps(dict(t="tried", run="r", step=int(os.environ["TF_NUM_INTRAOP_THREADS"]), probabilities=[0.25, 0.75])))
"""


@pytest.fixture
def tried(home: Path) -> str:
    folder = begin_run(home / "runs" / "aa11-first")
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        end_run(folder, writer, RunState.FINISHED)
    return folder.path.name


def answering(monkeypatch: pytest.MonkeyPatch, program: str, within_s: float = 180.0) -> None:
    monkeypatch.setattr("clew_gui.commands.run.try_run.agent_command", lambda *_: [sys.executable, "-c", program])
    monkeypatch.setattr("clew_gui.commands.run.try_run.TRY_WITHIN_S", within_s)


def test_an_answer_among_other_lines_is_found_and_one_thread_computes_it(
    tried: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, RUBBISH)
    assert main(["try", tried, "--sample", "1"]) == 0
    assert "after 1 steps: the image is 1, with 75.00 %" in capsys.readouterr().out


def test_a_network_that_does_not_answer_is_given_up_with_a_sentence(
    tried: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, "import time; time.sleep(600)", within_s=0.2)
    assert main(["try", tried, "--sample", "1"]) == 2
    assert "The network did not answer within 0 s. The first time" in capsys.readouterr().err


def test_what_the_process_said_at_its_end_is_told(
    tried: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, "raise SystemExit('no room')")
    assert main(["try", tried, "--sample", "1"]) == 2
    assert "It said:\nno room" in capsys.readouterr().err
