"""A real supervisor whose guard is the stand-in.

``python -m tests.integration.stand_in_agent [idle seconds] [--slots N] [--gpus N] [--job]``; the GPUs are
names only.
"""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Annotated

from clew_agent.node.allocation import read_allocation
from clew_agent.node.devices import Devices, Gpu
from clew_agent.strategies.registry import STRATEGIES, StrategyEntry
from clew_agent.supervisor.serve import Options, serve
from clew_shared.base.places import find_places
from clew_shared.cards import Catalogue, ExerciseCard, StrategyCard
from clew_shared.params import Choice, Knob, Params, describe

GUARD = (sys.executable, "-m", "tests.integration.stand_in_guard")


class StandInSettings(Params, frozen=True):
    """How the stand-in trainer behaves."""

    steps: Annotated[int, Knob("Steps", ge=0, le=1_000_000)] = 50
    pause: Annotated[float, Knob("Pause after each block", ge=0, le=10)] = 0.0
    learning_rate: Annotated[float, Knob("Learning rate", gt=0, live=True)] = 0.5
    fault: Annotated[
        str,
        Knob(
            "Fault",
            choices=(
                Choice("none", "none"),
                Choice("deaf", "deaf"),
                Choice("dies", "dies"),
                Choice("hurries", "hurries"),
            ),
        ),
    ] = "none"


CATALOGUE = Catalogue(
    exercises=(
        ExerciseCard(
            id="stand-in",
            title="Stand-in",
            params=describe(StandInSettings),
            source_hash="abc",
            strategies=(
                StrategyCard(id="single", title="One device"),
                StrategyCard(id="spread", title="Several devices", devices=(2, 4)),
            ),
        ),
    )
)


def main() -> int:
    logging.basicConfig(level=logging.INFO)
    STRATEGIES["spread"] = StrategyEntry()
    parser = argparse.ArgumentParser()
    parser.add_argument("idle", type=float, nargs="?", default=600.0)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--job", action="store_true")
    words = parser.parse_args()
    gpus = tuple(Gpu(str(number), f"Stand-in GPU ({number})") for number in range(words.gpus))
    devices = Devices(gpus, places=words.slots)
    job = read_allocation() if words.job else None
    return serve(
        find_places(),
        Options(idle=words.idle, catalogue=CATALOGUE, guard=GUARD, devices=devices, job=job),
    )


if __name__ == "__main__":
    sys.exit(main())
