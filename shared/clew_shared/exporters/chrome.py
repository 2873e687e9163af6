"""The trace of a run's steps as Chrome's trace viewer, Perfetto and ``about:tracing`` read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew_shared.base.problem import problem
from clew_shared.exporters.rows import base_name, replacing
from clew_shared.journal.events import Trace
from clew_shared.journal.history import History
from clew_shared.journal.trace import KINDS, kind_of, read_spans

_US = 1e6


def export_trace(history: History, out: Path) -> Path:
    """``<exercise>-<run>-trace.json`` in ``out``: the timeline of the steps that were traced last. Raises
    ``ProblemError`` where none were."""
    if history.trace is None:
        hint = "Trace steps from the start of a run, or while it trains."
        raise problem("export.trace", "No steps of this run were traced.", hint)
    path, run = out / f"{base_name(history)}-trace.json", history.fold.run
    with replacing(path, run) as part, part.open("w", encoding="utf-8", newline="") as file:
        file.write(f'{{"otherData":{json.dumps({"run": run})},"displayTimeUnit":"ms","traceEvents":[\n')
        file.write(",\n".join(json.dumps(one, separators=(",", ":")) for one in _events(history.trace)))
        file.write("\n]}\n")
    return path


def _events(trace: Trace) -> Iterator[dict[str, Any]]:
    """A name for each row, then a complete event ("X", in microseconds) for each span."""
    for number, name in enumerate(trace.rows):
        yield {"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": name}}
    spans = read_spans(trace)
    for row, name, begin, took in zip(*(one.tolist() for one in spans), strict=True) if spans is not None else ():
        kind = KINDS[kind_of(trace.kinds[name])]
        about = {"ph": "X", "pid": 1, "tid": row, "name": trace.names[name], "cat": kind}
        yield about | {"ts": round(begin * _US, 3), "dur": round(took * _US, 3)}
