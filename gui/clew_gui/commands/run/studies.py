"""``clew study``, ``sweep``, ``race`` and ``scaling``: each makes a study of what was typed, and has its runs done."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew_gui.base.student import signed
from clew_gui.commands.agent_program import cards, stop_requests
from clew_gui.commands.context import FAILED, INTERRUPTED, OK, CommandContext, Parser
from clew_gui.commands.find import trains_here
from clew_gui.commands.output.study_tables import ranking_lines, ranking_summary, scaling_lines, scaling_summary
from clew_gui.commands.run.arguments import RunArguments, known_exercises, not_taken, parse_run, whole
from clew_gui.commands.run.check import check_study_here, forecast_lines
from clew_gui.commands.run.own_agent import own_session, train
from clew_gui.commands.sites.flags import add_site_flags, check_site_flags, data_there, read_place
from clew_gui.session.kept_studies import keep_study, study_file, study_lock
from clew_gui.session.study_runner import PlannedRun, StudyResult, StudyRunner
from clew_gui.sites.site import LOCAL
from clew_shared.base.foreign import from_toml as parse_toml
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, os_refused, problem, raise_all
from clew_shared.cards import Catalogue, ExerciseCard, Lane, Preset, RaceSpec
from clew_shared.catalogue import find_card, find_preset
from clew_shared.goal_settings import idle_seeds
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import LEARNING_RATE, STEPS, ParamSpec, Value, convert
from clew_shared.spec import MAX_NAME, SITE_PATH, RunSpec, read_text
from clew_shared.study.study import (
    StudySpec,
    check_study,
    choose_lanes,
    find_race,
    from_toml,
    largest,
    number_of_runs,
    race_study,
    read_study,
    scaling_study,
    study_runs,
    sweep_study,
    to_toml,
    usual_metric,
    usual_warm_up,
)
from clew_shared.study.sweep import FIELDS, Sweep, Values, is_many, read_range, read_values, settled

_NOT_HERE = ("out", "name", "queue")
_STUDY = """Do the runs of a study one after the other, and show what they have in common and in what they differ.

SPEC.toml is a study: `clew scaling --save` and `clew race --save` write one, and docs/command-line.md has an example to
write by hand. Runs of this study that are finished are not done again, so a study can be stopped with Ctrl+C and
continued with the same command. With --site one job does all its runs; several at once where it has devices for them,
but never beside one that is timed.

The exit status is 0 when every run finished, 1 when one failed, 2 when something asked for is wrong (then nothing was
started) and 130 when it was stopped."""


def study(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew study SPEC.toml``: returns the exit status."""
    parser = Parser("clew study", _STUDY)
    parser.add_argument("file", metavar="SPEC.toml", help="the study")
    parser.add_argument("--exercises", metavar="DIR", help="a folder of your own exercises, if it is one of them")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON that sums the study up")
    add_site_flags(parser)
    options = parser.parse_args(list(argv))
    options.site = None if options.site == LOCAL else options.site
    raise_all(check_site_flags(options))
    known = cards(context.places, options.exercises)
    path = Path(options.file).expanduser()
    if not path.exists() and study_file(context.places, options.file).exists():
        path = study_file(context.places, options.file)
    text = read_text(path, "study.read")
    found = from_toml(text, str(path))
    card = find_card(known.exercises, found.base.exercise)
    base = complete_base(found.base, card, seeded="seed" in parse_toml(text)["base"])
    found = msgspec.structs.replace(found, study=found.study or path.stem[:MAX_NAME], base=base)
    there = data_there(base.data, options.site is not None) if base.data.startswith(SITE_PATH) else []
    raise_all([*there, *check_study(found, card)])
    if found.sweep is not None:
        found = msgspec.structs.replace(found, sweep=settled(found.sweep, card))
        raise_all(check_study(found, card))
    _check(context, found, options.site, options.exercises)
    return run_study(context, found, card, known, options)


def complete_base(base: RunSpec, card: ExerciseCard, seeded: bool) -> RunSpec:
    """``base`` with all that its preset says and it does not say itself, and an absolute path to its data.

    ``seeded``: it names a seed. Raises ``ProblemError`` for an unknown preset."""
    preset = find_preset(card, base.preset) if base.preset else Preset(name="", title="")
    seed = base.seed if seeded or preset.seed is None else preset.seed
    data, params = base.data or preset.data, preset.values | base.params
    path = Path(data).expanduser()
    if (
        data
        and data not in card.datasets
        and not data.startswith(SITE_PATH)
        and (path.suffix or len(path.parts) > 1 or path.exists())
    ):
        data = str(path.absolute())
    return msgspec.structs.replace(base, preset="", seed=seed, data=data, params=params)


# --- Studies of an exercise -------------------------------------------------------------------------------------------


class _Asked(NamedTuple):
    """The words that ``clew run`` knows, for all runs of a study."""

    context: CommandContext
    known: Catalogue
    request: RunArguments
    card: ExerciseCard
    spec: RunSpec

    def do(self, study: StudySpec, save: str | None, keep: bool = False) -> int:
        """Have the study's runs done; ``save`` names a file for it, and without one it may be kept with the others.
        Returns the exit status."""
        context, request = self.context, self.request
        raise_all(check_study(study, self.card))
        if request.detach and not (save or keep):
            text = "Without its file nobody can come back to a study that was left alone."
            raise problem("cli.scaling", text, "Add --save FILE.", "save")
        _check(context, study, request.site, request.exercises)
        if save:
            _save(Path(save).expanduser(), study)
        if keep:
            file = Path(save).expanduser() if save else keep_study(context.places, study)
            text = f"The study is kept in {file}; to continue it: clew study {file}"
            (context.note if request.json else context.say)(text)
        return run_study(context, study, self.card, self.known, request)


def _read(context: CommandContext, command: str, words: Sequence[str]) -> _Asked:
    words, known = known_exercises(context.places, words)
    request, card, spec = parse_run(words, known, "")
    raise_all(not_taken(command, request, _NOT_HERE))
    return _Asked(context, known, request, card, spec)


def _check(context: CommandContext, study: StudySpec, site: str | None, exercises: str | None) -> None:
    """Raises ``ProblemError`` for a study that cannot be done on the ``site``; None: on this computer."""
    if site is not None and study.sweep is not None and study.sweep.sampled:
        text = "The method tpe chooses each point by earlier results, so a job cannot get all runs at once."
        raise problem("sweep.site", text, "Take the method random on a site, or run it on this computer.", "method")
    check_study_here(context.places, study, site, own=exercises is not None)


def _save(path: Path, study: StudySpec) -> None:
    """Write the study as TOML. Raises ``ProblemError`` where that cannot be done."""
    with os_refused("cli.save", f"{path} could not be written", "Name a place that you may write to.", "save"):
        path.write_text(to_toml(study), encoding="utf-8", newline="\n")


# --- Race -------------------------------------------------------------------------------------------------------------


_RACE = """Let optimizers run against each other: same weights at the start, same data, same batches, same steps.

EXERCISE is one that has a race, or a file that --save wrote. Every option of `clew run EXERCISE` that is about all
lanes can be given as well: --seed, --data and so on. With --site one job trains them. Ctrl+C ends it after this block.

The exit status is 0 when every lane finished, 1 when one failed, 2 when something asked for is wrong (then nothing was
started) and 130 when it was stopped."""


def race(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew race EXERCISE …``: returns the exit status."""
    parser = Parser("clew race", _RACE, usage="clew race EXERCISE|STUDY.toml [options]")
    parser.add_argument("--race", metavar="ID", default="", help="which race, when the exercise has several")
    parser.add_argument("--lanes", metavar="A,B", default="", help="only these lanes (default: all)")
    parser.add_argument(
        "--rate", metavar="LANE=NUMBER", action="append", default=[], help="another learning rate for a lane"
    )
    parser.add_argument("--save", metavar="FILE", help="write the study as TOML as well, to run it again or share it")
    options, rest = parser.parse_known_args(list(argv))
    files = [word for word in rest if word.endswith(".toml")]
    if files:
        if not read_study(Path(files[0]).expanduser()).lanes:
            text = f"{files[0]} is a study over one axis, not a race."
            raise problem("cli.study", text, f"Run it with: clew study {files[0]}")
        return study(context, argv)
    asked = _read(context, "race", rest)
    chosen = find_race(asked.card, options.race)
    names = [name.strip() for name in options.lanes.split(",") if name.strip()]
    lanes = _lanes(asked.card, chosen, names, options.rate)
    return asked.do(race_study(chosen, asked.spec, lanes, _steps(asked, chosen)), options.save)


def _steps(asked: _Asked, chosen: RaceSpec) -> int:
    """Returns the steps that were asked for, directly or with a preset; else the race's own budget."""
    preset = next((one for one in asked.card.presets if one.name == asked.request.preset), None)
    given = any(name == STEPS for name, _ in asked.request.assignments) or (preset and STEPS in preset.values)
    steps = asked.spec.params.get(STEPS)
    return steps if given and isinstance(steps, int) else chosen.steps


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


# --- Sweep ------------------------------------------------------------------------------------------------------------


_SWEEP = """Train an exercise with many values of its settings, one run for each point, and rank the runs.

SPEC.toml is a study with a [sweep]: `clew sweep EXERCISE --save` writes one, and docs/command-line.md has an example
to write by hand. Or name an exercise and what to try:

  clew sweep softmax --over optimizer="sgd, adam" --over learning_rate="0.01 to 1 log 3" --seeds 1,2
  clew sweep softmax --over learning_rate="0.001 to 1 log" --method random --count 20 --pruner median

Every option of `clew run EXERCISE` that is about all runs can be given as well. With --site one job does all runs.
Runs that are finished are not done again: after Ctrl+C the same study goes on with `clew study FILE`.

The exit status is 0 when every run finished, 1 when one failed, 2 when something asked for is wrong (then nothing was
started) and 130 when it was stopped."""
_TWO_WHOLE = re.compile(r"[-+]?[0-9]+,[0-9]+")
"""Matches two whole numbers, or one number with a decimal comma."""


def sweep(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew sweep …``: returns the exit status."""
    if any(word.endswith(".toml") for word in argv[:1]):
        return study(context, argv)
    parser = Parser("clew sweep", _SWEEP, usage="clew sweep SPEC.toml | EXERCISE --over NAME=VALUES [options]")
    parser.add_argument("--over", metavar="NAME=VALUES", action="append", default=[], help="a setting and what to try")
    method = "default grid; tpe needs Optuna and does its runs on this computer, not with --site"
    parser.add_argument("--method", choices=("grid", "random", "tpe"), default="grid", help=method)
    parser.add_argument("--count", metavar="N", default="0", help="points of the methods random and tpe")
    parser.add_argument("--seeds", metavar="N,N", default="", help="run each point once with each of these seeds")
    parser.add_argument(
        "--pruner", choices=("median", "halving"), default="", help="stop runs early that do worse than the others"
    )
    parser.add_argument("--metric", metavar="NAME", default="", help="what the runs are ranked by")
    parser.add_argument("--save", metavar="FILE", help="write the study there; default: where Clew keeps studies")
    options, rest = parser.parse_known_args(list(argv))
    asked = _read(context, "sweep", rest)
    card = asked.card
    wanted = Sweep(
        method=options.method,
        over=_over(card, options.over, options.method),
        count=whole("count", options.count, "20"),
        seeds=tuple(whole("seeds", word, "1,2,3") for word in options.seeds.split(",") if word.strip()),
        pruner=options.pruner,
    )
    new = sweep_study(asked.spec, wanted, metric=options.metric or usual_metric(card), title=f"{card.title}, sweep")
    raise_all(check_study(new, card))
    new = msgspec.structs.replace(new, sweep=settled(wanted, card))
    raise_all(check_study(new, card))
    if remark := idle_seeds([run.spec for run in study_runs(new)] if not wanted.sampled else (), card):
        context.note(remark)
    return asked.do(new, options.save, keep=True)


def _over(card: ExerciseCard, words: Sequence[str], method: str) -> dict[str, Values]:
    over: dict[str, Values] = {}
    found: list[Problem] = []
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not text.strip():
            found.append(
                Problem("cli.over", f"--over {word} has no values.", 'Write --over learning_rate="0.01, 0.1".')
            )
            continue
        if name in over:
            found.append(
                Problem("cli.over", f"--over names {name} twice.", "Put all its values behind one --over.", name)
            )
            continue
        spec = next((param for param in card.params if param.name == name), None)
        between = read_range(text) if spec is not None and method != "grid" else None
        over[name], wrong = (between, []) if between is not None else _values(spec, name, text)
        found += wrong
    raise_all(found)
    return over


def _values(spec: ParamSpec | None, name: str, text: str) -> tuple[Values, list[Problem]]:
    if spec is None:  # where it spreads, or a name that the study's check refuses
        words = [word.strip() for word in text.split(",") if word.strip()]
        whole = name in FIELDS and all(re.fullmatch("[0-9]+", word) for word in words)
        return tuple(int(word) if whole else word for word in words), []
    if spec.type.python is float and _TWO_WHOLE.fullmatch(text.strip()):
        found = f"--over {name}={text} may mean one number or two."
        one, two = text.replace(",", "."), text.replace(",", ", ")
        return (), [Problem("cli.over", found, f'Write {one} for one, or --over {name}="{two}" for two.', name)]
    return read_values(spec, text if is_many(text) else text.replace(",", ", "))


# --- Scaling ----------------------------------------------------------------------------------------------------------


_SCALING = """Time an exercise on several numbers of devices: images/s after the warm-up, speed-up, efficiency.

Strong scaling (the default) divides the same batch among more devices; --weak gives every device a whole batch. Every
option of `clew run EXERCISE` that is about all runs can be given as well: --data, --steps, --batch-size and so on.
Without GPUs the devices are logical ones of the processor: they show how it is done and make nothing faster.

With --site one job does all its runs, one after the other. --save FILE writes the study first; after Ctrl+C
`clew study FILE` continues it.

The exit status is 0 when every run finished, 1 when one failed, 2 when something asked for is wrong (then nothing was
started) and 130 when it was stopped."""
_DEVICES = "1,2,4"


def scaling(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew scaling EXERCISE …``: returns the exit status."""
    parser = Parser("clew scaling", _SCALING, usage="clew scaling EXERCISE [--devices 1,2,4] [options]")
    parser.add_argument("--devices", metavar="N,N", help=f"numbers of devices (default {_DEVICES}), or one for --nodes")
    parser.add_argument("--nodes", metavar="N,N", help="numbers of nodes, or of processes on this computer")
    parser.add_argument("--repeats", metavar="N", default="1", help="how often each is measured (default 1)")
    parser.add_argument("--warm-up", metavar="N", help="steps that do not count (default 20, at most a quarter)")
    parser.add_argument("--weak", action="store_true", help="weak scaling: the batch grows with the devices")
    parser.add_argument("--save", metavar="FILE", help="write the study as TOML as well, to continue or share it")
    options, rest = parser.parse_known_args(list(argv))
    axis, counts, fixed = _axis(options.devices, options.nodes)
    devices, nodes = (max(counts), fixed) if axis == "devices" else (fixed, max(counts))
    spread = ["--devices", str(devices), *(["--nodes", str(nodes)] if nodes > 1 else [])]
    asked = _read(context, "scaling", [*rest, *spread])
    warm_up = options.warm_up
    study = scaling_study(
        asked.spec,
        counts,
        axis=axis,
        repeats=whole("repeats", options.repeats, "3"),
        warm_up=usual_warm_up(asked.spec.params.get(STEPS)) if warm_up is None else whole("warm-up", warm_up, "3"),
        weak=options.weak,
        title=f"{asked.card.title}, {'weak' if options.weak else 'strong'} scaling",
    )
    return asked.do(study, options.save)


def _axis(devices: str | None, nodes: str | None) -> tuple[str, list[int], int]:
    """Returns which of the two numbers changes from run to run, its values, and the number of the other one."""
    of_devices = _counts("devices", devices or ("1" if nodes else _DEVICES))
    of_nodes = _counts("nodes", nodes or "1")
    if len(of_devices) > 1 and len(of_nodes) > 1:
        text = "A study has one axis, and both --devices and --nodes list several numbers."
        raise problem("cli.scaling", text, "Give one number for one of them.", "nodes")
    if len(of_devices) == 1 and nodes:
        return "nodes", of_nodes, of_devices[0]
    return "devices", of_devices, of_nodes[0]


def _counts(name: str, text: str) -> list[int]:
    counts = [whole(name, word, _DEVICES) for word in text.split(",") if word.strip()]
    if not counts or min(counts) < 1:
        raise problem("cli.scaling", f"--{name} takes whole numbers from 1 on, got {text!r}.", f"Write --{name} 1,2,4.")
    return counts


# --- Its runs ---------------------------------------------------------------------------------------------------------
# Those that are finished are not done again.


_LOOK_S = 0.1
"""A window that looks whether the lock of a study is free has it for less than that."""


def run_study(
    context: CommandContext, study: StudySpec, card: ExerciseCard, known: Catalogue, options: argparse.Namespace
) -> int:
    """Do what is left of the study where ``options`` (those of the command) say, and show what came out; returns the
    exit status."""
    study = msgspec.structs.replace(study, base=signed(context.places, study.base))
    place = read_place(context.places, options, largest(study))
    if place is None:
        with _alone(context.places, study):
            results = run_here(context, study, card, known, options.json, options.exercises)
    elif options.dry_run:
        from clew_gui.commands.run.site_run import show_script  # SSH is loaded there

        return show_script(context, place, [run.spec for run in study_runs(study)], options.json)
    else:
        from clew_gui.commands.run.site_run import SiteStudy, open_terminal

        results = SiteStudy(open_terminal(context), place, study, card, options.json).run(known, options.detach)
        if options.detach:
            context.note(f"It goes on by itself. To come back: `clew study` with its file and --site {options.site}")
            return OK
    if results:
        _show(context, study, card, results, options.json)
    return study_status(study, results)


@contextmanager
def _alone(places: Places, study: StudySpec) -> Iterator[None]:
    """Makes sure that no other program does this study's runs meanwhile: two would each do what the other has not
    finished yet."""
    lock = study_lock(places, study.study)
    if not lock.acquire():
        time.sleep(_LOOK_S)
    if not lock.acquire():
        text = f"Another program on this computer is doing the runs of {study.study} already."
        raise problem("study.busy", text, "Wait for it, or end it and start this again.", study.study)
    try:
        yield
    finally:
        lock.release()


def _show(
    context: CommandContext, study: StudySpec, card: ExerciseCard, results: Sequence[StudyResult], as_json: bool
) -> None:
    """The table of a study: times and speed-ups over devices, else who did best."""
    lines, summary = (scaling_lines, scaling_summary) if study.timed else (ranking_lines, ranking_summary)
    for line in lines(study, card, results):
        (context.note if as_json else context.say)(line)
    if as_json:
        context.say_json(summary(study, card, results))


# --- Here -------------------------------------------------------------------------------------------------------------


def run_here(
    context: CommandContext,
    study: StudySpec,
    card: ExerciseCard,
    known: Catalogue,
    as_json: bool,
    exercises: str | None,
) -> list[StudyResult]:
    """Do what is left of the study on this computer, one run after the other, as far as nobody stops it; what became of
    each. Raises ``ProblemError`` when the agent refuses one after all."""
    say = context.note if as_json else context.say
    runner = StudyRunner(study, card, context.places.runs, say)
    kept = runner.finished()
    for line in forecast_lines(context.places, study, card, len(kept)):
        say(line)
    going = [run for run in runner.runs() if trains_here(runner.folders / run)]
    # timed ones must begin alike
    with own_session(context, known, exercises, fresh=study.timed) as own, stop_requests() as stops:

        def carry_out(one: PlannedRun, heading: str) -> StudyResult:
            if one.known is not None:  # its program was killed, and beside it nothing could be measured
                say(f"{one.run.title}: it trains already, in {runner.folders / one.known.id}; waiting for it.")
            result = train(context, own, one, card, heading, as_json, stops)
            return result._replace(asked=result.asked or result.history.fold.state is RunState.STOPPED)

        at_work = (runner.known(run, RunState.RUNNING) for run in going)
        return runner.do(runner.plan([*kept, *at_work]), carry_out)


def study_status(study: StudySpec, results: Sequence[StudyResult]) -> int:
    """The exit status of a study that ended so."""
    statuses = {result.status for result in results}
    if INTERRUPTED in statuses or len(results) < number_of_runs(study):
        return INTERRUPTED
    return FAILED if statuses - {OK} else OK
