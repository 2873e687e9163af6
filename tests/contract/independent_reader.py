"""A second reader of journals, written from PROTOCOL.md alone; for MessagePack any library would do."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

TERMINAL = {"FINISHED", "STOPPED", "FAILED", "TIMED_OUT", "LOST"}


def frames(data: bytes) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(first byte, end, event) of each intact frame, up to the seal; what lies between them was passed over."""
    at = data.find(b"\xc1CLW")
    while 0 <= at <= len(data) - 12:
        length, crc = struct.unpack_from("<II", data, at + 4)
        payload, end = data[at + 12 : at + 12 + length], at + 12 + length
        if intact := end - at <= 1 << 20 and end <= len(data) and zlib.crc32(data[at + 4 : at + 8] + payload) == crc:
            event = msgspec.msgpack.decode(payload)
            yield at, end, event
            if event["t"] == "seal":
                return
        at = data.find(b"\xc1CLW", end if intact else at + 1)


def read_run(folder: Path) -> dict[str, Any]:
    """``points`` and ``evaluations`` {metric: {step: (value, clock)}}; ``events``, ``damage`` by attempt; ``state``."""
    names = sorted(path.name for path in folder.iterdir() if re.fullmatch(r"journal\.\d{4}", path.name))
    files = {int(name[8:]): (folder / name).read_bytes() for name in names}
    heads = [next(frames(data), (0, 0, {}))[2] for data in files.values()]
    named = sorted(
        ((head["resumes"], head["earlier_size"]) for head in heads if head.get("earlier_size")), reverse=True
    )
    cuts = dict(named)  # the smallest comes last and stays
    run: dict[str, Any] = {"points": {}, "evaluations": {}, "events": {}, "damage": {}, "state": ""}
    for number, data in files.items():
        found = list(frames(data[: cuts.get(number)]))
        ends = [0, *(end for _, end, _ in found)]
        run["damage"][number] = [(a, b) for a, (b, _, _) in zip(ends, found, strict=False) if a < b]
        run["events"][number] = [event for _, _, event in found]
        add(run, run["events"][number])
    return run


def add(run: dict[str, Any], events: list[dict[str, Any]]) -> None:
    """Fold the next attempt in: it wins from its first step on, and its clock runs on."""
    columns: dict[int, list[dict[str, Any]]] = {}
    begins_late = events[0].get("attempt", 1) > 1 and not events[0].get("resumes")  # it did nothing and cuts nothing
    start = float("inf") if begins_late else events[0].get("start_step", 0)
    for kind, limit in (("points", start), ("evaluations", start + 1)):
        run[kind] = {name: {s: v for s, v in curve.items() if s < limit} for name, curve in run[kind].items()}
    before = [clock for kind in ("points", "evaluations") for c in run[kind].values() for _, clock in c.values()]
    run["state"], shift = "STARTING", None if len(run["events"]) > 1 else 0.0
    for event in events:
        if event["t"] in ("points", "evaluation") and shift is None:  # the beginning of the first that has a clock
            shift = (
                max(before, default=0.0)
                - event.get("clock", 0.0)
                + (event["seconds"] if event["t"] == "points" else 0.0)
            )
        if event["t"] == "schema":
            columns[event["id"]] = [metric for metric in event["metrics"] if metric.get("per_step", True)]
        elif event["t"] == "points":
            n, first, end = event["count"], event["first"], event["clock"] + shift
            for metric, raw in zip(columns[event["schema"]], event["values"], strict=True):
                values = struct.unpack(f"<{n}{'d' if metric.get('dtype') == 'float64' else 'f'}", raw)
                clocks = (end - event["seconds"] * (n - 1 - i) / n for i in range(n))
                points = zip(range(first, first + n), zip(values, clocks, strict=True), strict=True)
                run["points"].setdefault(metric["name"], {}).update(points)
        elif event["t"] == "evaluation":
            for name, value in event["values"].items():
                run["evaluations"].setdefault(name, {})[event["step"]] = value, event.get("clock", 0.0) + shift
        elif event["t"] == "state" and run["state"] not in TERMINAL:
            run["state"] = event["state"]
