"""``clew-agent run``: guard and trainer without a supervisor. Nothing is left of a run that is refused."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import msgspec

from clew_agent.catalogue.lookup import card_of
from clew_agent.datasets.search import find_search, is_name
from clew_agent.node.exit_codes import BAD_INPUT, exit_code_for
from clew_agent.processes.guard import watch
from clew_agent.trainer.resuming import check_resumable
from clew_agent.trainer.spec_check import check_against_card, recorded_revision
from clew_shared.base.file_names import why_unsafe
from clew_shared.base.foreign import from_toml as parse_toml
from clew_shared.base.harmless import on_one_line, say
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError, long_names_refused, problem, raise_all
from clew_shared.base.terminal import ascii_json
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import FrameReader, Record
from clew_shared.journal.history import History
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run, summary
from clew_shared.spec import RunSpec, check_spec, from_toml, read_spec, read_text, spread_again, to_toml

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


Prepared = tuple[RunFolder, int, str]
"""A run that may start: its folder, the attempt, and the text of the spec if that is to be written."""


def run(argv: Sequence[str]) -> int:
    """Returns 0 for FINISHED, 1 for FAILED and TIMED_OUT, 2 for bad input, 130 for STOPPED."""
    options = _parser().parse_args(argv)
    try:
        return _run(options)
    except ProblemError as error:
        if options.json:
            _print_json({"problems": error.problems})
        raise


def _run(options: argparse.Namespace) -> int:
    with long_names_refused():
        folder, attempt, spec = _choose(options)
    show = ProgressLine(folder, attempt, sys.stderr, quiet=options.quiet)
    made = _make_folder(folder, attempt, spec)
    logged = folder.log.stat().st_size if folder.log.exists() else 0
    fold = watch(folder, attempt, options.exercises, show.tick)
    show.close()
    if fold.problem is not None:
        say(f"clew-agent run: {fold.problem.command_text()}", sys.stderr)
    code = exit_code_for(fold)
    if code == BAD_INPUT:
        folder.undo(attempt, logged)  # nothing is left of it but an empty folder that the user had made
        folder.path.mkdir(exist_ok=True)
        _remove_empty(made)
        if options.json:
            _print_json({"problems": [fold.problem]})
    elif options.json:
        _print_json(summary(read_run(folder.path), folder.path))
    elif not options.quiet:
        say(f"{fold.state} after {fold.step} steps: {folder.path}")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clew-agent run", description="Train a run spec on this machine.")
    parser.add_argument("spec", type=Path, nargs="?", metavar="SPEC.toml")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the run's folder (default: in Clew's runs folder)")
    parser.add_argument("--resume", type=Path, metavar="RUN_DIR", help="continue the run in this folder")
    parser.add_argument("--strategy", metavar="NAME", help="with --resume: continue with another strategy")
    parser.add_argument("--devices", type=int, metavar="N", help="with --resume: continue on this many devices")
    parser.add_argument("--nodes", type=int, metavar="N", help="with --resume: continue on this many nodes")
    parser.add_argument("--exercises", type=Path, metavar="DIR", help="add the exercises in this folder")
    parser.add_argument("--json", action="store_true", help="end with a summary of the run as one line of JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser


def _choose(options: argparse.Namespace) -> Prepared:
    if options.resume is not None:
        changes = {name: getattr(options, name) for name in ("strategy", "devices", "nodes")}
        given = {name: value for name, value in changes.items() if value is not None}
        return prepare_resume(RunFolder(options.resume.absolute()), options.exercises, given)
    if options.spec is not None:
        return prepare(read_text(options.spec), options.out, options.exercises, str(options.spec))
    raise problem("cli.usage", "A run spec is needed.", "See: clew-agent run --help")


def _print_json(value: object) -> None:
    say(ascii_json(msgspec.json.encode(value)))


# --- Before anything is made ------------------------------------------------------------------------------------------


def prepare(text: str, out: Path | None, exercises: Path | None, where: str = "the run spec") -> Prepared:
    """A new run of the spec ``text``, after everything that can be checked without TensorFlow; ``where`` it stands is
    named in refusals. Raises ``ProblemError`` with all problems."""
    spec = from_toml(text, where)
    spec = msgspec.structs.replace(spec, run=spec.run or str(uuid.uuid4()), data=_absolute(spec.data))
    folder = RunFolder((out or find_places().runs / spec.run).absolute())
    problems = [*_check_id(spec.run), *_check_folder(folder.path)]
    try:
        card = card_of(spec.exercise, exercises)
    except ProblemError as error:
        raise_all([*problems, *error.problems])
        raise
    spec = with_preset(spec, card, seeded="seed" in parse_toml(text))
    raise_all([*problems, *check_against_card(spec, card, find_search(find_places()))])
    return folder, 1, to_toml(spec)


def with_preset(spec: RunSpec, card: ExerciseCard, seeded: bool) -> RunSpec:
    """``spec`` with all that its preset says and it does not say itself; ``seeded``: it names a seed."""
    preset = next((preset for preset in card.presets if preset.name == spec.preset), None)
    if preset is None:
        return spec
    seed = spec.seed if seeded or preset.seed is None else preset.seed
    return msgspec.structs.replace(spec, params=preset.values | spec.params, data=spec.data or preset.data, seed=seed)


def prepare_resume(folder: RunFolder, exercises: Path | None, changes: Mapping[str, Any]) -> Prepared:
    """A further attempt of the run in ``folder``, with ``changes`` of how it spreads. Raises ``ProblemError``."""
    raise_all(check_resumable(folder))
    attempt = folder.attempts()[-1] + 1
    before = read_spec(folder.spec_of(attempt))
    card = card_of(before.exercise, exercises)
    spec = spread_again(before, card, changes)
    revision = recorded_revision(folder, attempt - 1)
    wrong = check_against_card(spec, card, find_search(find_places()), revision=revision)
    raise_all([*check_spec(spec, "the attempt"), *wrong])
    return folder, attempt, to_toml(spec) if spec != before else ""


def _absolute(data: str) -> str:
    """A path to data as the trainer can find it, which works in another folder."""
    return data if not data or is_name(data) else str(Path(data).expanduser().absolute())


def _check_id(run: str) -> list[Problem]:
    why = why_unsafe(run) if _RUN_ID.fullmatch(run) else "use at most 64 letters, digits, dots, - and _"
    if not why:
        return []
    text = f"The run id {run[:80]!r} cannot be a file name: {why}."
    return [Problem("spec.run", text, "Leave it out: Clew makes one.", "run")]


def _check_folder(folder: Path) -> list[Problem]:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return []
    hint = "Name another folder with --out, or remove it first."
    return [Problem("run.exists", f"{folder} exists already and is not empty.", hint, str(folder))]


# --- The folder -------------------------------------------------------------------------------------------------------


def _make_folder(run: RunFolder, attempt: int, spec: str) -> list[Path]:
    """Make the folder of a new run and write its spec; returns the folders that did not exist, innermost first."""
    path = run.path
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    if spec:
        file = run.spec if attempt == 1 else run.changed_spec(attempt)
        try:
            path.mkdir(parents=True, exist_ok=True)
            file.write_text(spec, encoding="utf-8", newline="\n")
        except OSError as error:
            with suppress(OSError):
                file.unlink()
            _remove_empty(made)
            text = f"The run folder {path} cannot be made: {error.strerror}."
            raise problem("run.folder", text, "Choose another one with --out.", str(path)) from None
    return made


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


# --- Progress line ----------------------------------------------------------------------------------------------------
# One line on a terminal that says how far a headless run is; it reads the journal like any other viewer.


_EVERY_S = 1.0
_CHUNK = 1 << 20


class ProgressLine:
    """Rewrites its line once a second; silent when ``quiet`` or when ``stream`` is no terminal."""

    def __init__(self, folder: RunFolder, attempt: int, stream: TextIO, quiet: bool = False) -> None:
        self._path = folder.journal(attempt)
        self._attempt = attempt
        self._stream = stream
        self._silent = quiet or not stream.isatty()
        self._reader = FrameReader()
        self._shown = False
        self._history = History()
        self._next = 0.0

    def tick(self) -> None:
        """Called often; does something once a second."""
        if self._silent or time.monotonic() < self._next or not self._path.exists():
            return
        self._next = time.monotonic() + _EVERY_S
        self._catch_up()
        width = shutil.get_terminal_size().columns - 1
        self._shown = True
        self._stream.write("\r" + on_one_line(line(self._history))[:width].ljust(width))
        self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._shown:
            self._stream.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
            self._stream.flush()

    def _catch_up(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._reader.rewind())
            while chunk := file.read(_CHUNK):
                for found in self._reader.feed(chunk):
                    if isinstance(found, Record):
                        self._history.feed(self._attempt, found.event)


def line(history: History) -> str:
    """State, step and the last value of each metric: ``RUNNING  step 120 of 500  loss 0.41``."""
    fold = history.fold
    total = f" of {fold.steps}" if fold.steps else ""
    parts = [str(fold.state), f"step {fold.step}{total}"]
    for name in history.recorded():
        value = history.last(name)
        if value is not None:
            parts.append(f"{name} {value:.4g}")
    rate = history.steps_per_second()
    return "  ".join([*parts, f"{rate:,.0f} steps/s"] if rate else parts)
