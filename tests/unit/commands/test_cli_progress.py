"""What a running exercise looks like in a terminal and in a file."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from clew_gui.base.settings import LocalSettings, local_settings
from clew_gui.commands.output import words
from clew_gui.commands.output.progress import (
    LiveDisplay,
    PlainDisplay,
    choose_display,
    picture,
    progress_line,
    seconds_left,
)
from clew_gui.commands.output.result import exit_status, result_lines, title, why
from clew_shared.base.places import Places
from clew_shared.cards import ExerciseCard, Goal, MetricSpec, PlotSpec
from clew_shared.journal.events import Evaluation, Log, Points, Schema, State
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.run_settings import inside
from clew_shared.spec import RunSpec
from tests.unit.runs import METRICS, begin_run, describe, points

CARD = ExerciseCard(
    id="softmax",
    title="Softmax",
    metrics=METRICS,
    plots=(PlotSpec(id="loss", title="Loss", metrics=("loss",)), PlotSpec(id="w", title="Weight", metrics=("W",))),
    goals=(Goal(id="good", text="90 %", metric="test_accuracy", op=">=", value=0.9),),
    datasets=("mnist", "digits"),
)


def half_way(tmp_path: Path) -> History:
    """Two of four steps done, at two steps a second."""
    history = History()
    folder = begin_run(tmp_path / "run")
    for event in (describe(folder), Schema(id=1, metrics=METRICS), State(state=RunState.RUNNING), points(0, [4, 3])):
        history.feed(1, event)
    return history


def drawn(history: History, width: int, card: ExerciseCard | None = CARD, note: str = "") -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(picture(history, card, "a title", width, note))
    return capture.get()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3725, "1 h 02 min"),
        (float("nan"), "–"),
        (-1, "–"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(("label", "text"), [("Test accuracy", "test accuracy"), ("W", "W"), ("KL term", "KL term")])
def test_labels_inside_a_sentence(label: str, text: str) -> None:
    assert inside(label) == text


def test_the_progress_line_says_how_far_how_fast_and_how_long(tmp_path: Path) -> None:
    history = half_way(tmp_path)
    assert progress_line(history) == "step 2 of 4, 2.00 steps/s, 1.0 s left"
    history.feed(1, points(2, [2, 1]))
    assert progress_line(history) == "step 4 of 4, 2.00 steps/s"
    assert seconds_left(history) is None


@pytest.mark.parametrize("width", [60, 120])
def test_the_picture_fits_the_terminal(width: int, tmp_path: Path) -> None:
    lines = drawn(half_way(tmp_path), width).splitlines()
    assert max(len(line) for line in lines) <= width
    assert ("Weight" in "".join(lines)) == (width >= 100), "the second plot stands beside the first if there is room"
    assert "Loss" in "".join(lines)


def test_the_picture_calls_out_what_is_no_number_and_what_was_asked(tmp_path: Path) -> None:
    history = half_way(tmp_path)
    history.feed(1, points(2, [float("nan"), 1]))
    text = drawn(history, 80, note="Stopping after this block.")
    assert "Diverged: loss from step 2." in text
    assert "Stopping after this block." in text


def test_the_picture_of_a_run_that_has_not_begun_and_of_an_unknown_exercise(tmp_path: Path) -> None:
    assert "Starting" in drawn(History(), 80)
    assert "loss" in drawn(half_way(tmp_path), 80, card=None)


def test_a_file_gets_lines_instead_of_a_picture(tmp_path: Path) -> None:
    stream = io.StringIO()
    display = choose_display(Console(file=stream), CARD, "a title")
    assert isinstance(display, PlainDisplay)
    history = History()
    display.show(history)
    assert stream.getvalue() == "", "nothing before the run has begun: it may be refused"
    history = half_way(tmp_path)
    display.show(history)
    display.show(history)
    assert stream.getvalue().splitlines() == ["a title", "  step 2 of 4, 2.00 steps/s, 1.0 s left  loss 3, W 10"]
    history.feed(1, Evaluation(step=2, values={"test_accuracy": 0.5}))
    display.show(history, note="Stopping.")
    display.show(history, note="Stopping.", last=True)
    display.close()
    assert stream.getvalue().splitlines()[2:] == [
        "  Stopping.",
        "  step 2 of 4, 2.00 steps/s, 1.0 s left  loss 3, W 10, test accuracy 50.00 %",
    ]


@pytest.mark.unix("whether a pipe takes more can be asked")
def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # a line too many is an error instead of a wait without end
    with os.fdopen(reading) as reader, os.fdopen(writing, "w") as writer:
        display = choose_display(Console(file=writer), CARD, "a title")
        history = half_way(tmp_path)
        for step in range(2000):
            history.feed(1, Evaluation(step=step, values={"test_accuracy": step / 2000}))
            history.feed(1, Log(text=f"after step {step}"))
            display.show(history)
        os.set_blocking(reading, False)
        said = reader.read().splitlines()
        assert 10 < len(said) < 1900
        display.show(history)
        said += reader.read().splitlines()
        assert [line for line in said if "after" in line] == [f"  after step {step}" for step in range(2000)]
        assert "99.95 %" in said[-1]


def test_a_refused_run_leaves_no_picture_in_the_terminal(tmp_path: Path) -> None:
    stream = io.StringIO()
    display = choose_display(Console(file=stream, force_terminal=True, width=80), CARD, "a title")
    assert isinstance(display, LiveDisplay)
    display.show(half_way(tmp_path), last=True)
    assert "a title" in stream.getvalue()
    display.close(discard=True)
    assert "a title" not in stream.getvalue().rsplit("\x1b[1A", 1)[-1]


@pytest.mark.parametrize(
    ("state", "status"),
    [(RunState.FINISHED, 0), (RunState.STOPPED, 130), (RunState.FAILED, 1), (RunState.TIMED_OUT, 1)],
)
def test_the_exit_status_tells_the_end(state: RunState, status: int) -> None:
    assert exit_status(state) == status


def test_advice_is_given_unless_the_settings_say_none(tmp_path: Path) -> None:
    history, places = History(), Places(tmp_path / "home", tmp_path / "private")
    history.feed(1, Schema(id=1, metrics=(MetricSpec(name="loss", label="Loss"),)))
    flat = np.full(100, 2.3, "<f4").tobytes()
    history.feed(1, Points(schema=1, first=0, count=100, seconds=1.0, clock=1.0, values=(flat,)))
    history.feed(1, State(state=RunState.FINISHED, step=100))
    (advice,) = [line for line in result_lines(history, CARD, tmp_path, places) if line.startswith("Advice: ")]
    assert "has hardly come down from where it began" in advice
    local_settings(places).save(LocalSettings(advice=False))
    assert not any("Advice" in line for line in result_lines(history, CARD, tmp_path, places))


def test_the_result_names_values_goals_and_folder(tmp_path: Path) -> None:
    history = half_way(tmp_path)
    history.feed(1, Evaluation(step=2, values={"test_accuracy": 0.9}))
    history.feed(1, State(state=RunState.STOPPED, reason="stopped on request", time=1_700_000_005.0))
    lines = list(result_lines(history, CARD, tmp_path, Places(tmp_path / "home", tmp_path / "private")))
    assert lines[0] == "Stopped: 2 steps in 5.0 s at 2.00 steps/s; loss 3, W 10, test accuracy 90.00 %."
    assert lines[1] == "stopped on request"
    assert lines[2].startswith("[x] 90 % (")
    assert lines[-1] == f"Kept in {tmp_path}"


def test_the_title_says_what_is_run() -> None:
    assert title(RunSpec(exercise="softmax"), CARD) == "Softmax: seed 1, data mnist"
    assert title(RunSpec(exercise="mine", preset="tiny", seed=7), None) == "mine: preset tiny, seed 7"


def test_points_of_a_long_run_are_drawn_within_the_terminal(tmp_path: Path) -> None:
    history = half_way(tmp_path)
    values = np.linspace(5, 1, 200_000, dtype="<f4")
    block = Points(
        schema=1, first=2, count=len(values), seconds=1, clock=2, values=(values.tobytes(), bytes(8 * len(values)))
    )
    history.feed(1, block)
    assert max(len(line) for line in drawn(history, 70).splitlines()) <= 70


def resumed(tmp_path: Path) -> History:
    folder, history = begin_run(tmp_path / "run"), History()
    for event in (describe(folder), Schema(id=1, metrics=METRICS), points(0, [4, 3]), Log(text="an old word")):
        history.feed(1, event)
    return history


def test_a_run_that_may_be_refused_to_go_on_shows_nothing_yet(tmp_path: Path) -> None:
    lines: list[str] = []
    history = resumed(tmp_path)
    display = PlainDisplay(lines.append, CARD, "a title", after_attempt=1)
    display.show(history, last=True)
    assert lines == []
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    live = LiveDisplay(console, CARD, "a title", after_attempt=1)
    live.show(history, last=True)
    live.close(discard=True)
    assert "a title" not in console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    second = describe(begin_run(tmp_path / "run"), 2, resumes=1, start_step=1)
    for event in (second, Schema(id=1, metrics=METRICS), Log(text="a new word"), points(1, [2])):
        history.feed(2, event)
    display.show(history, last=True)
    assert lines[:2] == ["a title", "  a new word"]
    assert "an old word" not in "\n".join(lines)


def test_what_an_earlier_attempt_said_is_not_repeated_when_both_are_here_at_once(tmp_path: Path) -> None:
    lines: list[str] = []
    history = resumed(tmp_path)
    second = describe(begin_run(tmp_path / "run"), 2, resumes=1, start_step=1)
    for event in (second, Schema(id=1, metrics=METRICS), Log(text="a new word"), points(1, [2])):
        history.feed(2, event)
    PlainDisplay(lines.append, CARD, "a title", after_attempt=1).show(history, last=True)
    assert lines[:2] == ["a title", "  a new word"]
    assert "an old word" not in "\n".join(lines)


def test_an_exercise_that_is_not_at_hand_is_shown_with_the_words_of_its_journal(tmp_path: Path) -> None:
    history = half_way(tmp_path)
    history.metrics["W"] = MetricSpec(name="W", label="Slope W", dtype="float64")
    assert "Slope W" in drawn(history, 120, card=None)


def test_divergence_is_told_at_the_end_in_the_words_of_the_exercise(tmp_path: Path) -> None:
    history = half_way(tmp_path)
    history.feed(1, points(2, [float("nan"), 1]))
    assert list(why(history)) == ["Diverged: loss from step 2. A smaller learning rate may help."]
