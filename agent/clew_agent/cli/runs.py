"""``clew-agent runs``: what ``clew`` trains on this computer, one run after the other, as standard input names them.

The trainer of a ``warm`` run is a copy of this process (``fork``), which has imported TensorFlow and computed nothing,
as in the nursery of ``serve``. Where that cannot be (another system than Linux, a GPU, a second thread), it is one that
has imported TensorFlow while the run before it trained, if there are cores to spare. For any other run it is a fresh
interpreter, as with ``clew-agent run``. TensorFlow is imported when the first warm run begins, so that a refusal does
not wait for it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew_agent.node.devices import find_devices
from clew_agent.node.exit_codes import BAD_INPUT, exit_code_for
from clew_agent.processes.nursery_messages import OWN_ENVIRONMENT, start_request
from clew_agent.processes.run_starter import may_fork
from clew_agent.processes.standby import has_spare_cores
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError, long_names_refused
from clew_shared.journal.run_folder import RunFolder
from clew_shared.wire.turns import RunEnded, RunWanted

if TYPE_CHECKING:
    from clew_agent.processes.nursery import Warm
    from clew_agent.processes.standby_process import WaitingTrainer


def runs(argv: Sequence[str]) -> int:
    """Do what each line asks for and answer with a line; returns 0 when there are no more."""
    parser = argparse.ArgumentParser(prog="clew-agent runs", description="Train the run specs that are asked for.")
    parser.add_argument("--exercises", type=Path, metavar="DIR", help="add the exercises in this folder")
    options = parser.parse_args(list(argv))
    with _own_environment():
        import numpy as np  # noqa: F401  # before anything else imports it: its library reads the environment once

        operating_system.set_title("clew-agent runs")
    start = WarmStart()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    try:
        for line in sys.stdin.buffer:
            ended = _one(msgspec.json.decode(line, type=RunWanted), options.exercises, start)
            answers.write(msgspec.json.encode(ended) + b"\n")
            answers.flush()
    finally:
        start.close()
    return 0


def _one(wanted: RunWanted, exercises: Path | None, start: WarmStart) -> RunEnded:
    from clew_agent.cli.headless import do_run, prepare, prepare_resume

    folder = Path(wanted.folder).absolute()
    try:
        with long_names_refused():
            if wanted.spec:
                prepared = prepare(wanted.spec, folder, exercises)
            else:
                prepared = prepare_resume(RunFolder(folder), exercises, wanted.changes)
        fold = do_run(prepared, exercises, start=start if wanted.warm else None)
    except ProblemError as error:
        return RunEnded(BAD_INPUT, error.command_text(), error.problems)
    return RunEnded(exit_code_for(fold), fold.problem.command_text() if fold.problem is not None else "")


class WarmStart:
    """Starts trainers as copies of this process, which becomes warm with the first one, or has one wait for each."""

    def __init__(self) -> None:
        self._warm: Warm | None = None
        self._waiting: WaitingTrainer | None = None

    def __call__(self, folder: RunFolder, attempt: int, exercises: Path | None) -> operating_system.Child:
        """The trainer of an attempt."""
        if self._warm is None and may_fork(len(find_devices(1).gpus)):
            self._warm = _warmed()
        warm = self._warm
        if warm is None or operating_system.thread_count() != 1:
            return self._start_waiting(folder, attempt, exercises)

        def train() -> int:
            operating_system.print_to(folder.log)
            return warm.train(folder, attempt, exercises)

        return operating_system.fork(train)

    def _start_waiting(self, folder: RunFolder, attempt: int, exercises: Path | None) -> operating_system.Child:
        """The trainer that has waited, while the next one begins to prepare itself."""
        from clew_agent.processes.guard import spawn
        from clew_agent.processes.standby_process import WaitingTrainer

        request = start_request(folder.path, attempt, exercises, {})
        waiting, self._waiting = self._waiting, None
        try:
            if has_spare_cores():
                self._waiting = WaitingTrainer(computes=False)
        except OSError:  # no room for one: the next run begins fresh
            self._waiting = None
        if waiting is None:
            return spawn(folder, attempt, exercises)
        return waiting.take(request, lambda: spawn(folder, attempt, exercises))

    def close(self) -> None:
        """No run comes any more."""
        if self._waiting is not None:
            self._waiting.close()


def _warmed() -> Warm:
    """Import TensorFlow with a trainer's environment."""
    from clew_agent.processes.guard import trainer_environment
    from clew_agent.processes.nursery import Warm

    os.environ.update(trainer_environment())
    with _own_environment():
        return Warm()


@contextmanager
def _own_environment() -> Iterator[None]:
    """Sets the environment in which NumPy's library starts no threads; trainers get the user's environment."""
    before = {name: os.environ.get(name) for name in OWN_ENVIRONMENT}
    os.environ.update(OWN_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
