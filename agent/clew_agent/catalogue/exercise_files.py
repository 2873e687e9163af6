"""Finds the files that hold exercises: the built-in ones, and those of a folder that a teacher or student adds."""

from __future__ import annotations

import ast
import hashlib
import sys
import traceback
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from clew_shared.base.foreign import read_file
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.remedies import choose
from clew_shared.cards import ExerciseCard

BUILTIN_FOLDER = Path(__file__).parents[1] / "exercises"
BUILTIN_PACKAGE = "clew_agent.exercises"
MAX_SOURCE = 1 << 20
SCRIPT_LOG = Path(__file__).parents[1] / "scripts" / "clew_log.py"
"""The one file that training scripts import. A copy of it in someone's folder is no exercise."""


class ExerciseFile(msgspec.Struct, frozen=True):
    """A file of exercises; ``module`` is its name among the built-in modules, empty for a file of someone's own."""

    path: Path
    module: str = ""

    @property
    def shown(self) -> str:
        """The path as a card shows it: short for built-in files, so that it is the same on every machine."""
        return f"{self.module.replace('.', '/')}.py" if self.module else str(self.path)

    @property
    def guess(self) -> str:
        """The id that the file's name suggests; used while the file cannot say its own."""
        return self.path.stem.replace("_", "-")


class Examined(msgspec.Struct, frozen=True):
    """The cards that one file gives; one with a problem when it cannot be imported."""

    path: str
    cards: tuple[ExerciseCard, ...]


def builtin_files() -> tuple[ExerciseFile, ...]:
    """The exercises of this version: those of the folder by file name, then those of each folder in it."""
    folders = sorted(path.parent for path in BUILTIN_FOLDER.glob("*/__init__.py"))
    packages = [(BUILTIN_FOLDER, BUILTIN_PACKAGE), *((path, f"{BUILTIN_PACKAGE}.{path.name}") for path in folders)]
    return tuple(
        ExerciseFile(path, f"{package}.{path.stem}") for folder, package in packages for path in _sources(folder)
    )


_CHECK = "Check the folder of your own exercises."


def folder_files(folder: Path) -> tuple[ExerciseFile, ...]:
    """The exercise files in ``folder``, by file name. Raises ``ProblemError`` when it is none or holds none."""
    if not folder.is_dir():
        raise problem("exercises.folder", f"There is no folder {folder}.", _CHECK, str(folder), choose("exercises"))
    found = tuple(ExerciseFile(path.absolute()) for path in _sources(folder))
    if not found:
        text = f"The folder {folder} holds no .py file."
        raise problem("exercises.folder", text, _CHECK, str(folder), choose("exercises"))
    return found


def all_files(folder: Path | None) -> tuple[ExerciseFile, ...]:
    """The built-in files and those of ``folder``, if there is one."""
    return builtin_files() + (folder_files(folder) if folder else ())


def likely_files(exercise: str, folder: Path | None) -> Iterator[ExerciseFile]:
    """The files that may hold ``exercise``, the likeliest first: only those whose text has its id in quotes.

    A file is read when it is its turn: who takes the first need not wait for all. Raises ``ProblemError`` at once.
    """
    files = sorted(all_files(folder), key=lambda file: file.guess != exercise)
    return (file for file in files if mentions(file, exercise))


def read_source(file: ExerciseFile) -> str:
    """The text of the file, line ends as they are. Raises ``ProblemError``."""
    try:
        return read_file(file.path, MAX_SOURCE).decode()
    except ValueError as error:
        raise problem("exercise.source", f"Cannot read {file.path}: {error}.", where=str(file.path)) from None


def source_hash(source: str) -> str:
    """SHA-256 of the file's bytes."""
    return hashlib.sha256(source.encode()).hexdigest()


def broken_card(file: ExerciseFile, found: Problem) -> ExerciseCard:
    """The card of a file that could not be imported, with its source, so that the mistake can be shown."""
    try:
        source = read_source(file)
    except ProblemError:
        source = ""
    return ExerciseCard(
        id=file.guess,
        title=file.path.name,
        summary=found.text,
        source=source,
        source_hash=source_hash(source),
        file=file.shown,
        problem=found,
    )


OWN_MODULES = "clew_exercise_"
"""The beginning of the name of a module that is an exercise of one's own."""


def own_place(error: BaseException) -> str:
    """The last line of an exercise of one's own that ``error`` went through, as ``two_layers.py, line 54``; empty where
    it went through none."""
    modules = (module for name, module in sys.modules.items() if name.startswith(OWN_MODULES))
    path, line = _last_line(error, {getattr(module, "__file__", "") for module in modules})
    return f"{Path(path).name}, line {line}" if line else ""


def _last_line(error: BaseException, files: Collection[str]) -> tuple[str, int]:
    """The file, of ``files``, and its line that ``error`` went through last; line 0 where it went through none."""
    frames = traceback.extract_tb(error.__traceback__)
    found = ((frame.filename, frame.lineno or 0) for frame in reversed(frames) if frame.filename in files)
    return next(found, ("", 0))


def import_problem(file: ExerciseFile, error: BaseException) -> Problem:
    """Says what went wrong while importing ``file``, with the line of that file."""
    if isinstance(error, SyntaxError) and error.filename == str(file.path):
        line, text = error.lineno or 0, f"{type(error).__name__}: {error.msg}"
    else:
        line, text = _last_line(error, (str(file.path),))[1], f"{type(error).__name__}: {error}"
    place = f"line {line}: " if line else ""
    text = f"{file.path.name}, {place}{text.rstrip('.')}."
    return Problem("exercise.broken", text, "Fix the file.", f"{file.shown}:{line}")


def parse_problem(file: ExerciseFile) -> Problem | None:
    """Says what can be seen to be wrong with ``file`` without importing it: it cannot be read, or is not valid
    Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an odd escape: that is for the one who runs the file
            compile(read_source(file), str(file.path), "exec", ast.PyCF_ONLY_AST)
    except ProblemError as error:
        return error.problems[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # a null byte, endless brackets
        return import_problem(file, error)
    return None


def mentions(file: ExerciseFile, exercise: str) -> bool:
    """Whether the id of the exercise is somewhere in the file: only such a file has to be imported."""
    try:
        text = read_file(file.path, MAX_SOURCE).decode(errors="replace")
    except ValueError:
        return False
    return f'"{exercise}"' in text or f"'{exercise}'" in text


def _sources(folder: Path) -> list[Path]:
    found = (path for path in folder.glob("*.py") if not path.name.startswith(("_", ".")) and not path.is_dir())
    return sorted(path for path in found if path.name != SCRIPT_LOG.name)
