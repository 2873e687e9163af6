"""Runs on the site, in its own Python: asks the agent that was brought there whether runs could start.

It comes over standard input: a line of JSON with the question follows it. The agent's own code answers, so that what is
refused here is what its supervisor would refuse on the node, in the same words. The answer is a line of JSON after the
question's mark.
"""
# ruff: noqa: I002

import importlib
import json
import os
import sys


def main() -> None:
    """Answer the question."""
    question = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    os.environ.update(question["environment"])
    path = os.environ["PYTHONPATH"].split(":")
    sys.path[:] = [*path, *(entry for entry in sys.path if entry and entry not in path)]

    agent = importlib.import_module(
        "clew_agent.trainer.spec_check"
    )  # there it is installed, here it is another program's
    print("\n" + question["mark"] + json.dumps(agent.answer(question)))


if __name__ == "__main__":
    main()
