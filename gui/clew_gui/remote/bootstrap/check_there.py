"""Runs on the site, in its own Python: lets the agent that was brought there say whether runs could start.

It comes over standard input: a line of JSON with the question follows it. The agent's own code answers, so that what is
refused here is what its supervisor would refuse on the node, in the same words. The answer is a line of JSON behind the
question's mark.
"""
# ruff: noqa: I002

import json
import os
import sys


def main() -> None:
    """Answer the question."""
    question = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    os.environ.update(question["environment"])
    path = os.environ["PYTHONPATH"].split(":")
    sys.path[:] = [*path, *(entry for entry in sys.path if entry and entry not in path)]

    import msgspec

    from clew_agent.data_search import find_search
    from clew_agent.spec_check import check_texts
    from clew_shared.places import find_places

    found = check_texts(question["specs"], find_search(find_places()), question["own"])
    print("\n" + question["mark"] + json.dumps({"problem": msgspec.to_builtins(found)}))


if __name__ == "__main__":
    main()
