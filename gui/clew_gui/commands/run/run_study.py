"""How the runs of any study are done, here or on a site: those that are finished not again, and what is shown then."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from clew_gui.base.student import signed
from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.context import FAILED, INTERRUPTED, OK, CommandContext
from clew_gui.commands.find import trains_here
from clew_gui.commands.output.result import ending, why
from clew_gui.commands.output.study_tables import (
    ranking_lines,
    ranking_summary,
    scaling_lines,
    scaling_summary,
)
from clew_gui.commands.run.forecast_lines import forecast_lines
from clew_gui.commands.run.own_agent import own_session, train
from clew_gui.commands.sites.flags import read_place
from clew_gui.session.kept_studies import study_lock
from clew_gui.session.study_runner import PlannedRun, StudyResult, StudyRunner
from clew_shared.base.places import Places
from clew_shared.base.problem import problem
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.lifecycle import RunState
from clew_shared.study.study import StudySpec, largest, number_of_runs, study_runs

_LOOK_S = 0.1
"""A window that looks whether the lock of a study is free has it for less than that."""


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
            results = run_here(context, study, card, known, options.json, options.exercises)
    elif options.dry_run:
        from clew_gui.commands.run.site_run import show_script  # SSH is loaded there

        return show_script(context, place, [run.spec for run in study_runs(study)], options.json)
    else:
        from clew_gui.commands.run.site_run import open_terminal
        from clew_gui.commands.run.site_study import SiteStudy

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
            spec = one.run.spec if one.known is None else one.known.spec
            outcome = train(context, own, spec, card, heading, as_json, stops, joined=one.known is not None)
            for line in (f"{one.run.title}: {ending(outcome.history)}", *why(outcome.history)):
                say(line)
            stopped = outcome.asked or outcome.history.fold.state is RunState.STOPPED
            return one.result(outcome.folder, outcome.history, outcome.status, stopped)

        at_work = (runner.known(run, RunState.RUNNING) for run in going)
        return runner.do(runner.plan([*kept, *at_work]), carry_out)


def study_status(study: StudySpec, results: Sequence[StudyResult]) -> int:
    """The exit status of a study that ended so."""
    statuses = {result.status for result in results}
    if INTERRUPTED in statuses or len(results) < number_of_runs(study):
        return INTERRUPTED
    return FAILED if statuses - {OK} else OK
