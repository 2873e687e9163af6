"""``clew-agent check``: whether all runs of a request could start, asked before the first of them does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from clew_agent.datasets.load import load
from clew_agent.datasets.search import find_search, is_name
from clew_agent.trainer.spec_check import check_texts
from clew_shared.base.foreign import from_json
from clew_shared.base.harmless import say
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.terminal import ascii_json
from clew_shared.spec import from_toml
from clew_shared.wire.turns import RunsChecked, RunsToCheck


def check(argv: Sequence[str]) -> int:
    """Read a question as JSON from standard input and answer it on one line; returns 0."""
    argparse.ArgumentParser(prog="clew-agent check", description="Say whether run specs could start.").parse_args(argv)
    question: RunsToCheck = from_json(sys.stdin.buffer.read(), RunsToCheck)
    say(ascii_json(msgspec.json.encode(RunsChecked(_problem(question)))))
    return 0


def _problem(question: RunsToCheck) -> Problem | None:
    """Returns what is wrong with the runs or with one of their files of data, which are read as a run would read
    them."""
    search = find_search(find_places())
    found = check_texts(question.specs, search, question.own)
    if found is not None:
        return found
    files = dict.fromkeys(from_toml(text).data for text in question.specs)
    try:
        for file in (one for one in files if one and not is_name(one)):
            load(file, search)
    except ProblemError as error:
        return error.problems[0]
    return None
