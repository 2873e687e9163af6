"""``clew race``: several runs from the same start over the same batches, one after the other, and who won."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from clew_gui.base.state_words import quantity
from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import BAD_INPUT, FAILED, INTERRUPTED, OK, CommandContext, Parser
from clew_gui.commands.output import words
from clew_gui.commands.output.result import ending, exit_status, why
from clew_gui.commands.run.arguments import RunArguments, exercises_folder, parse_run
from clew_gui.commands.run.run import RunOutcome, refusal, run_outcome
from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.cards import ExerciseCard, Lane, RaceSpec
from clew_shared.catalogue import find_card
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import Value, check, convert
from clew_shared.ranking import Better, Standing, rank, stand
from clew_shared.spec import RunSpec
from clew_shared.study import (
    StudySpec,
    check_study,
    choose_lanes,
    find_race,
    lane_specs,
    lane_title,
    race_study,
    read_study,
    to_toml,
)

_DESCRIPTION = """Let optimizers run against each other: same weights at the start, same data, same batches, same steps.

EXERCISE is one that has a race, or a file that --save wrote. Every option of `clew run EXERCISE` that is about all
lanes can be given as well: --seed, --data, --steps, --batch-size and so on. Ctrl+C ends the race after this block.

The exit status is 0 when every lane finished, 1 when one failed, 2 when something asked for is wrong (then nothing was
started) and 130 when it was stopped."""
_NOT_HERE = ("out", "name", "queue", "site")


@dataclass(frozen=True)
class Finish:
    """One lane's end."""

    name: str
    spec: RunSpec
    folder: Path
    outcome: RunOutcome
    standing: Standing


def race(shell: CommandContext, argv: Sequence[str]) -> int:
    """``clew race EXERCISE …``: returns the exit status."""
    parser = Parser("clew race", _DESCRIPTION, usage="clew race EXERCISE|STUDY.toml [options]")
    parser.add_argument("--race", metavar="ID", default="", help="which race, when the exercise has several")
    parser.add_argument("--lanes", metavar="A,B", default="", help="only these lanes (default: all)")
    parser.add_argument(
        "--rate", metavar="LANE=NUMBER", action="append", default=[], help="another learning rate for a lane"
    )
    parser.add_argument("--save", metavar="FILE", help="write the study as TOML as well, to run it again or share it")
    options, rest = parser.parse_known_args(list(argv))
    study, card, as_json, exercises = _asked(shell, rest, options.race, _listed(options.lanes), options.rate)
    if options.save:
        _save(Path(options.save).expanduser(), study)
    return _run_all(shell, study, card, as_json, exercises)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _asked(
    shell: CommandContext, rest: Sequence[str], race: str, lanes: Sequence[str], rates: Sequence[str]
) -> tuple[StudySpec, ExerciseCard, bool, str | None]:
    """The study, its exercise's card, whether JSON is wanted, and the folder of own exercises."""
    known = cards(shell.places, exercises_folder(rest))
    files = [word for word in rest if word.endswith(".toml")]
    if files:
        study = read_study(Path(files[0]).expanduser())
        card = find_card(known.exercises, study.base.exercise)
        stray = [word for word in rest if word not in (files[0], "--json")]
        text = f"A study contains all settings, so it does not take {' '.join(stray)}."
        raise_all([Problem("cli.study", text, "Change the file, or race the exercise.")] if stray else [])
        raise_all(check_study(study, card))
        return study, card, "--json" in rest, None
    request, card, spec = parse_run(rest, known, "")
    wrong = [name for name in _NOT_HERE if getattr(request, name)]
    raise_all([Problem("cli.race", f"clew race does not take --{name}.", "Leave it out.", name) for name in wrong])
    chosen = find_race(card, race)
    study = race_study(chosen, spec, _lanes(card, chosen, lanes, rates), _steps(request, card, spec, chosen))
    raise_all(check_study(study, card))
    return study, card, request.json, request.exercises


def _steps(request: RunArguments, card: ExerciseCard, spec: RunSpec, chosen: RaceSpec) -> int:
    """What was asked for, by itself or with a preset; else the race's own budget."""
    preset = next((one for one in card.presets if one.name == request.preset), None)
    asked = any(name == "steps" for name, _ in request.assignments) or (preset is not None and "steps" in preset.values)
    steps = spec.params.get("steps")
    return steps if asked and isinstance(steps, int) else chosen.steps


def _lanes(card: ExerciseCard, chosen: RaceSpec, names: Sequence[str], rates: Sequence[str]) -> tuple[Lane, ...]:
    """The lanes that take part, with the rates that were given."""
    lanes = choose_lanes(chosen, names) if names else chosen.lanes
    for word in rates:
        name, equals, text = word.rpartition("=")
        if not equals:
            raise problem("cli.rate", f"--rate {word} names no lane.", "Write --rate adam=0.1.", "rate")
        (lane,) = choose_lanes(chosen, [name])
        values = {**lane.values, "learning_rate": _rate(card, text)}
        lanes = tuple(Lane(name=one.name, values=values) if one.name == lane.name else one for one in lanes)
    return lanes


def _rate(card: ExerciseCard, text: str) -> Value:
    spec = next((spec for spec in card.params if spec.name == "learning_rate"), None)
    if spec is None:
        raise problem("cli.rate", f"{card.id} has no learning rate.", "Leave --rate out.", "rate")
    value, found = convert(spec, text)
    raise_all([found] if found is not None else [])
    return value


def _save(path: Path, study: StudySpec) -> None:
    try:
        path.write_text(to_toml(study), encoding="utf-8")
    except OSError as error:
        text = f"{path} could not be written: {error.strerror or error}."
        raise problem("cli.save", text, "Name a place that you may write to.", "save") from None


# --- Running ----------------------------------------------------------------------------------------------------------


def _run_all(shell: CommandContext, study: StudySpec, card: ExerciseCard, as_json: bool, exercises: str | None) -> int:
    finishes: list[Finish] = []
    specs = lane_specs(study)
    for number, (lane, spec) in enumerate(zip(study.lanes, specs, strict=True), start=1):
        heading = f"{study.title or study.study}, lane {number} of {len(specs)}: {lane_title(lane)}"
        folder = shell.places.runs / str(uuid.uuid4())
        typed = _typed(spec, card, folder.name)
        outcome = run_outcome(shell, typed, card, folder, heading, as_json, exercises)
        finishes.append(_finish(shell.note if as_json else shell.say, study, lane, typed, card, folder, outcome))
        if outcome.asked or outcome.history.fold.state is RunState.STOPPED:
            break
    say = shell.note if as_json else shell.say
    for line in _table(study, card, finishes):
        say(line)
    if as_json:
        shell.say_json(_summary(study, card, finishes))
    statuses = {_status(finish.outcome) for finish in finishes} | (
        {INTERRUPTED} if len(finishes) < len(specs) else set()
    )
    return INTERRUPTED if INTERRUPTED in statuses else FAILED if statuses - {OK} else OK


def _typed(spec: RunSpec, card: ExerciseCard, run: str) -> RunSpec:
    """The spec with values of the right kind, and with its run's id."""
    typed, _ = check(card.params, spec.params)
    return msgspec.structs.replace(spec, run=run, params={name: typed[name] for name in spec.params})


def _finish(
    say: Callable[[str], None],
    study: StudySpec,
    lane: Lane,
    spec: RunSpec,
    card: ExerciseCard,
    folder: Path,
    outcome: RunOutcome,
) -> Finish:
    """Tell how a lane ended. Raises ``ProblemError`` when the agent refused it."""
    if outcome.exit_code == BAD_INPUT:
        raise problem("cli.refused", refusal(outcome.output))
    say(f"{lane_title(lane)}: {ending(outcome.history)}")
    for line in why(outcome.history):
        say(line)
    standing = stand(spec.run, outcome.history, study.metric, _better(card, study.metric), study.target)
    return Finish(lane_title(lane), spec, folder, outcome, standing)


def _better(card: ExerciseCard, metric: str) -> Better:
    return "higher" if words.metric_of(card, metric).better == "higher" else "lower"


def _status(outcome: RunOutcome) -> int:
    fold = outcome.history.fold
    return exit_status(fold.state) if fold.done else FAILED


def _ranked(study: StudySpec, card: ExerciseCard, finishes: Sequence[Finish]) -> list[Finish]:
    by_run = {finish.spec.run: finish for finish in finishes}
    return [by_run[one.run] for one in rank([finish.standing for finish in finishes], _better(card, study.metric))]


def _table(study: StudySpec, card: ExerciseCard, finishes: Sequence[Finish]) -> list[str]:
    """The places, the winner first, aligned for reading."""
    metric = words.metric_of(card, study.metric)
    name = words.inside(metric.label)
    rows = [("", "lane", *([f"steps to {name} {study.target:g}"] if study.target is not None else []), f"best {name}")]
    for place, finish in enumerate(_ranked(study, card, finishes), start=1):
        one = finish.standing
        best = "–" if one.best is None else quantity(one.best, metric.format)
        reached = [f"{one.reached:,}" if one.reached is not None else "–"] if study.target is not None else []
        rows.append((f"{place}." if one.best is not None else "–", finish.name, *reached, best))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(_set(k, text, widths[k]) for k, text in enumerate(row)) for row in rows]
    return ["", *(line.rstrip() for line in lines), f"Study {study.study}, {study.steps:,} steps each"]


def _set(column: int, text: str, width: int) -> str:
    return text.ljust(width) if column == 1 else text.rjust(width)


def _summary(study: StudySpec, card: ExerciseCard, finishes: Sequence[Finish]) -> dict[str, object]:
    lanes = [
        {
            "place": place,
            "lane": finish.name,
            "run": finish.spec.run,
            "state": finish.outcome.history.fold.state.value,
            "reached": finish.standing.reached,
            "best": finish.standing.best,
            "steps": finish.standing.step,
            "run_dir": str(finish.folder),
        }
        for place, finish in enumerate(_ranked(study, card, finishes), start=1)
    ]
    head = {"study": study.study, "exercise": study.base.exercise, "steps": study.steps}
    return {**head, "metric": study.metric, "target": study.target, "lanes": lanes}
