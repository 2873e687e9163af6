"""``clew-agent replay RUN``: the events of a run, in the order in which they were written, as JSON lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from clew_shared.base.places import find_places
from clew_shared.base.problem import problem
from clew_shared.base.terminal import ascii_json
from clew_shared.journal.events import Event, Points, Schema
from clew_shared.journal.files import Damage, attempts, journal_path, read_journal


def replay(argv: Sequence[str]) -> int:
    """Returns 0; 1 when a stretch of a journal could not be read, which is printed as a line of its own."""
    parser = argparse.ArgumentParser(prog="clew-agent replay", description="Print a run's events as JSON lines.")
    parser.add_argument("run", help="a run's folder, or its id")
    folder = _folder(parser.parse_args(argv).run)
    damaged = False
    for attempt in attempts(folder):
        schemas: dict[int, Schema] = {}
        for item in read_journal(journal_path(folder, attempt)):
            if isinstance(item, Damage):
                damaged = True
                _print({"attempt": attempt, "offset": item.offset, "damage": item.text})
            elif item.event is not None:
                if isinstance(item.event, Schema):
                    schemas[item.event.id] = item.event
                _print({"attempt": attempt, "offset": item.offset, "event": readable(item.event, schemas)})
    return int(damaged)


def readable(event: Event, schemas: dict[int, Schema]) -> object:
    """The event as plain values; the arrays of ``Points`` by metric name as lists of numbers."""
    plain: dict[str, object] = msgspec.to_builtins(event)
    schema = schemas.get(event.schema) if isinstance(event, Points) else None
    if isinstance(event, Points) and schema is not None:
        columns = [metric for metric in schema.metrics if metric.per_step]
        plain["values"] = {
            metric.name: np.frombuffer(raw, np.dtype(metric.dtype).newbyteorder("<")).tolist()
            for metric, raw in zip(columns, event.values, strict=False)
        }
    return plain


def _folder(word: str) -> Path:
    for folder in (Path(word), find_places().runs / word):
        if attempts(folder):
            return folder
    raise problem("run.folder", f"There is no run {word!r}: no folder with a journal.0001.", "Give its folder.", word)


def _print(line: object) -> None:
    sys.stdout.write(ascii_json(msgspec.json.encode(line)) + "\n")
