"""The trace of a run's steps, as readers find it in the journal."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.study.trace import most_expensive_words, time_words, trace_lines, trace_words
from clew_shared.base.problem import ProblemError
from clew_shared.exporters.chrome import export_trace
from clew_shared.journal.events import Trace
from clew_shared.journal.history import History
from clew_shared.journal.trace import PARTS, most_expensive, read_spans, shares
from tests.unit.runs import begin_run, describe, trace

STRANGE = st.sampled_from((0.0, -1.0, 5e-324, 1e-320, 1e-9, 1e-3, 1.0, 1e5, 1e10, 1.7e308, np.inf, np.nan))
"""Seconds that somebody else may have written."""


@st.composite
def strange_traces(draw: st.DrawFn) -> Trace:
    """Events whose arrays fit together, of up to three spans, operations and parts with whatever seconds."""
    names, spans, rows = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(0, 3))
    seconds = draw(st.sampled_from((1e-9, 0.004, 1e9)) | STRANGE)
    usual = st.sampled_from((0.0, seconds / 4)) | STRANGE

    def some(count: int) -> list[float]:
        return draw(st.lists(usual, min_size=count, max_size=count))

    spans *= bool(names and rows)
    return Trace(
        step=draw(st.integers()),
        count=draw(st.integers(1, 2**63)),
        seconds=seconds,
        parts=draw(st.dictionaries(st.sampled_from([*PARTS, "more"]), usual)),
        names=("MatMul",) * names,
        kinds=("matmul",) * names,
        counts=(1,) * names,
        totals=tuple(some(names)),
        rows=("Thread",) * rows,
        row=bytes(2 * spans),
        name=bytes(2 * spans),
        begin=np.array(some(spans), "<f8").tobytes(),
        took=np.array(np.clip(some(spans), -1e38, 1e38), "<f4").tobytes(),
    )


def history(*events: Trace) -> History:
    found = History()
    for event in events:
        found.feed(1, event)
    return found


def test_the_latest_trace_counts() -> None:
    assert history(trace(step=0), trace(step=40)).trace == trace(step=40)


@pytest.mark.parametrize(
    "changes",
    [
        {"begin": b"1234"},
        {"took": b""},
        {"names": ("MatMul",)},
        {"rows": ()},
        {"name": np.array([0, 0, 2], "<u2").tobytes()},
        {"seconds": 0.0},
        {"totals": (float("nan"), 1.0)},
        {"count": 0},
        {"totals": (0.0, 0.0)},
        {"totals": (-0.001, 0.004)},
        {"totals": (1.7e308, 1.7e308)},
        {"counts": (-2, 1)},
        {"parts": {"compute": 0.003, "host": 0.002}},
        {"parts": {"compute": -0.001}},
        {"parts": {"compute": 1e10}, "seconds": 1e-320},
        {"seconds": 1e-10},
        {"seconds": float("inf")},
        {"begin": np.array([0.0005, -0.0021, 0.0034], "<f8").tobytes()},
        {"begin": np.array([0.0005, 0.0039, 0.0034], "<f8").tobytes()},
        {"took": np.array([0.0015, -0.001, 0.0005], "<f4").tobytes()},
        {"took": 3 * b"\1\0\x80\x7f"},
        {"rows": tuple(f"Thread {number}" for number in range(65))},
        {"rows": ("x" * 97,)},
        {"names": ("x" * 97, "ReluGrad")},
        {
            name: 501 * (value,)
            for name, value in (("names", "Mul"), ("kinds", "pointwise"), ("counts", 1), ("totals", 1.0))
        },
        {
            name: 16_001 * item
            for name, item in (("row", bytes(2)), ("name", bytes(2)), ("begin", bytes(8)), ("took", bytes(4)))
        },
    ],
)
def test_what_does_not_fit_or_cannot_be_shown_is_damage(changes: dict[str, object]) -> None:
    found = history(msgspec.structs.replace(trace(), **changes))
    assert len(found.damages) == 1
    assert found.trace is None


def test_parts_are_shares_of_the_time_and_the_rest_is_idle() -> None:
    assert shares(trace()) == pytest.approx({"compute": 0.75, "reduce": 0, "input": 0.125, "host": 0.05, "idle": 0.075})


def test_a_kind_that_is_not_known_is_other() -> None:
    assert most_expensive(msgspec.structs.replace(trace(), kinds=("quantum", "pointwise")))[0].kind == "other"


def test_it_is_said_in_words() -> None:
    assert list(trace_lines(trace(step=120))) == [
        "Steps 121 to 122, 2.00 ms each: compute 75 %, input 12 %, host 5.0 %, idle 7.5 %.",
        "  [" + "c" * 38 + "i" * 6 + "h" * 2 + "." * 4 + "]",
        "  MatMul    Matrix product         2 times   2.50 ms    83 %",
        "  ReluGrad  Element by element      1 time    500 µs    17 %",
    ]
    *_, last = trace_lines(msgspec.structs.replace(trace(), left_out=1200))
    lacks = (
        "The exported timeline leaves out the 1,200 shortest operations to save room; the bar and the sums count them."
    )
    assert last == lacks


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(2e-6, "2.00 µs"), (1.5e-3, "1.50 ms"), (0.0421, "42.1 ms"), (0.75, "750 ms"), (12.0, "12.0 s")],
)
def test_times_have_three_figures(seconds: float, words: str) -> None:
    assert time_words(seconds) == words


def test_it_is_exported_as_chrome_reads_it(tmp_path: Path) -> None:
    found = History()
    found.feed(1, describe(begin_run(tmp_path / "run")))
    found.feed(1, trace())
    events = json.loads(export_trace(found, tmp_path).read_text(encoding="utf-8"))["traceEvents"]
    assert events[0] == {"ph": "M", "pid": 1, "tid": 0, "name": "thread_name", "args": {"name": "Thread 1"}}
    assert events[-1] == {
        "ph": "X",
        "pid": 1,
        "tid": 0,
        "name": "ReluGrad",
        "cat": "Element by element",
        "ts": 3400.0,
        "dur": 500.0,
    }
    assert len(events) == 4
    assert export_trace(found, tmp_path).exists()


def test_a_run_without_a_trace_has_none_to_export(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="No steps of this run were traced"):
        export_trace(History(), tmp_path)


@given(strange_traces())
def test_what_a_journal_is_read_for_can_be_said(event: Trace) -> None:
    if read_spans(event) is not None:
        assert all(len(line) < 400 for line in (*trace_lines(event), *most_expensive_words(event).splitlines()))


def test_where_the_time_goes_is_said_in_a_sentence_and_lines() -> None:
    assert trace_words(trace()) == "Steps 1 to 2, 2.00 ms each: compute 75 %, input 12 %, host 5.0 %, idle 7.5 %."
    assert most_expensive_words(trace()).splitlines() == [
        "MatMul: matrix product, 2 times, 2.50 ms, 83 %",
        "ReluGrad: element by element, 1 time, 500 µs, 17 %",
    ]
