"""The catalogue: children import the exercise files, with a time limit, and their cards are collected."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from clew_agent.catalogue.exercise_files import Examined, ExerciseFile, broken_card, builtin_files, folder_files
from clew_agent.node import operating_system
from clew_shared import __version__
from clew_shared.base.foreign import from_json
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import decode, load_builtin

IMPORT_LIMIT_S = 120.0
"""For one child. TensorFlow alone takes two to four seconds, on a cold network disk half a minute."""
OWN_CHAPTER = "Your own"
"""Of exercises in a folder of someone's own that name no chapter."""
_ORDER = (
    *("linear-regression", "softmax", "cnn"),
    *("minibatch", "vectorize", "model-parallel", "imagenet-bench"),
    *("activations", "rnn", "autoencoder", "anomaly", "transfer"),
    *("vae", "gan"),
)
"""How the courses go through the built-in exercises; others follow by chapter and title."""


def make_catalogue(folder: Path | None = None, limit: float = IMPORT_LIMIT_S) -> Catalogue:
    """The catalogue of the built-in exercises and of those in ``folder``, each file imported in a child process.

    Built-in files share one child. A child that dies or takes longer than ``limit`` seconds is repeated file by file.
    Raises ``ProblemError`` when ``folder`` is no folder of exercises.
    """
    own = folder_files(folder) if folder else ()
    added = (card for file in own for card in _examine((file,), limit))
    named = (msgspec.structs.replace(card, chapter=card.chapter or OWN_CHAPTER) for card in added)
    return arrange([*_examine(builtin_files(), limit), *named])


def arrange(cards: Sequence[ExerciseCard]) -> Catalogue:
    """The catalogue of ``cards`` in the order in which they are shown. Of two with one id the first counts."""
    problems = {card.id: 0 for card in cards}
    unique = [_renamed(card, problems) for card in cards]
    ranks = {name: rank for rank, name in enumerate(_ORDER)}
    ordered = sorted(unique, key=lambda card: (ranks.get(card.id, len(_ORDER)), card.chapter, card.title))
    chapters = tuple(dict.fromkeys(card.chapter for card in ordered))
    return Catalogue(chapters=chapters, exercises=tuple(ordered), version=__version__)


def _renamed(card: ExerciseCard, seen: dict[str, int]) -> ExerciseCard:
    """``card``, or a card with a problem when an earlier one has the same id."""
    seen[card.id] += 1
    if seen[card.id] == 1:
        return card
    text = f"{card.file} has the id {card.id!r}, which another exercise has already."
    found = Problem("exercise.twice", text, "Give it another id.", card.file)
    return msgspec.structs.replace(card, id=f"{card.id}-{seen[card.id]}", problem=found)


def _examine(files: Sequence[ExerciseFile], limit: float) -> list[ExerciseCard]:
    found, complaint = _run_child(files, limit)
    missing = [file for file in files if str(file.path) not in found]
    if missing and len(files) > 1:  # one of them ended the child: each gets one of its own
        found |= {str(file.path): tuple(_examine((file,), limit)) for file in missing}
    elif missing:
        found[str(missing[0].path)] = (broken_card(missing[0], complaint),)
    return [card for file in files for card in found[str(file.path)]]


def _run_child(files: Sequence[ExerciseFile], limit: float) -> tuple[dict[str, tuple[ExerciseCard, ...]], Problem]:
    """The cards by path that one child could give for ``files``, and what to say of the others."""
    words = [f"{file.module}={file.path}" for file in files]
    command = [sys.executable, "-P", "-m", "clew_agent", "examine", *words]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:  # a pipe ends with its last writer
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, **operating_system.own_session()
        )
        try:
            exit_code = child.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            operating_system.kill_session(child)  # also what outlives the child
            child.wait()
        if exit_code is None:
            text = f"{files[0].path.name} was not imported within {limit:g} s."
        else:
            text = _died(files[0].path.name, exit_code, _read(errors))
        return read_examined(_read(output)), Problem("exercise.broken", text, "Fix the file.", str(files[0].path))


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def read_examined(output: bytes) -> dict[str, tuple[ExerciseCard, ...]]:
    """The cards by path that a child told. A line that is torn, or that an exercise's file wrote, is passed over."""
    found: dict[str, tuple[ExerciseCard, ...]] = {}
    for line in output.splitlines(keepends=True):
        with suppress(msgspec.DecodeError):
            one: Examined = from_json(line if line.endswith(b"\n") else b"", Examined)
            found[one.path] = one.cards
    return found


def _died(name: str, exit_code: int, errors: bytes) -> str:
    how = operating_system.signal_name(exit_code) or f"exit code {exit_code}"
    last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
    return f"Importing {name} ended Python with {how}. {last[0][:200] if last else ''}".rstrip()


# --- Catalogue source -------------------------------------------------------------------------------------------------
# The cards that this agent offers: the built-in ones at once, a folder's own from a child that imports the files.


_log = logging.getLogger(__name__)

_LIMIT_S = 300.0
"""For the whole catalogue. Each file has a shorter limit of its own inside."""


class CatalogueSource:
    """``ready`` never waits; ``get`` is for when it said yes. Without a folder the built-in catalogue is enough."""

    def __init__(self, exercises: Path | None = None, catalogue: Catalogue | None = None) -> None:
        self._catalogue = catalogue
        self._child: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._deadline = 0.0
        self._failure = ""
        try:
            if catalogue is None and exercises is None:
                self._catalogue = load_builtin()
        except ProblemError as error:
            _log.info("%s The exercise files are asked instead.", error)
        if self._catalogue is None:
            self._begin(exercises)

    def ready(self) -> bool:
        """Whether ``get`` has an answer."""
        if self._child is None:
            return True
        code = self._child.poll()
        if code is None and time.monotonic() < self._deadline:
            return False
        self._finish(code)
        return True

    def get(self) -> Catalogue:
        """The catalogue. Raises ``ProblemError`` when it could not be made."""
        if self._catalogue is None:
            raise problem("catalogue.failed", f"The catalogue could not be made: {self._failure}.", "See agent.log.")
        return self._catalogue

    def close(self) -> None:
        """End the child if it is still running."""
        if self._child is not None:
            self._finish(None)

    def _begin(self, exercises: Path | None) -> None:
        command = [sys.executable, "-P", "-m", "clew_agent", "catalogue", "--json"]
        command += ["--exercises", str(exercises)] if exercises else []
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # closed in _finish
        self._deadline = time.monotonic() + _LIMIT_S
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._output, **operating_system.own_session()
        )

    def _finish(self, code: int | None) -> None:
        child, output = self._child, self._output
        self._child = self._output = None
        if child is None or output is None:
            return
        if code is None:
            child.kill()
            child.wait(timeout=10)
        with output:
            output.seek(0)
            data = output.read()
        try:
            self._catalogue = decode(data)
        except msgspec.DecodeError as error:
            self._failure = f"exit code {code}, {error}" if code is not None else f"not done after {_LIMIT_S:.0f} s"
