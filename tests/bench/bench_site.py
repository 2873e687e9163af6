"""From Run to the first point of a run on the mini cluster, split by stage: first time, next time, on a held node."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from statistics import median

from tests.bench.laptop import Laptop, own_laptop
from tests.bench.measure import machine, table
from tests.bench.site_clicker import clicker, held_node, new_place, stages

EXERCISE = "softmax"
Stages = dict[str, tuple[float, float]]
FIRST, NEXT, HELD = "first time", "next time", "on a held node"
METHOD = """From the mini cluster's laptop, with a key, through its login node to a node of its Slurm; sessions
without a window, `softmax` with the course's values. *First time*: nothing of Clew is on the site. *Next time*: a new
program, the agent lies there from earlier runs. *On a held node*: the program that holds it has been linked for a
while, and the agent has had nothing left to do for a second, so that TensorFlow is imported and the data are read. In
each round each of them runs once, one after the other. Each stage lasts from the one before it to the moment it
names; in brackets are seconds since Run. From *agent up* on two things go on at once: the laptop finds the agent
(three lines), and the agent begins the run by itself (the lines with →). The last line is from the later of the two.
When the job began is when Slurm made its log, the rest are wall-clock times of laptop, agent and journal; all hosts
are one computer with one clock. Medians of each line over the rounds, so that lines need not add up. Limits: the
queue is empty and the network has no delay: on a real site the queue comes before everything else, each round trip
costs what `ping` says, and what is brought there what the line takes for it."""


def race(laptop: Laptop, rounds: int, warm_up: bool = True) -> dict[str, list[Stages]]:
    """What each of the three did in each round; with ``warm_up`` a first one does not count."""
    found: dict[str, list[Stages]] = {FIRST: [], NEXT: [], HELD: []}
    with held_node(laptop) as (holder, job):
        for number in range(-1 if warm_up else 0, rounds):
            with clicker(laptop) as program:
                first = stages(program.press(EXERCISE, new_place(laptop, number)))
            with clicker(laptop) as program:
                later = stages(program.press(EXERCISE))
            held = stages(holder.press(EXERCISE, held=job))
            if number >= 0:
                for name, one in ((FIRST, first), (NEXT, later), (HELD, held)):
                    found[name].append(one)
    return found


def rows(found: Mapping[str, Sequence[Stages]]) -> list[tuple[str, ...]]:
    """A line for each stage that any of them has."""

    def cell(rounds: Sequence[Stages], name: str) -> str:
        known = [one[name] for one in rounds if name in one]
        return f"{median(one for one, _ in known):.3f} ({median(at for _, at in known):.2f})" if known else ""

    names = dict.fromkeys(name for rounds in found.values() for one in rounds for name in one)
    return [(name, *(cell(rounds, name) for rounds in found.values())) for name in names]


def report(rounds: int, quick: bool) -> str:
    """Measure; the text for people, as Markdown. Raises ``CannotMeasure`` without a cluster."""
    rounds = 1 if quick else max(5, min(rounds, 10))
    with own_laptop() as laptop:
        found = race(laptop, rounds, warm_up=not quick)
    text = table(("seconds", *found), rows(found))
    print(text, flush=True)
    return "\n\n".join([f"Machine: {machine('paramiko', 'pyzmq')}. {rounds} rounds.", text, METHOD])


if __name__ == "__main__":
    report(5, "--quick" in sys.argv)
