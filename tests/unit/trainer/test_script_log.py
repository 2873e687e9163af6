"""A training script's messages as events: frames of steps, evaluations, and words about what cannot be recorded."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew_agent.catalogue.exercise_files import SCRIPT_LOG
from clew_agent.trainer import script_run
from clew_agent.trainer.script_run import ScriptLog, failure
from clew_shared.base.problem import ProblemError
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Diverged, Evaluation, Event, Log, Points, Schema
from clew_shared.journal.lifecycle import RunFold
from tests.integration.agents import wait_for

METRICS = (
    MetricSpec(name="loss", label="Loss", dtype="float64"),
    MetricSpec(name="accuracy", label="Accuracy", dtype="float64"),
    MetricSpec(name="test_loss", label="Test loss", per_step=False, dtype="float64"),
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
    assert np.frombuffer(points.values[0], "<f8").tolist() == [1, 1 / 2, 1 / 3]
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
        ((message(0, **{"loss": 1, "accuracy": 1, "val/mAP@50": 3}),), 'add [metrics."val/mAP@50"]', 1),
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


@pytest.mark.parametrize(
    ("numbers", "planned", "done"),
    [
        (range(6), 6, 6),
        (range(1, 7), 6, 6),
        (range(1, 7), 0, 6),
        (range(7), 6, 6),  # the beginning and six steps
        (range(9), 6, 9),
        (range(1, 10), 6, 9),
        (range(1000, 1006), 6, 6),
        (range(1000, 2000), 2000, 2000),
        (range(1001, 2001), 2000, 2000),
        (range(9, 100, 10), 100, 100),
        (range(10, 101, 10), 100, 100),
        (range(0, 100, 10), 100, 91),
        ([100], 100, 100),
        ([99], 100, 100),
        ([], 100, 0),
    ],
)
def test_the_number_of_steps_is_true_however_a_script_counts(numbers: Sequence[int], planned: int, done: int) -> None:
    """The numbers stay the script's own; what is measured after a step is not later than the steps that are done."""
    log, fold = ScriptLog(METRICS, planned), RunFold()
    found = [*log.feed(b"".join(message(step, loss=1, accuracy=0) for step in numbers), 1.0)]
    found += log.feed(message(numbers[-1], test_loss=2) if numbers else b"", 2.0)
    found += log.flush(2.0, last=True)
    assert log.steps == done
    fold.feed(1, Schema(id=1, metrics=METRICS, steps=planned, counts_from=log.counts_from))
    for event in found:
        fold.feed(1, event)
    assert fold.step == done
    assert [one for first, count in steps(found) for one in range(first, first + count)] == list(numbers)
    evaluations = [event.step - max(0, log.counts_from - 1) for event in found if isinstance(event, Evaluation)]
    assert evaluations == ([done] if numbers else [])
    seconds = [event.seconds for event in found if isinstance(event, Points)]
    assert sum(seconds) <= 2.0
    if numbers and log.counts_from:
        assert sum(seconds) == pytest.approx(2.0 * len(numbers) / done)


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (16_777_217, None),
        (2**53, None),
        (-(2**62), None),
        (1e300, None),
        (0.1, None),
        (2**53 + 1, "9007199254740993, which does not fit into 64 bits, and is kept as 9007199254740992."),
        (10**400, "a number of 401 digits, which does not fit into 64 bits, and is infinite."),
    ],
)
def test_what_a_script_logs_is_kept_exactly_or_that_is_said(number: float, kept: str | None) -> None:
    found = recorded(message(0, loss=number, accuracy=1, test_loss=number), message(1, loss=number, accuracy=1))
    warned = [] if kept is None else [f"Loss at step 0 is {kept}", f"Test loss at step 0 is {kept}"]
    assert said(found) == warned
    expected = math.inf if number == 10**400 else float(number)
    (points,) = (event for event in found if isinstance(event, Points))
    assert np.frombuffer(points.values[0], "<f8").tolist() == [expected] * 2
    assert next(event for event in found if isinstance(event, Evaluation)).values == {"test_loss": expected}


def test_of_several_processes_the_first_that_logs_is_recorded() -> None:
    lines = [
        json.dumps({"step": step, "metrics": {"loss": pid, "accuracy": pid}, "process": pid}).encode() + b"\n"
        for step in range(3)
        for pid in (7, 8)
    ]
    found = recorded(*lines)
    assert steps(found) == [(0, 3)]
    (points,) = (event for event in found if isinstance(event, Points))
    assert np.frombuffer(points.values[0], "<f8").tolist() == [7] * 3
    assert said(found) == [
        "Another process of the script logs as well and is left out: the first one that logs is recorded."
    ]


def test_a_flood_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProblemError, match="more than 64 KiB at step 0"):
        recorded(b"x" * 70_000)
    monkeypatch.setattr(script_run, "MAX_JOURNAL", 10_000)
    with pytest.raises(ProblemError, match="Log every tenth step"):
        recorded(*(message(step, test_loss=1.0) for step in range(100)))


HEAD = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    call()\n'
AGAIN = "During handling of the above exception, another exception occurred"
SYNTAX = '  File "b.py", line 3\n    f(\n     ^\n'
INNER = "ExceptionGroup: inner (1 sub-exception)"
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 16, in <module>
  |     raise ExceptionGroup("two", [outer, KeyError("label")])
  | ExceptionGroup: two (2 sub-exceptions)
  | a note
  +-+---------------- 1 ----------------
    | Exception Group Traceback (most recent call last):
    |   File "a.py", line 3, in <module>
    | ExceptionGroup: inner (1 sub-exception)
    +-+---------------- 1 ----------------
      | Traceback (most recent call last):
      |   File "a.py", line 2, in work
      | ValueError: worker 0
      | has a bad image
      +------------------------------------
    +-+---------------- 2 ----------------
      | KeyError: 'label'
      +------------------------------------
"""


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (f"{HEAD}ValueError: too many dogs.", ": ValueError: too many dogs."),
        (f"{HEAD}RuntimeError: CUDA error: assert\nCompile with DSA.\n", ": RuntimeError: CUDA error: assert."),
        (f"{HEAD}ValueError: no match\nArguments of call():\n  x=1\ny=2\n", ": ValueError: no match."),
        (f"{HEAD}ValueError: \n\nOn the next line\n", ": ValueError: On the next line."),
        (f"{HEAD}ValueError\n", ": ValueError."),
        (f"{HEAD}KeyError: 'a'\n\n{AGAIN}:\n\n{HEAD}cuda.OutOfMemoryError: full\n", ": cuda.OutOfMemoryError: full."),
        (f"{HEAD}KeyboardInterrupt\n", ": KeyboardInterrupt."),
        (f"{HEAD}{SYNTAX}SyntaxError: '(' was never closed\n", ": SyntaxError: '(' was never closed."),
        (f"{HEAD}ValueError: first\nresource_tracker: leaked\n", ": ValueError: first."),
        (GROUP, f": ExceptionGroup: two (2 sub-exceptions); first: {INNER}; first: ValueError: worker 0."),
        ("Error: boom\n    at a.js:3\n", ". It last printed: Error: boom."),
        ("epoch 1\nno such file.\n", ". It last printed: no such file."),
        ("", "."),
    ],
)
def test_the_own_first_line_of_an_exception_says_why_a_script_failed(printed: str, words: str, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("step 1\n" + printed)
    words = ". It last printed: step 1." if not printed else words
    assert failure("a.py", 1, None, log, 7).text == f"a.py ended with exit code 1 at step 7{words}"
    if "Traceback" in printed:
        report = printed.rpartition(HEAD)[2]
        assert failure("a.py", 1, report, log, 7).text == f"a.py ended with exit code 1 at step 7{words}"


@pytest.mark.unix("a process that a signal ends")
def test_a_signal_that_ends_a_script_is_named(tmp_path: Path) -> None:
    assert failure("a.py", -11, "", tmp_path / "log.txt", 0).text == "a.py was ended by SIGSEGV at step 0."


def test_a_number_that_no_float_can_hold_is_infinite_and_nested_brackets_are_no_message() -> None:
    events = recorded(message(0, loss=10**400, accuracy=-(10**400)), b"[" * 60_000 + b"\n")
    assert [(event.metric, event.value) for event in events if isinstance(event, Diverged)] == [
        ("loss", "inf"),
        ("accuracy", "-inf"),
    ]
    assert steps(events) == [(0, 1)]
    assert said(events)[-1] == "The script sent something that is not a clew_log message."


@pytest.mark.unix("/dev/full")
def test_a_script_waits_while_the_disk_is_full_and_still_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    log = tmp_path / "script.jsonl"
    log.symlink_to("/dev/full")
    words = [sys.executable, "-c", "import clew_log; print('began', flush=True); print(clew_log.log(0, loss=1.0))"]
    environment = {**os.environ, "CLEW_LOG": str(log), "PYTHONPATH": str(SCRIPT_LOG.parent)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == b"began\n"
        with pytest.raises(subprocess.TimeoutExpired):
            script.wait(0.5)
        log.with_name(f"{log.name}.stop").touch()
        assert script.communicate(timeout=60)[0] == b"True\n"


@pytest.mark.unix("a parent that is another one when the first is gone")
def test_a_script_ends_when_nobody_reads_on(tmp_path: Path) -> None:
    log, ended = tmp_path / "script.jsonl", tmp_path / "ended"
    (tmp_path / "train.py").write_text(
        "import pathlib, sys, clew_log\n"
        "while not clew_log.log(0, loss=1.0):\n    pass\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
    )
    start = "import subprocess, sys; subprocess.Popen([sys.executable, *sys.argv[2:]]); "
    wait = "import pathlib, time; p = pathlib.Path(sys.argv[1]); [time.sleep(0.01) for _ in iter(p.exists, True)]"
    environment = {**os.environ, "CLEW_LOG": str(log), "PYTHONPATH": str(SCRIPT_LOG.parent)}
    words = [sys.executable, "-c", start + wait, str(log), str(tmp_path / "train.py"), str(ended)]
    subprocess.run(words, env=environment, check=True, timeout=60)
    wait_for(ended.exists, "the end of the script")
