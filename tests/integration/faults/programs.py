"""The processes of a lab: ``python -m tests.integration.faults.programs serve|guard|trainer|viewer …``.

Supervisor, guard and trainer are the product's, with the stand-in exercise in place of TensorFlow; the viewer is the
product's session without a window.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROGRAM = (sys.executable, "-m", "tests.integration.faults.programs")


def serve(words: Sequence[str]) -> int:
    """The supervisor; its guards are those of this file."""
    from clew_agent.supervisor import Options
    from clew_agent.supervisor import serve as serve_agent
    from clew_shared.places import find_places
    from tests.integration.faults.stand_in import CATALOGUE

    logging.basicConfig(level=logging.INFO)
    return serve_agent(find_places(), Options(catalogue=CATALOGUE, guard=(*PROGRAM, "guard")))


def guard(words: Sequence[str]) -> int:
    """The guard; its trainer is the one of this file."""
    from clew_agent import guard as real

    def command(folder: Path, attempt: int, exercises: Path | None) -> list[str]:
        return [*PROGRAM, "trainer", str(folder), "--attempt", str(attempt)]

    real.trainer_command = command
    return real.main(words)


def trainer(words: Sequence[str]) -> int:
    """The trainer; import and build are the stand-in's."""
    from clew_agent import trainer as real
    from clew_agent.datasets import DataSet
    from clew_agent.resuming import Start
    from clew_shared.params import build
    from clew_shared.spec import RunSpec
    from tests.integration.faults.stand_in import CARD, StandInEngine, StandInSettings

    class StandIn(real._Attempt):
        def _import(self, exercise: str) -> Any:
            return CARD, CARD

        def _build(self, exercise: Any, spec: RunSpec, data: DataSet | None, start: Start) -> Any:
            engine = StandInEngine(build(StandInSettings, spec.params), spec.seed)
            if start.checkpoint:
                engine.restore(self._folder.path / start.checkpoint)
            self._engine = engine  # type: ignore[assignment]
            return engine

    real._Attempt = StandIn  # type: ignore[misc]
    return real.main(words)


def viewer(words: Sequence[str]) -> int:
    """A session in a process of its own; what it has stands in the folder of its mirrors, ``words[0]``."""
    from clew_gui.remote.target import LocalTarget
    from clew_gui.session import Session
    from clew_shared.places import find_places
    from tests.integration.faults.stand_in import CATALOGUE
    from tests.integration.faults.viewing import viewer_places

    places = viewer_places(find_places(), Path(words[0]))
    session = Session(places, CATALOGUE, LocalTarget(places, (*PROGRAM, "serve")))
    session.start()
    while os.getppid() != 1:  # not beyond the test
        session.tick()
        time.sleep(0.02)
    return 0


if __name__ == "__main__":
    sys.exit({"serve": serve, "guard": guard, "trainer": trainer, "viewer": viewer}[sys.argv[1]](sys.argv[2:]))
