"""``clew-agent data``: reads a file of data as a run would, and says what is in it or what is wrong with it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from clew_agent.datasets.load import load
from clew_agent.datasets.search import find_search
from clew_shared.base.harmless import say
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.terminal import ascii_json


class DataReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of reading a data set: its name, how many samples it has, and what was assumed or left out
    (``notes``), or the ``problem``."""

    name: str = ""
    train: int = 0
    validation: int = 0
    test: int = 0
    notes: tuple[str, ...] = ()
    problem: Problem | None = None


def data(argv: Sequence[str]) -> int:
    """``clew-agent data NAME|PATH``: a sentence, with ``--json`` one line for programs; 2 for what cannot be used."""
    parser = argparse.ArgumentParser(prog="clew-agent data", description="Check a data set or a file of data.")
    parser.add_argument("data", metavar="NAME|PATH", help="a data set by name, a file or a folder")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args(list(argv))
    try:
        found = load(options.data, find_search(find_places()))
    except ProblemError as error:
        if not options.json:
            raise
        say(ascii_json(msgspec.json.encode(DataReport(problem=error.problems[0]))))
        return 2
    report = DataReport(found.name, len(found.train), len(found.validation), len(found.test), found.notes)
    if options.json:
        say(ascii_json(msgspec.json.encode(report)))
    else:
        say(f"{found.name}: {report.train:,} samples train, {report.validation:,} validate, {report.test:,} test.")
        for note in report.notes:
            say(note)
    return 0
