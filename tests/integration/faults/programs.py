"""The processes of a lab: ``python -m tests.integration.faults.programs serve|clew|nursery|standby|guard|trainer …``.

All are the product's own: supervisor, nursery, guard and trainer with the stand-in exercise in place of TensorFlow, and
the viewer's session without a window.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # each program imports what it needs: the supervisor must stay light
    from clew_agent.wire.server import GuardedRouter
    from clew_shared.base.places import Places
    from clew_shared.journal.run_folder import RunFolder

PROGRAM = (sys.executable, "-m", "tests.integration.faults.programs")
WARMING_S = 0.3
STOPS_LATE = "CLEW_TEST_STOPS_LATE"
"""A variable with which a run is asked to stop when its trainer has it and does not listen yet."""


def serve(words: Sequence[str]) -> int:
    """``serve [--fresh] [--no-fork]``: the supervisor; its nursery, standby and guards are those of this file."""
    from clew_agent.processes.nursery_client import NurseryClient
    from clew_agent.processes.run_starter import RunStarter
    from clew_agent.processes.standby_keeper import StandbyKeeper
    from clew_agent.supervisor import serve as program
    from clew_shared.base.places import find_places
    from tests.stand_in.engine import CATALOGUE

    def warm(places: Places, options: Any, devices: Any, router: GuardedRouter) -> RunStarter:
        if "--no-fork" in words:
            return StandbyKeeper(places.home, command=(*PROGRAM, "standby", "guard"))
        return NurseryClient(places.home, router.watch, router.unwatch, (*PROGRAM, "nursery"))

    if "--fresh" not in words:
        program._starter = warm
    logging.basicConfig(level=logging.INFO)
    options = program.Options(catalogue=CATALOGUE, guard=(*PROGRAM, "guard"))
    if "--own" not in words:
        return program.serve(find_places(), options)
    asked, places = program.read_words(words)
    return program.serve(places, msgspec.structs.replace(asked, catalogue=options.catalogue, guard=options.guard))


def clew(words: Sequence[str]) -> int:
    """``clew …``, which knows the stand-in alone, and whose agent is the one of this file."""
    from clew_gui.commands import main as real
    from clew_gui.commands.run import arguments, check, own_agent, run, studies
    from tests.stand_in.engine import CATALOGUE

    vars(own_agent)["agent_program"] = lambda _: [*PROGRAM]
    vars(check)["check_here"] = vars(run)["check_here"] = lambda *_, **__: None
    for module in (arguments, run, studies):
        vars(module)["cards"] = lambda *_, **_words: CATALOGUE
    return real.main(words)


def nursery(words: Sequence[str]) -> int:
    """The nursery; what it warms is the stand-in."""
    from clew_agent.processes import nursery as real

    _warm_the_stand_in()
    return real.main(words)


def standby(words: Sequence[str]) -> int:
    """The guard and the trainer of a standby; what is imported there is the stand-in."""
    from clew_agent.processes import standby_process as real

    if words[0] == "trainer":
        _warm_the_stand_in()
    else:
        _start_the_stand_in()
        real.TRAINER = (*PROGRAM, "standby", "trainer")
    return real.main(words)


def _warm_the_stand_in() -> None:
    """The nursery's module, for which the stand-in is what is imported, and that takes a moment."""
    from clew_agent.processes import nursery as real

    class Warm:
        def __init__(self) -> None:
            self._trainer = put_in_the_stand_in()
            time.sleep(WARMING_S)

        def keep_data(self) -> None:
            pass

        def train(
            self,
            folder: RunFolder,
            attempt: int,
            exercises: Path | None,
            copies: bool = True,
            asked: Sequence[int] = (),
        ) -> int:
            self._trainer.prepare_process()
            if STOPS_LATE in os.environ:
                signal.raise_signal(signal.SIGINT)
            return int(self._trainer.train(folder, attempt, exercises, asked=asked))

    real.WarmImports = Warm  # type: ignore[assignment,misc]


def guard(words: Sequence[str]) -> int:
    """The guard; its trainer is the one of this file."""
    from clew_agent.processes import guard as real

    _start_the_stand_in()
    return real.main(words)


def _start_the_stand_in() -> None:
    """The guard's module, whose fresh trainer is the one of this file."""
    from clew_agent.processes import guard as real

    def command(folder: Path, attempt: int, exercises: Path | None) -> list[str]:
        return [*PROGRAM, "trainer", str(folder), "--attempt", str(attempt)]

    real.trainer_command = command


def trainer(words: Sequence[str]) -> int:
    """The trainer, with the stand-in."""
    return int(put_in_the_stand_in().main(words))


def put_in_the_stand_in() -> Any:
    """The trainer's module, whose import and build are the stand-in's from now on."""
    from clew_agent.trainer import trainer as real
    from clew_shared.params import build
    from tests.stand_in import engine

    engine.put_in_the_stand_in(lambda *_: engine.CARD, partial(build, engine.StandInSettings))
    return real


def viewer(words: Sequence[str]) -> int:
    """``viewer MIRRORS [--fresh]``: a session that keeps what it has in that folder, and starts agents that way."""
    from clew_gui.session.session import Session
    from clew_gui.targets.target import LocalTarget
    from clew_shared.base.places import find_places
    from tests.integration.faults.viewing import viewer_places
    from tests.stand_in.engine import CATALOGUE

    places = viewer_places(find_places(), Path(words[0]))
    session = Session(places, CATALOGUE, LocalTarget(places, (*PROGRAM, "serve", *words[1:])))
    session.start()
    while os.getppid() != 1:  # not beyond the test
        session.tick()
        time.sleep(0.02)
    return 0


_PROGRAMS = {
    "serve": serve,
    "clew": clew,
    "nursery": nursery,
    "standby": standby,
    "guard": guard,
    "trainer": trainer,
    "viewer": viewer,
}

if __name__ == "__main__":
    sys.exit(_PROGRAMS[sys.argv[1]](sys.argv[2:]))
