"""Runs on the site, in its own Python: asks the agent that was brought there whether it and runs could start.

It comes over standard input: a line of JSON with the question follows it. The agent's own code answers, so that what is
refused here is what its supervisor would refuse on the node, in the same words. The answer is a line of JSON after the
question's mark.
"""
# ruff: noqa: I002

import importlib
import json
import os
import sys
import traceback


def main() -> None:
    """Answer the question."""
    question = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    os.environ.update(question["environment"])
    path = os.environ["PYTHONPATH"].split(":")
    sys.path[:] = [*path, *(entry for entry in sys.path if entry and entry not in path)]

    try:  # there it is installed, here it is another program's
        importlib.import_module("clew_agent.supervisor.serve")
        answer = importlib.import_module("clew_agent.trainer.spec_check").answer(question)
    except ImportError as error:  # what the account's own path puts before the site's, mostly
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        answer = {"broken": "%s (%s)" % (error, where)}  # noqa: UP031
    print("\n" + question["mark"] + json.dumps(answer))


if __name__ == "__main__":
    main()
