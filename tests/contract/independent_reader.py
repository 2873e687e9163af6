"""Reads a run's folder by PROTOCOL.md alone; even what an event must have is taken from the tables on that page."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec

MAGIC, TERMINAL = b"\xc1CLW", ("FINISHED", "STOPPED", "FAILED", "TIMED_OUT", "LOST")
PAGE = (Path(__file__).parents[2] / "shared/clew_shared/PROTOCOL.md").read_text("utf-8").split("\n## ")[1]
REQUIRED = {text[: text.find("`")]: re.findall(r"\| `(\w+)` \| [^|]*, required", text) for text in PAGE.split("### `")}


def read_journal(data: bytes) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """An attempt's events and damaged stretches (from, to). It asks whether fields are there, not their types."""
    events, damage, known, place = [], [], 0, data.find(MAGIC)
    while place >= 0:
        length, crc = struct.unpack("<II", data[place + 4 : place + 12].ljust(8, b"\xff"))
        payload, end = data[place + 12 : place + 12 + length], place + 12 + length
        if end <= min(len(data), place + 2**20) and zlib.crc32(data[place + 4 : place + 8] + payload) == crc:
            try:
                event = msgspec.msgpack.decode(payload)
                right = isinstance(event["t"], str) and all(name in event for name in REQUIRED.get(event["t"], ()))
            except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError):
                right = False
            events += [event] if right else []
            damage += [(known, place)] * (known < place) + [(place, end)] * (not right)
            known = end
        place = -1 if events and events[-1]["t"] == "seal" else data.find(MAGIC, max(known, place + 1))
    return events, damage


def measured(events: list[dict[str, Any]]) -> list[tuple[str, str, int, float, float, float]]:
    """The curves of one attempt: which kind, metric, step, value, training clock before the event and at the value."""
    columns, rows = {}, []
    for event in events:
        clock = event.get("clock", 0.0)
        if event["t"] == "schema":
            metrics = [metric for metric in event["metrics"] if metric.get("per_step", True)]
            columns[event["id"]] = [(m["name"], "<d" if m.get("dtype") == "float64" else "<f") for m in metrics]
        elif event["t"] == "evaluation":
            rows += [("evaluations", name, event["step"], v, clock, clock) for name, v in event["values"].items()]
        elif event["t"] == "points":
            first, n, took, named = event["first"], event["count"], event["seconds"], columns.get(event["schema"], [])
            if [len(raw) for raw in event["values"]] == [n * struct.calcsize(code) for _, code in named]:
                for (name, code), raw in zip(named, event["values"], strict=True):
                    for i, (v,) in enumerate(struct.iter_unpack(code, raw)):
                        rows.append(("points", name, first + i, v, clock - took, clock - took * (n - 1 - i) / n))
    return rows


def read_run(folder: Path) -> dict[str, Any]:
    """The state, the curves with each step once, {metric: {step: (value, clock)}}, and events and damage by attempt."""
    files = {int(path.suffix[1:]): path.read_bytes() for path in sorted(folder.glob("journal." + 4 * "[0-9]"))}
    firsts = {n: next((e for e in read_journal(data)[0] if e["t"] == "attempt"), {}) for n, data in files.items()}
    resumes = {n: first["resumes"] for n, first in firsts.items() if 0 < first.get("resumes", 0) < n}
    sizes = {n: [firsts[m].get("earlier_size") for m in resumes if resumes[m] == n] for n in files}
    found = {n: read_journal(data[: min(filter(None, sizes[n]), default=None)]) for n, data in files.items()}
    run: dict[str, Any] = {"points": {}, "evaluations": {}, "limits": {}}
    run["events"], run["damage"] = ({n: both[i] for n, both in found.items()} for i in (0, 1))
    n, limit, clock = max(found), 2**62, 0.0
    states = ["STARTING"] + [event["state"] for event in run["events"][n] if event["t"] == "state"]
    run["state"] = next((state for state in states if state in TERMINAL), states[-1])
    while n > 0:
        run["limits"][n] = limit
        limit = min(limit, firsts[n].get("start_step", 0)) if n in resumes else limit
        n = resumes.get(n, n - 1)  # One that resumes none stands in for a process that did nothing: look before it.
    for n, limit in sorted(run["limits"].items()):
        rows = measured(run["events"].get(n, []))
        shift = clock - rows[0][4] if rows and n > min(run["limits"]) else 0.0
        for kind, name, step, value, _, at in rows:
            if step < limit + (kind == "evaluations"):
                run[kind].setdefault(name, {})[step] = (value, at + shift)
                clock = max(clock, at + shift)
    return run
