"""Runs on the site, in its own Python: asks the agent that was brought there whether it and runs could start.

``ask_there`` sends it and calls ``answer``. The agent's own code answers, so that what is refused here is what its
supervisor would refuse on the node, in the same words.
"""
# ruff: noqa: I002

import importlib
import os
import sys
import traceback
from typing import Any


def answer(question: "dict[str, Any]") -> "dict[str, Any]":
    """Returns what would be refused, if anything."""
    os.environ.update(question["environment"])
    path = os.environ["PYTHONPATH"].split(":")
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]

    try:  # there it is installed, here it is another program's
        importlib.import_module("clew_agent.supervisor.serve")
        found: dict[str, Any] = importlib.import_module("clew_agent.trainer.spec_check").answer(question)
    except ImportError as error:  # what the account's own path puts before the site's, mostly
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        found = {"broken": "%s (%s)" % (error, where)}  # noqa: UP031
    return found
