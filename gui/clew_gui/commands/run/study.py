"""``clew study``, and how the runs of any study are done: one after the other, those that are finished not again."""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from clew_gui.base.student import signed
from clew_gui.commands.agent_program import cards, runs_program
from clew_gui.commands.context import BAD_INPUT, FAILED, INTERRUPTED, OK, CommandContext, Parser
from clew_gui.commands.output.result import ending, exit_status, why
from clew_gui.commands.output.study_tables import (
    StudyResult,
    ranking_lines,
    ranking_summary,
    scaling_lines,
    scaling_summary,
)
from clew_gui.commands.run.check import check_study_here
from clew_gui.commands.run.finished_runs import (
    FinishedRun,
    PlannedRun,
    do_runs,
    finished_runs,
    known_run,
    plan_run,
    result_of,
)
from clew_gui.commands.run.forecast_lines import forecast_lines
from clew_gui.commands.run.left_run import LeftAgent, left_runs
from clew_gui.commands.run.run import RunOutcome, follow, refusal, run_outcome
from clew_gui.commands.sites.flags import add_site_flags, check_site_flags, data_there, read_place
from clew_gui.session.kept_studies import KnownRun, KnownRuns, study_file, study_lock
from clew_gui.session.sampler import next_point
from clew_gui.sites.site import LOCAL
from clew_shared.base.foreign import from_toml as parse_toml
from clew_shared.base.places import Places
from clew_shared.base.problem import problem, raise_all
from clew_shared.cards import Catalogue, ExerciseCard, Preset
from clew_shared.catalogue import find_card, find_preset
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import MAX_NAME, SITE_PATH, RunSpec, read_text
from clew_shared.study.ranking import Better, stand
from clew_shared.study.study import (
    StudyRun,
    StudySpec,
    check_study,
    from_toml,
    largest,
    number_of_runs,
    study_runs,
    sweep_run,
    to_toml,
)
from clew_shared.study.sweep import Point, settled

_LOOK_S = 0.1
"""A window that looks whether the lock of a study is free has it for less than that."""
_DESCRIPTION = """Do the runs of a study one after the other, and show what they have in common and in what they differ.

SPEC.toml is a study: `clew scaling --save` and `clew race --save` write one, and docs/command-line.md has an example to
write by hand. Runs of this study that are finished are not done again, so a study can be stopped with Ctrl+C and
continued with the same command. With --site one job does all its runs; several at once where it has devices for them,
but never beside one that is timed.

The exit status is 0 when every run finished, 1 when one failed, 2 when something asked for is wrong (then nothing was
started) and 130 when it was stopped."""


def study(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew study SPEC.toml``: returns the exit status."""
    parser = Parser("clew study", _DESCRIPTION)
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
    check_study_here(context.places, found, options.site, own=options.exercises is not None)
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


def check_site(study: StudySpec, site: str | None) -> None:
    """Raises ``ProblemError`` for a study that cannot be done on a site; ``site`` None: on this computer."""
    if site is not None and study.sweep is not None and study.sweep.sampled:
        text = "The method tpe chooses each point by earlier results, so a job cannot get all runs at once."
        raise problem("sweep.site", text, "Take the method random on a site, or run it on this computer.", "method")


def run_study(
    context: CommandContext, study: StudySpec, card: ExerciseCard, known: Catalogue, options: argparse.Namespace
) -> int:
    """Do what is left of the study where ``options`` (those of the command) say, and show what came out; returns the
    exit status."""
    study = msgspec.structs.replace(study, base=signed(context.places, study.base))
    check_site(study, options.site)
    place = read_place(context.places, options, largest(study))
    if place is None:
        with _alone(context.places, study):
            kept = finished_runs(context.places, study, card)
            for line in forecast_lines(context.places, study, card, len(kept)):
                (context.note if options.json else context.say)(line)
            finished = run_all(context, study, card, options.json, options.exercises, kept)
    elif options.dry_run:
        from clew_gui.commands.run.site_run import show_script  # SSH is loaded there

        return show_script(context, place, [run.spec for run in study_runs(study)], options.json)
    else:
        from clew_gui.commands.run.site_run import open_terminal
        from clew_gui.commands.run.site_study import SiteStudy

        finished = SiteStudy(open_terminal(context), place, study, card, options.json).run(known, options.detach)
        if options.detach:
            context.note(f"It goes on by itself. To come back: `clew study` with its file and --site {options.site}")
            return OK
    if finished:
        show_study(context, study, card, finished, options.json)
    return study_status(study, finished)


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


def show_study(
    context: CommandContext, study: StudySpec, card: ExerciseCard, finished: Sequence[FinishedRun], as_json: bool
) -> None:
    """The table of a study: times and speed-ups over devices, else who did best."""
    results = [run.result for run in finished]
    lines, summary = (scaling_lines, scaling_summary) if study.timed else (ranking_lines, ranking_summary)
    for line in lines(study, card, results):
        (context.note if as_json else context.say)(line)
    if as_json:
        context.say_json(summary(study, card, results))


def save_study(path: Path, study: StudySpec) -> None:
    """Write the study as TOML. Raises ``ProblemError`` where that cannot be done."""
    try:
        path.write_text(to_toml(study), encoding="utf-8", newline="\n")
    except OSError as error:
        text = f"{path} could not be written: {error.strerror or error}."
        raise problem("cli.save", text, "Name a place that you may write to.", "save") from None


# --- Running ----------------------------------------------------------------------------------------------------------


def run_all(
    context: CommandContext,
    study: StudySpec,
    card: ExerciseCard,
    as_json: bool,
    exercises: str | None = None,
    kept: Sequence[KnownRun] = (),
) -> list[FinishedRun]:
    """The runs of the study in order, as far as nobody stopped it. ``kept`` are those that need not be done
    again. Raises ``ProblemError`` when the agent refuses one after all."""
    say = context.note if as_json else context.say
    going = {left.folder.name: left for left in left_runs(context.places, study, card)}
    at_work = (known_run(left.folder, RunState.RUNNING) for left in going.values())
    known = KnownRuns([*kept, *at_work], card)
    finished: list[FinishedRun] = []
    warm = not study.timed and number_of_runs(study) > 1 and largest(study).nodes == 1  # timed ones must begin alike
    with runs_program(context.places, exercises) as agent:

        def carry_out(one: PlannedRun, heading: str) -> FinishedRun:
            folder = context.places.runs / (str(uuid.uuid4()) if one.known is None else one.known.id)
            if one.known is None:
                spec = msgspec.structs.replace(one.run.spec, run=folder.name)
                outcome = run_outcome(context, spec, card, folder, heading, as_json, agent, warm)
            else:  # its program was killed, and beside it nothing could be measured
                say(f"{one.run.title}: it trains already, in {folder}; waiting for it.")
                left = LeftAgent(going[folder.name])
                outcome = follow(context, lambda: left, folder, card, heading, as_json, joined=True)
            return _ended(context, result_of(one.run, folder, outcome.history), outcome, say)

        plan = (plan_run(run, card, known) for run in _in_turn(study, card, finished))
        do_runs(study, plan, context.places.runs, carry_out, say, finished)
    return finished


def _in_turn(study: StudySpec, card: ExerciseCard, finished: Sequence[FinishedRun]) -> Iterator[StudyRun]:
    """The runs of the study, each when it is due: a sampler looks at what has ``finished`` meanwhile."""
    sweep = study.sweep
    if sweep is None or not sweep.sampled:
        yield from study_runs(study)
        return
    metric = next((one for one in card.metrics if one.name == study.metric), None)
    better: Better = "higher" if metric is not None and metric.better == "higher" else "lower"
    tried: list[tuple[Point, float | None]] = []
    for _ in range(sweep.count):
        point, begun = next_point(sweep, card, better, tried), len(finished)
        yield from (sweep_run(study, point, seed) for seed in sweep.seeds or (None,))
        bests = [stand("", one.result.history, study.metric, better, None).best for one in finished[begun:]]
        good = [best for best in bests if best is not None]
        tried.append((point, sum(good) / len(good) if good and len(good) == len(bests) else None))


def _ended(
    context: CommandContext, result: StudyResult, outcome: RunOutcome, say: Callable[[str], None]
) -> FinishedRun:
    """Reports and returns the result of a run of the study. Raises ``ProblemError`` if the agent refused it."""
    if outcome.exit_code == BAD_INPUT:
        raise refusal(outcome)
    history = outcome.history
    for line in (f"{result.title}: {ending(history)}", *why(history)):
        say(line)
    status = exit_status(history.fold.state) if history.fold.done else FAILED
    if not history.fold.done and not outcome.asked:
        last = outcome.problem.splitlines()[-1:] or ["It printed nothing."]
        context.note(f"The agent ended with status {outcome.exit_code} before the run did. Its last output: {last[0]}")
    return FinishedRun(result, status, outcome.asked or history.fold.state is RunState.STOPPED)


def study_status(study: StudySpec, finished: Sequence[FinishedRun]) -> int:
    """The exit status of a study that ended so."""
    statuses = {run.status for run in finished}
    if INTERRUPTED in statuses or len(finished) < number_of_runs(study):
        return INTERRUPTED
    return FAILED if statuses - {OK} else OK
