"""``clew-agent try RUN_DIR``: answers what somebody tries with the network of a run, a line of JSON for each request.

The first line says that the network is ready, or why there is none. It ends with its standard input.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew_agent.catalogue.examine import find_exercise
from clew_agent.catalogue.lookup import card_of
from clew_agent.datasets.load import load
from clew_agent.datasets.search import find_search
from clew_agent.node.exit_codes import BAD_INPUT
from clew_agent.node.lean_import import lean_import
from clew_agent.trainer.resuming import AttemptStart, find_start
from clew_agent.trainer.spec_check import check_against_card, data_name, recorded_revision
from clew_shared.base import operating_system
from clew_shared.base.foreign import from_json
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError, problem, raise_all
from clew_shared.cards import ExerciseCard
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import build
from clew_shared.spec import RunSpec, read_spec
from clew_shared.wire.messages import MAX_TRIED_BYTES, Done, Refused, Reply, Tried, TryRun

if TYPE_CHECKING:
    from clew_agent.datasets.dataset import DataSet, Rows
    from clew_agent.training.engine import Engine
    from clew_agent.training.probes import Probe

_SAID = 500
"""Characters of an exception that are passed on."""


def main(argv: Sequence[str]) -> int:
    """Returns 0 when nobody asks any more, 2 when the run cannot be tried."""
    parser = argparse.ArgumentParser(prog="clew-agent try", description="Answer what is tried with a trained run.")
    parser.add_argument("folder", type=Path, metavar="RUN_DIR")
    parser.add_argument("--exercises", type=Path, metavar="DIR", help="add the exercises in this folder")
    options = parser.parse_args(list(argv))
    operating_system.die_with_parent(by_force=True)  # while it imports it does not look whether anybody still asks
    operating_system.end_before_others()  # when memory runs out, a run is worth more
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what an exercise prints is no answer

        def say(reply: Reply) -> None:
            out.write(msgspec.json.encode(reply) + b"\n")
            out.flush()

        try:
            probed = ProbedRun(RunFolder(options.folder.absolute()), options.exercises)
        except Exception as error:  # noqa: BLE001  # an exercise of one's own may raise anything
            say(_refusal(error))
            return BAD_INPUT
        say(Done(run=options.folder.name))
        for line in sys.stdin.buffer:
            say(probed.reply(line))
    return 0


def _refusal(error: Exception) -> Refused:
    if isinstance(error, ProblemError):
        return Refused(problem=error.problems[0])
    traceback.print_exc()
    text = f"This cannot be answered: {type(error).__name__}: {str(error)[:_SAID] or 'no message'}."
    hint = "If the exercise is your own, look at the scores or the coder of its model."
    return Refused(problem=Problem("try.failed", text, hint))


class ProbedRun:
    """The network of the run in ``folder``, as its last checkpoint has it. Raises ``ProblemError`` when there is none,
    or nothing to try."""

    def __init__(self, folder: RunFolder, exercises: Path | None = None) -> None:
        self._folder = folder
        self._listed: frozenset[str] | None = None
        self._find()  # before TensorFlow is imported
        attempt = folder.attempts()[-1]
        spec = read_spec(folder.spec_of(attempt))
        card = _card(spec, exercises)
        search, revision = find_search(find_places()), recorded_revision(folder, attempt)
        raise_all(check_against_card(spec, card, search, revision=revision))
        self._data = load(data_name(spec, card), search)
        self._engine, self._probe = _build(spec, card, exercises, self._data)
        self._step = self._restored()

    def reply(self, line: bytes) -> Reply:
        """Returns the answer to a line of JSON, or why there is none: whatever the network raises, the next question is
        answered."""
        try:
            return self.answer(from_json(line, TryRun))
        except Exception as error:  # noqa: BLE001  # as in ``main``
            return _refusal(error)

    def answer(self, request: TryRun) -> Tried:
        """The answer by the checkpoint that is the last one now. Raises ``ProblemError`` for an image that is none."""
        if self._names() != self._listed:
            self._step = self._restored()
        test = self._data.test
        images = self._probe.reads_images and not request.code
        sample = request.sample % len(test) if request.sample >= 0 and len(test) and images else -1
        row = test.x[max(sample, 0)] if sample >= 0 or not images else self._row(request)
        return msgspec.structs.replace(
            self._probe.ask(row, request, self._step),
            class_names=self._data.class_names,
            label=int(test.y[sample]) if sample >= 0 else -1,
            sample=sample,
            samples=len(test),
        )

    def _row(self, request: TryRun) -> Rows:
        import numpy as np

        from clew_agent.datasets.drawing import as_row

        size = request.width * request.height
        if (
            min(request.width, request.height) < 1
            or len(request.pixels) not in (size, 3 * size)
            or len(request.pixels) > MAX_TRIED_BYTES
        ):
            text = f"{len(request.pixels):,} bytes are no image of {request.width} × {request.height} pixels."
            hint = f"Send 1 or 3 bytes for each pixel, {MAX_TRIED_BYTES:,} at most."
            raise problem("try.image", text, hint, "image")
        image = np.frombuffer(request.pixels, np.uint8).reshape(request.height, request.width, -1)
        return as_row(image, self._data.image_shape, request.drawn)

    def _names(self) -> frozenset[str]:
        folder = self._folder.checkpoints
        return frozenset(path.name for path in folder.iterdir()) if folder.is_dir() else frozenset()

    def _find(self) -> AttemptStart:
        attempts = self._folder.attempts()
        start = find_start(self._folder, attempts[-1] + 1) if attempts else AttemptStart()
        if not start.checkpoint:
            text = f"The run in {self._folder.path} has no checkpoint yet, so there is no trained network to try."
            raise problem("try.checkpoint", text, "Wait for its first checkpoint, or run it to its end.", "run")
        return start

    def _restored(self) -> int:
        """The step of the last checkpoint, whose weights the network has now. If that fails, the next question tries it
        again: the weights may be those of two checkpoints."""
        self._listed = None
        listed, start = self._names(), self._find()
        self._engine.restore(self._folder.path / start.checkpoint)
        self._listed = listed
        return start.step


def _card(spec: RunSpec, exercises: Path | None) -> ExerciseCard:
    card = card_of(spec.exercise, exercises)
    if card.tries not in ("classes", "code"):
        text = f"A run of {card.title or card.id} cannot be tried."
        raise problem("try.nothing", text, "Its exercise declares nothing to try.", spec.exercise)
    return card


def _build(spec: RunSpec, card: ExerciseCard, exercises: Path | None, data: DataSet) -> tuple[Engine, Probe]:
    with lean_import():
        from clew_agent.training.engine import Engine
        from clew_agent.training.probes import make_probe
        from clew_agent.training.runtime import configure, run_operations_plainly, share_gpus
    share_gpus(None)  # they belong to the runs
    configure()
    run_operations_plainly()
    exercise, _ = find_exercise(spec.exercise, exercises, card)
    engine = Engine(exercise, build(exercise.Settings, spec.params), spec.seed, data)
    return engine, make_probe(engine.model, data, card.tries)
