"""The catalogue: children import the exercise files, with a time limit, and their cards are collected."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
import psutil

from clew_agent.catalogue.exercise_files import (
    Examined,
    ExerciseFile,
    broken_card,
    builtin_files,
    folder_files,
    parse_problem,
    read_source,
    source_hash,
)
from clew_agent.catalogue.script_card import read_script
from clew_agent.datasets import registry
from clew_shared import __version__
from clew_shared.base import operating_system
from clew_shared.base.foreign import from_json
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue, DataSetCard, ExerciseCard
from clew_shared.catalogue import load_builtin

IMPORT_LIMIT_S = 120.0
"""Seconds that one child may compute, or stand still. From a slow disk an import takes as long as that takes."""
_log = logging.getLogger(__name__)
_PACKAGE = "clew_agent/exercises/"
"""The beginning of the shown path of a built-in file."""
OWN_CHAPTER = "Your own"
"""The chapter of exercises in a user's folder that name none."""
_ORDER = (
    *("linear-regression", "softmax", "cnn"),
    *("minibatch", "vectorize", "model-parallel", "imagenet-bench", "pipeline", "bandwidth"),
    *("perceptron", "generalisation", "activations", "rnn", "memory", "autoencoder", "anomaly", "transfer"),
    *("vae", "gan"),
)
"""The order in which the courses go through the built-in exercises; others follow by chapter and title."""


def make_catalogue(folder: Path | None = None, limit: float = IMPORT_LIMIT_S, fresh: bool = False) -> Catalogue:
    """The catalogue of the built-in exercises and of those in ``folder``, as soon as all files have been read.

    A child that computes or stands still for longer than ``limit`` seconds is given up; ``fresh``: built-in files are
    imported as well. Raises ``ProblemError`` when ``folder`` is no folder of exercises.
    """
    if folder is not None:
        folder_files(folder)
    source = CatalogueSource(folder, limit=limit, fresh=fresh)
    while source.reading:
        time.sleep(_WAIT_S)
        source.turn()
    return msgspec.structs.replace(source.get(), datasets=registry.cards())


def _script_cards(file: ExerciseFile) -> tuple[ExerciseCard, ...]:
    """The card of a training script, which is never imported; none of any other file."""
    try:
        script = read_script(file)
    except ProblemError as error:
        return (broken_card(file, error.problems[0]),)
    return (script.card,) if script is not None else ()


def _own(card: ExerciseCard) -> ExerciseCard:
    return msgspec.structs.replace(card, chapter=card.chapter or OWN_CHAPTER)


def arrange(cards: Sequence[ExerciseCard], datasets: tuple[DataSetCard, ...] = ()) -> Catalogue:
    """The catalogue of the exercises, in the order in which they are shown, and of the data sets.

    Of two exercises with one id the first counts.

    After the built-in exercises come chapters by the least ``order`` in them, and in a chapter exercises by theirs;
    where that is equal, by name.
    """
    problems = {card.id: 0 for card in cards}
    unique = [_renamed(card, problems) for card in cards]
    ranks = {name: rank for rank, name in enumerate(_ORDER)}
    first: dict[str, int] = {}
    for card in unique:
        first[card.chapter] = min(card.order, first.get(card.chapter, card.order))

    def place(card: ExerciseCard) -> tuple[int, int, str, int, str]:
        return (ranks.get(card.id, len(_ORDER)), first[card.chapter], card.chapter, card.order, card.title)

    ordered = sorted(unique, key=place)
    chapters = tuple(dict.fromkeys(card.chapter for card in ordered))
    return Catalogue(chapters=chapters, exercises=tuple(ordered), datasets=datasets, version=__version__)


def _renamed(card: ExerciseCard, seen: dict[str, int]) -> ExerciseCard:
    """``card``, or a card with a problem when an earlier one has the same id."""
    seen[card.id] += 1
    if seen[card.id] == 1:
        return card
    text = f"{card.file} has the id {card.id!r}, which another exercise has already."
    found = Problem("exercise.twice", text, "Give it another id.", card.file)
    return msgspec.structs.replace(card, id=f"{card.id}-{seen[card.id]}", problem=found)


class _Import:
    """A child that imports ``files`` and writes their cards. It may compute or stand still for ``limit`` seconds."""

    def __init__(self, files: Sequence[ExerciseFile], limit: float) -> None:
        self.files = files
        self._limit = limit
        self._begun = self._moved = time.monotonic()
        self._used = 0.0
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe ends with its last writer; closed in _close_files
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        words = [f"{file.module}={file.path}" for file in files]
        self._child = operating_system.start_session(
            [sys.executable, "-P", "-m", "clew_agent", "examine", *words],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
        )

    def result(self) -> tuple[dict[str, tuple[ExerciseCard, ...]], Problem] | None:
        """The cards by path, and what to say of a file that has none; None while it goes on."""
        code = self._child.poll()
        if code is None and not self._is_late():
            return None
        self._end()
        name, where = self.files[0].path.name, str(self.files[0].path)
        text = f"{name} was not imported: it computed, or stood still, for {self._limit:g} s."
        if code is not None:
            text = _died(name, code, _read(self._errors))
        found = read_examined(_read(self._output))
        self._close_files()
        return found, Problem("exercise.broken", text, "Fix the file.", where)

    def close(self) -> None:
        """Gives up the import."""
        self._end()
        self._close_files()

    def _is_late(self) -> bool:
        now, used = time.monotonic(), self._used
        with suppress(psutil.Error):
            used = sum(psutil.Process(self._child.pid).cpu_times()[:2])
        if used != self._used:
            self._used, self._moved = used, now
        return now - self._moved >= self._limit or min(now - self._begun, used) >= self._limit

    def _end(self) -> None:
        operating_system.kill_session(self._child)  # also what outlives the child
        self._child.wait()

    def _close_files(self) -> None:
        self._output.close()
        self._errors.close()


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def read_examined(output: bytes) -> dict[str, tuple[ExerciseCard, ...]]:
    """The cards by path that a child wrote. A torn line, or one that an exercise file printed, is skipped."""
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
# The cards that this agent offers: the built-in ones at once, a folder's own from children that import the files.


_WAIT_S = 0.02
_LOOK_S = 0.5
"""Seconds between two checks of the folder. The agent's loop takes up to a second, so a change is noticed within two
seconds."""
_AT_ONCE = 2
"""Files that are imported at the same time: each child loads TensorFlow, and a file may hang."""
READING = "exercise.reading"
"""The code of the problem of a card whose file is being read."""
Stamp = tuple[int, ...]


class CatalogueSource:
    """The source of the present catalogue, which follows the files in ``exercises``. Nothing here waits.

    ``turn`` looks for changes. What can be said without importing a file is said at once: that it is gone, that it is
    being read, that it is not valid Python. ``generation`` grows with every change of ``get``.
    """

    def __init__(
        self,
        exercises: Path | None = None,
        catalogue: Catalogue | None = None,
        look_every_s: float = _LOOK_S,
        limit: float = IMPORT_LIMIT_S,
        fresh: bool = False,
    ) -> None:
        self.generation = 0
        self._folder = exercises
        self._given = catalogue
        self._look_every_s, self._limit = look_every_s, limit
        self._stamps: dict[Path, Stamp] = {}
        self._helpers: dict[Path, Stamp] = {}
        self._cards: dict[Path, tuple[ExerciseCard, ...]] = {}
        self._waiting: list[tuple[ExerciseFile, ...]] = []
        self._imports: dict[Path, _Import] = {}
        self._next_look = 0.0
        self._trouble: Problem | None = None
        self._builtin: tuple[ExerciseCard, ...] = ()
        self._datasets: tuple[DataSetCard, ...] = ()
        self._catalogue = catalogue or Catalogue()
        if catalogue is None:
            self._begin(fresh)

    def _begin(self, fresh: bool) -> None:
        """Takes the packaged cards of the built-in exercises, unless they were made from other files than are here."""
        try:
            packaged = load_builtin()
            made_from = {card.source_hash for card in packaged.exercises}
            fresh = fresh or made_from != {source_hash(read_source(file)) for file in builtin_files()}
            self._builtin, self._datasets = () if fresh else packaged.exercises, packaged.datasets
        except ProblemError as error:
            _log.info("%s The exercise files are asked instead.", error)
        if not self._builtin:
            self._read(builtin_files(), together=True)
        self.turn()
        self._arrange()

    @property
    def reading(self) -> bool:
        """Whether a file is being read."""
        return bool(self._waiting or self._imports)

    def ready(self, exercise: str = "") -> bool:
        """Whether all files have been read, or at least the one of ``exercise``."""
        return not self.reading or any(
            card.id == exercise and (card.problem is None or card.problem.code != READING)
            for card in self._catalogue.exercises
        )

    def get(self) -> Catalogue:
        """Returns what is known now; cards of files that are being read have a problem that says so."""
        return self._catalogue

    def reload(self) -> None:
        """Read every file of the folder again."""
        self._stamps.clear()
        self._next_look = 0.0
        self.turn()

    def close(self) -> None:
        """End what is being read."""
        for one in self._imports.values():
            one.close()
        self._imports.clear()
        self._waiting.clear()

    def turn(self) -> None:
        """Look for changes of the folder, take in what was read, read what is next."""
        changed = self._look() | self._take()
        while self._waiting and len(self._imports) < _AT_ONCE:
            files = self._waiting.pop(0)
            self._imports[files[0].path] = _Import(files, self._limit)
        if changed:
            self._arrange()

    # --- Looking ------------------------------------------------------------------------------------------------------

    def _look(self) -> bool:
        """Whether a file was added, removed or changed. One that others import changes all of them."""
        now = time.monotonic()
        if self._folder is None or self._given is not None or now < self._next_look:
            return False
        self._next_look = now + self._look_every_s
        try:
            files = {file.path: file for file in folder_files(self._folder)}
            trouble = None
        except ProblemError as error:
            files, trouble = {}, error.problems[0]
        guides = _stamps(path.with_suffix(".md") for path in files)
        stamps = {path: (*one, *guides.get(path.with_suffix(".md"), ())) for path, one in _stamps(files).items()}
        helpers = _stamps(path.absolute() for path in self._folder.glob("_*.py"))
        if helpers != self._helpers:
            self._helpers, self._stamps = helpers, {}
        gone = [path for path in self._cards if path not in stamps and path not in self._modules()]
        new = [path for path, stamp in stamps.items() if self._stamps.get(path) != stamp]
        if not gone and not new and trouble == self._trouble:
            return False
        self._stamps, self._trouble = stamps, trouble
        for path in gone:
            self._drop(path)
            del self._cards[path]
        self._read([files[path] for path in new])
        return True

    def _modules(self) -> set[Path]:
        return set() if self._builtin else {file.path for file in builtin_files()}

    def _drop(self, path: Path) -> None:
        self._waiting = [files for files in self._waiting if files[0].path != path]
        if path in self._imports:
            self._imports.pop(path).close()

    def _read(self, files: Sequence[ExerciseFile], together: bool = False) -> None:
        """Read these files, again if that is under way; ``together`` in one child."""
        waiting: list[ExerciseFile] = []
        for file in files:
            self._drop(file.path)
            wrong = parse_problem(file)
            if wrong is not None:
                self._cards[file.path] = (broken_card(file, wrong),)
                continue
            if scripts := _script_cards(file):
                self._cards[file.path] = scripts
                continue
            text = f"{file.path.name} is being read."
            found = Problem(READING, text, "This takes some seconds.", file.shown)
            before = self._cards.get(file.path) or (broken_card(file, found),)
            self._cards[file.path] = tuple(msgspec.structs.replace(card, problem=found) for card in before)
            waiting.append(file)
        self._waiting += [tuple(waiting)] if together and waiting else [(file,) for file in waiting]

    def _take(self) -> bool:
        """Takes the cards that children have read; returns whether there is something new."""
        done = {path: found for path, one in self._imports.items() if (found := one.result()) is not None}
        for path, (cards, complaint) in done.items():
            files = self._imports.pop(path).files
            for file in files:
                if str(file.path) in cards or len(files) == 1:
                    self._cards[file.path] = cards.get(str(file.path)) or (broken_card(file, complaint),)
                else:  # one of them ended the child: each gets one of its own
                    self._waiting.append((file,))
        return bool(done)

    def _arrange(self) -> None:
        """The catalogue of what is known."""
        self.generation += 1
        cards = [card for found in self._cards.values() for card in found]
        if self._trouble is not None and self._folder is not None:
            name = self._folder.name
            cards.append(ExerciseCard(id=f"folder-{name}", title=name, problem=self._trouble))
        mine = [card if card.file.startswith(_PACKAGE) else _own(card) for card in cards]
        self._catalogue = arrange([*self._builtin, *mine], self._datasets)


def _stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """Returns for each file the values that change when it is written again."""
    found: dict[Path, Stamp] = {}
    for path in paths:
        with suppress(OSError):  # removed between two checks
            state = path.stat()
            found[path] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found
