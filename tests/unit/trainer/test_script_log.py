"""A training script's messages as events: frames of steps, evaluations, and words about what cannot be recorded."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from clew_agent.trainer import script_run
from clew_agent.trainer.script_run import ScriptLog, failure
from clew_shared.base.problem import ProblemError
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Diverged, Evaluation, Event, Log, Points

METRICS = (
    MetricSpec(name="loss", label="Loss"),
    MetricSpec(name="accuracy", label="Accuracy", dtype="float64"),
    MetricSpec(name="test_loss", label="Test loss", per_step=False),
)


def message(step: Any, **metrics: Any) -> bytes:
    return json.dumps({"step": step, "metrics": metrics}).encode() + b"\n"


def recorded(*messages: bytes) -> list[Event]:
    """All events of a script that logs these."""
    log = ScriptLog(METRICS)
    return [*log.feed(b"".join(messages), 2.0), *log.flush(2.0, last=True)]


def said(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Log)]


def steps(events: list[Event]) -> list[tuple[int, int]]:
    return [(event.first, event.count) for event in events if isinstance(event, Points)]


def test_steps_become_frames_and_what_is_measured_comes_after_them() -> None:
    log = ScriptLog(METRICS)
    text = b"".join(message(step, loss=1.0 / (step + 1), accuracy=0.5) for step in range(3)) + message(
        2, test_loss=0.25
    )
    found = [event for piece in (text[:10], text[10:]) for event in log.feed(piece, 3.0)]
    found += log.flush(3.0)
    found += log.flush(4.0, last=True)
    points, evaluation = found
    assert isinstance(points, Points)
    assert (points.first, points.count, points.seconds, points.clock) == (0, 3, 3.0, 3.0)
    assert np.frombuffer(points.values[0], "<f4") == pytest.approx([1, 1 / 2, 1 / 3])
    assert np.frombuffer(points.values[1], "<f8") == pytest.approx([0.5] * 3)
    assert evaluation == Evaluation(step=3, values={"test_loss": 0.25}, clock=4.0)
    assert log.steps == 3


def test_a_script_may_log_every_tenth_step() -> None:
    found = recorded(*(message(step, loss=1.0, accuracy=0.0) for step in (9, 19, 20)))
    assert steps(found) == [(9, 1), (19, 2)]
    assert [event.clock for event in found if isinstance(event, Points)] == pytest.approx([2 * 10 / 21, 2.0])


@pytest.mark.parametrize(
    ("messages", "words", "kept"),
    [
        ((message(0, loss=1, accuracy=1, speed=3), message(1, loss=1, accuracy=1, speed=3)), "add [metrics.speed]", 2),
        ((message(0, loss="[1, 2]", accuracy=1), message(1, loss=1, accuracy=1)), "is '[1, 2]', not a number", 1),
        ((message(0, loss=True, accuracy=1),), "is True, not a number", 0),
        ((message(0, loss=1), message(1, loss=1), message(2, loss=1, accuracy=1)), "Accuracy is missing at step 0", 1),
        ((message(4, loss=1, accuracy=1), message(3, loss=1, accuracy=1)), "Step 3 came after step 4", 1),
        ((message(-1, loss=1, accuracy=1), message(0.5, loss=1, accuracy=1)), "Step -1 is left out", 0),
        ((b'{"step": 1}\n', b"\xff\n", b"[]\n", message(0, loss=1, accuracy=1)), "not a clew_log message", 1),
    ],
)
def test_what_cannot_be_recorded_is_said_once_and_the_rest_is_kept(
    messages: tuple[bytes, ...], words: str, kept: int
) -> None:
    found = recorded(*messages)
    assert sum(words in text for text in said(found)) == 1
    assert sum(count for _, count in steps(found)) == kept


def test_a_step_that_is_logged_again_keeps_its_first_values() -> None:
    log = ScriptLog(METRICS)
    found = [*log.feed(message(0, loss=1, accuracy=1), 1.0), *log.flush(1.0)]
    found += [*log.feed(message(0, loss=2, accuracy=2), 2.0), *log.flush(2.0, last=True)]
    assert steps(found) == [(0, 1)]
    assert "logged again at step 0" in said(found)[0]


def test_values_that_are_not_finite_are_recorded_and_called_out_once() -> None:
    found = recorded(*(message(step, loss=math.nan, accuracy=-math.inf, test_loss=math.inf) for step in range(3)))
    told = {(event.metric, event.step, event.value) for event in found if isinstance(event, Diverged)}
    assert told == {("loss", 0, "NaN"), ("accuracy", 0, "-inf"), ("test_loss", 1, "inf")}
    assert steps(found) == [(0, 3)]


def test_a_number_too_large_for_the_journal_is_infinite() -> None:
    found = recorded(message(0, loss=1e300, accuracy=1e300, test_loss=1e300))
    told = {(event.metric, event.value) for event in found if isinstance(event, Diverged)}
    assert told == {("loss", "inf")}


def test_a_flood_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProblemError, match="more than 64 KiB at step 0"):
        recorded(b"x" * 70_000)
    monkeypatch.setattr(script_run, "MAX_JOURNAL", 10_000)
    with pytest.raises(ProblemError, match="Log every tenth step"):
        recorded(*(message(step, test_loss=1.0) for step in range(100)))


@pytest.mark.unix("a process that a signal ends")
def test_the_last_line_of_a_traceback_says_why_a_script_failed() -> None:
    printed = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: too many dogs.'
    assert failure("a.py", 1, printed, 7).text == "a.py ended with exit code 1 at step 7: ValueError: too many dogs."
    assert failure("a.py", -11, "", 0).text == "a.py was ended by SIGSEGV at step 0."


def test_a_number_that_no_float_can_hold_is_infinite_and_nested_brackets_are_no_message() -> None:
    events = recorded(message(0, loss=10**400, accuracy=-(10**400)), b"[" * 60_000 + b"\n")
    assert [(event.metric, event.value) for event in events if isinstance(event, Diverged)] == [
        ("loss", "inf"),
        ("accuracy", "-inf"),
    ]
    assert steps(events) == [(0, 1)]
    assert said(events) == ["The script sent something that is not a clew_log message."]
