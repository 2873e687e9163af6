"""Numbers and states as people read them, and the choices behind the table."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication

from clew_gui.base.state_words import STATE_WORDS
from clew_gui.jobs.job import JobStage, JobStatus
from clew_gui.schedulers.state import JobUse
from clew_gui.study.ranking import headline_metric
from clew_gui.views.actions.model import WindowModel
from clew_gui.views.form.fields import stepped
from clew_gui.views.lab.guide_page import GuidePart, pieces, rich
from clew_gui.views.presentation import words
from clew_gui.views.runs.bottom_panel import log_line, read_tail
from clew_gui.views.runs.details_panel import details
from clew_gui.views.runs.results import estimate, is_preset
from clew_gui.views.window.window_state import WindowState
from clew_shared.cards import Goal
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Log, Points
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import ParamSpec, Value, convert, value_words
from clew_shared.spec import RunSpec
from tests.gui import fakes
from tests.unit.runs import pulse


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.2, "< 1 s"), (9.6, "0:10"), (61, "1:01"), (3725, "1:02:05"), (math.nan, "–"), (-1, "–")],
)
def test_clock(seconds: float | None, text: str) -> None:
    assert words.clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.3, "less than 1 s"), (1.2, "2 s"), (89, "89 s"), (95, "2 min"), (3600, "60 min"), (7260, "2 h 1 min")],
)
def test_about(seconds: float, text: str) -> None:
    assert words.about(seconds) == text


def test_metrics_in_words() -> None:
    assert words.metric_value(fakes.TEST, 0.9079) == "90.79 %"
    assert words.metric_value(fakes.LOSS, 0.26749) == "0.2675"
    assert words.metric_value(fakes.LOSS, math.nan) == "NaN"
    assert words.metric_value(fakes.LOSS, math.inf) == "∞", "as in a terminal"
    assert words.metric_value(fakes.LOSS, None) == "–"


@pytest.mark.parametrize(
    ("done", "steps", "speed", "text"),
    [
        (18_420, 25_000, 182.0, "Will finish in 37 s."),
        (0, 25_000, None, ""),
        (24_999, 25_000, 182.0, "About to finish."),
        (10, 0, 182.0, ""),
    ],
)
def test_forecast(done: int, steps: int, speed: float | None, text: str) -> None:
    assert words.forecast(done, steps, speed) == text


def test_epochs() -> None:
    assert words.epochs(59_364, 200_000, 100, 1200) == "epoch 4,947 of 16,667"
    assert words.epochs(18_420, 25_000, 100, 50_000) == "epoch 36.8 of 50"
    assert words.epochs(500, 500, 100, 1200) == "epoch 41.7 of 41.7"
    assert words.epochs(5, 10, 100, 50_000) == "epoch 0.010 of 0.020"
    assert words.epochs(10, 1000, 0, 0) == ""


@pytest.mark.parametrize(
    ("text", "word", "wanted"),
    [
        ("Stopped on request.", "Stopped", "on request"),
        ("The disk is full.", "Failed", "the disk is full"),
        ("NaN at step 3", "Failed", "NaN at step 3"),
        ("", "Failed", ""),
    ],
)
def test_a_sentence_becomes_a_clause_behind_the_state_s_word(text: str, word: str, wanted: str) -> None:
    assert words.clause(text, word) == wanted


def test_every_state_has_a_word() -> None:
    assert STATE_WORDS[RunState.TIMED_OUT] == "Timed out"
    assert set(STATE_WORDS) == set(RunState)


@pytest.mark.parametrize(
    ("end", "detail"),
    [
        (None, "120 of 500, diverged at step 60"),
        (RunState.FINISHED, "at step 60"),
        (RunState.STOPPED, "at step 120"),
    ],
)
def test_a_run_whose_curve_is_no_number_any_more_says_so(end: RunState | None, detail: str) -> None:
    run = fakes.FakeRun("r", 1, 0, RunSpec(exercise="softmax"))
    run.begin()
    loss = np.where(np.arange(120) < 60, 1.0, np.nan).astype("<f4").tobytes()
    run.feed(Points(schema=1, first=0, count=120, seconds=0.1, clock=0.1, values=(loss, loss), time=1.0))
    if end is not None:
        run.end(end)
    assert words.state_detail(run) == detail


@pytest.mark.parametrize(
    ("number", "of", "text"),
    [
        (0, 3, ""),
        (1, 1, "goal reached"),
        (1, 3, "1 of 3 goals reached"),
        (2, 2, "both goals reached"),
        (3, 3, "all 3 goals reached"),
    ],
)
def test_goals_are_counted_where_there_are_several(number: int, of: int, text: str) -> None:
    assert words.goals_reached(number, of) == text


def test_goals_that_no_single_run_reached_are_counted_with_their_runs() -> None:
    assert words.goals_reached(2, 2, runs=2) == "both goals reached, in 2 runs"
    assert words.goals_reached(2, 3, runs=2) == "2 of 3 goals reached, in 2 runs"


def test_an_optimizer_has_one_name_everywhere_and_the_fields_help_says_what_it_means() -> None:
    card = load_builtin().exercises[0]
    run = fakes.FakeRun("r", 4, 0, RunSpec(exercise=card.id, params={"optimizer": "sgd", "learning_rate": 0.5}))
    spec = next(spec for spec in card.params if spec.name == "optimizer")
    assert value_words(spec, "sgd") == "SGD"
    assert "SGD is plain gradient descent" in spec.help
    assert words.param_words(run, card, "optimizer") == "SGD"
    assert words.run_title(run, card) == "4  SGD 0.5"
    lanes = [lane for one in load_builtin().exercises for race in one.races for lane in race.lanes]
    for lane in (lane for lane in lanes if "optimizer" in lane.values):
        named = run_of(one_name := str(lane.values["optimizer"]))
        assert lane.name.startswith(words.param_words(named, card, "optimizer")), one_name


def run_of(optimizer: str) -> fakes.FakeRun:
    """A run with that optimizer."""
    return fakes.FakeRun("r", 1, 0, RunSpec(exercise="softmax", params={"optimizer": optimizer}))


def test_runs_with_parameter_servers_are_told_apart_by_their_mode() -> None:
    options: dict[str, Value] = {"mode": "bounded", "staleness": 2, "workers": 4}
    run = fakes.FakeRun("r", 4, 0, RunSpec(exercise="softmax", strategy="parameter-server", options=options))
    assert words.run_title(run, fakes.card()) == "4  SGD 0.5 (parameter-server, bounded 2, 4 workers)"


def test_a_per_cent_sign_stays_with_its_number() -> None:
    assert words.unbroken("beat 90.79 % or 100 %, 7 or % 3") == "beat 90.79\u00a0% or 100\u00a0%, 7 or % 3"


def test_a_guide_of_some_hundred_words_is_read_in_minutes() -> None:
    assert [words.reading_minutes("word " * count) for count in (0, 20, 400)] == [0, 1, 2]


def test_the_best_of_the_table_is_the_goal_s_metric() -> None:
    assert headline_metric(fakes.card()) == fakes.TEST
    other = fakes.card(goals=(Goal(id="a", text="a", metric="loss", op="<=", value=1),))
    assert headline_metric(other) == fakes.LOSS
    assert headline_metric(fakes.card(goals=())) == fakes.TEST


def test_a_goal_as_a_chip() -> None:
    assert words.goal_short(fakes.GOAL) == "Goal 90.79 %"
    line = Goal(id="w", text="W = -1, b = 1.", metric="W", op="near", value=-1)
    assert words.goal_short(line) == "Goal: W = -1, b = 1"
    long = Goal(id="l", text="Bring the loss below a thousandth of a millionth", metric="loss", op="<=", value=1e-9)
    assert words.goal_short(long) == "Goal: loss ≤ 1e-9"
    points = Goal(id="p", text="Within half a point of one device", metric="test_accuracy", op=">=", value=0.9029)
    assert words.goal_short(points, fakes.card()) == "Goal: test accuracy ≥ 90.29 %"


# --- Fields -----------------------------------------------------------------------------------------------------------

RATE = ParamSpec(name="r", kind="float", label="Rate", default=0.5, gt=0, le=10, log=True)
STEPS = ParamSpec(name="s", kind="int", label="Steps", default=500, ge=1)
SHARE = ParamSpec(name="m", kind="float", label="Momentum", default=0.9, ge=0, lt=1)


@pytest.mark.parametrize(
    ("spec", "value", "up", "big", "wanted"),
    [
        (RATE, 0.5, True, False, 1.0),
        (RATE, 0.5, False, False, 0.2),
        (RATE, 0.0001, False, False, 0.00005),
        (RATE, 0.003, True, False, 0.005),
        (RATE, 0.01, True, True, 0.1),
        (RATE, 10, True, False, 10),
        (STEPS, 500, True, False, 501),
        (STEPS, 500, False, True, 490),
        (STEPS, 1, False, False, 1),
        (SHARE, 0.9, True, False, 0.91),
        (SHARE, 0.99, True, False, 0.99 + 0.01 * 0),
    ],
)
def test_arrow_keys_take_sensible_steps(spec: ParamSpec, value: float, up: bool, big: bool, wanted: float) -> None:
    result = stepped(spec, value, up, big)
    assert result == pytest.approx(wanted) or (spec is SHARE and value < result < 1)


@given(st.floats(1e-6, 10), st.booleans(), st.booleans())
def test_a_step_never_leaves_the_limits(value: float, up: bool, big: bool) -> None:
    result = stepped(RATE, value, up, big)
    assert convert(RATE, result)[1] is None


# --- The guide --------------------------------------------------------------------------------------------------------


def test_a_guide_is_cut_into_headings_text_code_and_hints() -> None:
    found = pieces(
        "# Title\n\nSome *text*.\n\n> **Hint: a rate** Try 0.1.\n> Or less.\n\n```python\nx = 1\n```\n> Only said."
    )
    assert found == (
        GuidePart("heading", "Title"),
        GuidePart("text", "Some *text*."),
        GuidePart("hint", "Try 0.1.\nOr less.", "Hint: a rate"),
        GuidePart("code", "x = 1"),
        GuidePart("text", "Only said."),
    )


@given(st.text(alphabet="#>`*Hint: \nab", max_size=200))
def test_no_guide_is_too_odd_to_be_cut(text: str) -> None:
    kept = "".join(piece.text + piece.title for piece in pieces(text))
    assert [c for c in text if c in "ab"] == [c for c in kept if c in "ab"] or "```" in text or "**" in text


# --- The model --------------------------------------------------------------------------------------------------------


def test_a_preset_is_recognised_by_its_values() -> None:
    session = fakes.FakeSession()
    assert is_preset(fakes.card(), "slides", session.add("softmax"))
    assert is_preset(fakes.card(), "tiny", session.add("softmax", steps=60, batch_size=32))
    assert not is_preset(fakes.card(), "slides", session.add("softmax", optimizer="adam"))


def test_the_first_run_of_the_baseline_preset_with_a_curve_is_pinned_and_stays() -> None:
    session = fakes.FakeSession()
    first, second, other = session.add(), session.add(), session.add(optimizer="adam")
    model = WindowModel(fakes.catalogue(), session, WindowState())
    model.card = fakes.card()
    assert model.pinned() == "", "one that waits is no baseline"
    for run in (second, other):
        run.begin(500)
        run.train(10)
    assert model.pinned() == second.id
    again = session.add()
    assert model.pinned() == second.id
    again.begin(500)
    again.train(10)
    assert model.pinned() == second.id, "the pin does not jump to each new run"
    model.pin(first.id)
    assert model.pinned() == first.id
    model.pin("")
    assert model.pinned() == ""


def test_time_is_judged_by_the_last_run_that_trained() -> None:
    session = fakes.FakeSession()
    run = session.add(steps=500, batch_size=100)
    assert estimate(run.spec, fakes.card(), [run]) == "Estimate after the first run"
    run.begin(500, when=1000.0)
    run.train(1, seconds=0.004, when=1003.0)  # three seconds until the first step
    run.train(499, seconds=1.996, when=1005.0)
    run.end(when=1500.0)  # a long pause says nothing of the next run
    longer = session.add(steps=5000, batch_size=100).spec
    assert estimate(longer, fakes.card(), [run]) == "Next run: about 23 s (based on run 1)"


def test_details_have_what_was_sampled_beside_what_the_scheduler_counted() -> None:
    run = fakes.FakeSession().add()
    run.begin(500)
    run.feed(pulse(10.0, memory=[1.2e9], memory_limit=[16e9]))
    assert "Scheduler's accounts" not in {line.label for line in details(run, fakes.card(), None)}
    run.job = JobStatus(job="j", stage=JobStage.ENDED, use=JobUse(waited=754.0, memory=3.1e9))
    found = {line.label: line.text for line in details(run, fakes.card(), None)}
    assert found["Machine"] == "memory 1.2 of 16 GB at most"
    assert found["Scheduler's accounts"] == "waited 13 minutes, 3.1 GB of memory at most"


# --- The log ----------------------------------------------------------------------------------------------------------


def test_a_log_line_says_when_where_and_how_long() -> None:
    assert log_line(Log(text="half way", step=1200)) == "          step 1,200  half way"
    assert log_line(Log(text="", stage="compile", seconds=1.234)) == "          compile, 1.23 s"
    assert log_line(Log(text="disk is full", level="warning")).endswith("warning: disk is full")


def test_the_tail_of_a_file_begins_with_a_whole_line(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "log.txt"
    assert read_tail(path) == ""
    path.write_text("".join(f"line {n}\n" for n in range(1000)))
    tail = read_tail(path, most=100)
    assert tail.startswith("line 9")
    assert tail.endswith("line 999\n")


def test_bold_words_of_a_guide_are_in_a_weight_that_the_font_has(qapp: QApplication) -> None:
    assert "font-weight:600" in rich("Press **Run** now.")
    assert "font-weight:700" not in rich("Press **Run** now.")


def test_a_moment_of_another_day_has_its_date() -> None:
    then = time.mktime((2020, 3, 4, 9, 41, 0, 0, 0, -1))
    assert words.wall(then) == f"4 {time.strftime('%b', time.localtime(then))}, 09:41"
    assert words.wall(time.time()) == time.strftime("%H:%M")
