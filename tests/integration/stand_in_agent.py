"""A real supervisor whose guard is the stand-in: ``python -m tests.integration.stand_in_agent [idle seconds]``."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

from clew_agent.supervisor import Options, serve
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.params import Choice, Knob, Params, describe
from clew_shared.places import find_places

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
    exercises=(ExerciseCard(id="stand-in", title="Stand-in", params=describe(StandInSettings), source_hash="abc"),)
)


def main() -> int:
    logging.basicConfig(level=logging.INFO)
    idle = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    return serve(find_places(), Options(idle=idle, catalogue=CATALOGUE, guard=GUARD))


if __name__ == "__main__":
    sys.exit(main())
