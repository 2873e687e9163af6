"""``clew race``: several runs from the same start over the same batches, one after the other, and who won."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import CommandContext, Parser
from clew_gui.commands.run.arguments import RunArguments, exercises_folder, not_taken, parse_run
from clew_gui.commands.run.check import check_study_here
from clew_gui.commands.run.study import run_all, save_study, show_study, study_status
from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.cards import ExerciseCard, Lane, RaceSpec
from clew_shared.catalogue import find_card
from clew_shared.params import LEARNING_RATE, STEPS, Value, convert
from clew_shared.spec import RunSpec
from clew_shared.study.study import StudySpec, check_study, choose_lanes, find_race, race_study, read_study

_DESCRIPTION = """Let optimizers run against each other: same weights at the start, same data, same batches, same steps.

EXERCISE is one that has a race, or a file that --save wrote. Every option of `clew run EXERCISE` that is about all
lanes can be given as well: --seed, --data, --steps, --batch-size and so on. Ctrl+C ends the race after this block.

The exit status is 0 when every lane finished, 1 when one failed, 2 when something asked for is wrong (then nothing was
started) and 130 when it was stopped."""
_NOT_HERE = ("out", "name", "queue", "site")


def race(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew race EXERCISE …``: returns the exit status."""
    parser = Parser("clew race", _DESCRIPTION, usage="clew race EXERCISE|STUDY.toml [options]")
    parser.add_argument("--race", metavar="ID", default="", help="which race, when the exercise has several")
    parser.add_argument("--lanes", metavar="A,B", default="", help="only these lanes (default: all)")
    parser.add_argument(
        "--rate", metavar="LANE=NUMBER", action="append", default=[], help="another learning rate for a lane"
    )
    parser.add_argument("--save", metavar="FILE", help="write the study as TOML as well, to run it again or share it")
    options, rest = parser.parse_known_args(list(argv))
    study, card, as_json, exercises = _asked(context, rest, options.race, _listed(options.lanes), options.rate)
    check_study_here(context.places, study, None, own=exercises is not None)
    if options.save:
        save_study(Path(options.save).expanduser(), study)
    finished = run_all(context, study, card, as_json, exercises)
    show_study(context, study, card, finished, as_json)
    return study_status(study, finished)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _asked(
    context: CommandContext, rest: Sequence[str], race: str, lanes: Sequence[str], rates: Sequence[str]
) -> tuple[StudySpec, ExerciseCard, bool, str | None]:
    """The study, its exercise's card, whether JSON is wanted, and the folder of own exercises."""
    known = cards(context.places, exercises_folder(rest))
    files = [word for word in rest if word.endswith(".toml")]
    if files:
        study = read_study(Path(files[0]).expanduser())
        raise_all([] if study.lanes else [_no_race(files[0])])
        card = find_card(known.exercises, study.base.exercise)
        stray = [word for word in rest if word not in (files[0], "--json")]
        text = f"A study contains all settings, so it does not take {' '.join(stray)}."
        raise_all([Problem("cli.study", text, "Change the file, or race the exercise.")] if stray else [])
        raise_all(check_study(study, card))
        return study, card, "--json" in rest, None
    request, card, spec = parse_run(rest, known, "")
    raise_all(not_taken("race", request, _NOT_HERE))
    chosen = find_race(card, race)
    study = race_study(chosen, spec, _lanes(card, chosen, lanes, rates), _steps(request, card, spec, chosen))
    raise_all(check_study(study, card))
    return study, card, request.json, request.exercises


def _no_race(file: str) -> Problem:
    return Problem("cli.study", f"{file} is a study over one axis, not a race.", f"Run it with: clew study {file}")


def _steps(request: RunArguments, card: ExerciseCard, spec: RunSpec, chosen: RaceSpec) -> int:
    """Returns the steps that were asked for, directly or with a preset; else the race's own budget."""
    preset = next((one for one in card.presets if one.name == request.preset), None)
    asked = any(name == STEPS for name, _ in request.assignments) or (preset is not None and STEPS in preset.values)
    steps = spec.params.get(STEPS)
    return steps if asked and isinstance(steps, int) else chosen.steps


def _lanes(card: ExerciseCard, chosen: RaceSpec, names: Sequence[str], rates: Sequence[str]) -> tuple[Lane, ...]:
    """The lanes that take part, with the rates that were given."""
    lanes = choose_lanes(chosen, names) if names else chosen.lanes
    for word in rates:
        name, equals, text = word.rpartition("=")
        if not equals:
            raise problem("cli.rate", f"--rate {word} names no lane.", "Write --rate adam=0.1.", "rate")
        (lane,) = choose_lanes(chosen, [name])
        values = {**lane.values, LEARNING_RATE: _rate(card, text)}
        lanes = tuple(Lane(name=one.name, values=values) if one.name == lane.name else one for one in lanes)
    return lanes


def _rate(card: ExerciseCard, text: str) -> Value:
    spec = next((spec for spec in card.params if spec.name == LEARNING_RATE), None)
    if spec is None:
        raise problem("cli.rate", f"{card.id} has no learning rate.", "Leave --rate out.", "rate")
    value, found = convert(spec, text)
    raise_all([found] if found is not None else [])
    return value
