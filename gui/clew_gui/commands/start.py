"""``clew start``: the window, or on a machine without a display a run in the terminal and a picture of the window.

What only one of them needs is imported there.
"""

from __future__ import annotations

import gc
import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from clew_gui.commands.context import BAD_INPUT, FAILED, OK, CommandContext, Parser
from clew_gui.commands.has_display import has_display
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError, check_qt, problem
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import FIRST_EXERCISE, find_card, load_builtin
from clew_shared.data_sets import BUILT_IN

_PICTURE_S = 120
"""Bound on painting one picture; it takes about two seconds."""


def start(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew start [--exercise ID] [FILE]``: returns the window's or the run's exit status."""
    parser = Parser(
        "clew start", "Open the window. Without a display, run an exercise here and write a picture of the window."
    )
    default = f"the one that was open last; without a display {FIRST_EXERCISE}"
    parser.add_argument("--exercise", metavar="ID", help=f"which exercise to open (default: {default})")
    parser.add_argument("file", metavar="FILE", nargs="?", default="", help="a hand-in, or an exercise's file, to open")
    parser.add_argument("--picture", metavar="PNG", help="where the picture goes when there is no display")
    options = parser.parse_args(list(argv))
    catalogue = load_builtin()
    card = find_card(catalogue.exercises, options.exercise or FIRST_EXERCISE)
    if has_display(os.environ, operating_system.NAME):
        file = str(Path(options.file).expanduser().absolute()) if options.file else ""
        return _window(card.id if options.exercise else "", catalogue, file)
    if options.file:
        command = "run" if options.file.endswith(".py") else "verify-handin"
        hint = f"Use it here: clew {command} {shlex.quote(options.file)}"
        raise problem("start.display", f"There is no display here to show {options.file}.", hint, options.file)
    picture = Path(options.picture) if options.picture else context.places.home / "pictures" / f"{card.id}.png"
    return _without_display(context, card, picture.expanduser().absolute())


_REPLAY = """Play a run that has ended in the window, by the slider over its steps.

The recording is listed among your runs until the window closes; it reaches no goal and cannot be handed in."""


def replay(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew replay RUN``: returns the window's exit status."""
    from clew_gui.commands.find import RUN_HELP, find_run
    from clew_gui.session.runs import DEMONSTRATION, demonstrations, find_demonstration, read_recording

    parser = Parser("clew replay", _REPLAY)
    parser.add_argument("run", metavar="RUN", nargs="?", help=f"{RUN_HELP}, or {DEMONSTRATION}NAME")
    parser.add_argument("--list", action="store_true", help="list the demonstrations that come with Clew")
    options = parser.parse_args(list(argv))
    if options.list:
        for name in demonstrations():
            context.say(f"{DEMONSTRATION}{name}")
        return OK
    if not options.run:
        raise problem("cli.run", "Which run?", "Name one, or see: clew replay --list", "run")
    demo, name = options.run.startswith(DEMONSTRATION), options.run.removeprefix(DEMONSTRATION)
    folder = find_demonstration(name) if demo else find_run(context.places, options.run)
    read_recording(folder)
    if not has_display(os.environ, operating_system.NAME):
        hint = f"See what came of it: clew show {shlex.quote(str(folder))}"
        raise problem("start.display", "There is no display here to show the recording.", hint, options.run)
    return _window("", load_builtin(), str(folder))


def _window(exercise: str, catalogue: Catalogue, file: str) -> int:
    """The window on ``exercise``; empty: on the one that was open last. It opens ``file``, a hand-in or the folder of a
    run, if that is not empty."""
    if (found := check_qt()) is not None:
        raise ProblemError(found)
    gc.disable()  # nearly all that is made on the way to the window stays; then it collects by itself
    try:
        from clew_gui.app import open_window
    except (ImportError, OSError) as error:  # a library that Qt needs
        hint = "The doctor says what is missing and how to get it: clew doctor"
        raise problem("start.load", f"A part of the window cannot be loaded: {error}.", hint) from error
    return open_window(exercise, catalogue, file=file)


def _without_display(context: CommandContext, card: ExerciseCard, picture: Path) -> int:
    context.say(f"There is no display here, so {card.id} runs in the terminal.")
    status, folder = _run(context, card)
    if folder is None:
        return status
    if (found := check_qt()) is not None:
        context.say(f"There is no picture of the window. {found.text} {found.hint}")
        return status
    return _paint(context, card, folder, picture) or status


def _run(context: CommandContext, card: ExerciseCard) -> tuple[int, Path | None]:
    """Run the exercise with the course's values; with the built-in digits when its own data is nowhere to be found."""
    try:
        return _run_with(context, card, ())
    except ProblemError as error:
        if BUILT_IN not in card.datasets:
            raise
        context.say(error.problems[0].text)
        context.say("So the built-in digits are used: 1,797 real handwritten digits of 8 × 8 pixels.")
    return _run_with(context, card, ("--data", BUILT_IN))


def _run_with(context: CommandContext, card: ExerciseCard, words: Sequence[str]) -> tuple[int, Path | None]:
    from clew_gui.commands.run.arguments import parse_run
    from clew_gui.commands.run.run import run_spec

    _, _, spec = parse_run([card.id, *words], load_builtin(), str(uuid.uuid4()))
    folder = context.places.runs / spec.run
    status = run_spec(context, spec, card, load_builtin())
    return status, folder if folder.is_dir() and status != BAD_INPUT else None


def _paint(context: CommandContext, card: ExerciseCard, folder: Path, picture: Path) -> int:
    """A picture of the real window, drawn without a display by a process of its own; 0 when it was written."""
    command = [sys.executable, "-m", "clew_gui.app", "--exercise", card.id, "--run", str(folder)]
    command += ["--screenshot", str(picture)]
    environment = {**os.environ, "QT_QPA_PLATFORM": operating_system.QT_WITHOUT_SCREEN}
    picture.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PICTURE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        context.note(f"clew start: painting the picture took more than {_PICTURE_S} s and was given up.")
        return FAILED
    if done.returncode != 0 or not picture.is_file():
        words = done.stderr.strip().splitlines()[-1:] or ["it gave no reason"]
        context.note(f"clew start: the picture of the window could not be written: {words[0]}")
        return FAILED
    context.say(f"A picture of the window with this run: {picture}")
    return 0
