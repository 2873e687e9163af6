"""Describes a run that is over."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clew_gui.base.kept_spec import kept_spec
from clew_gui.base.settings import local_settings
from clew_gui.charts.cluster import ClusterSetup, setup_of
from clew_gui.charts.measured import measured_plots, text_tables, timeline_text
from clew_gui.commands.output import words
from clew_gui.commands.output.progress import values_line
from clew_gui.reports.facts import kept_answers
from clew_gui.study.advice import advise
from clew_gui.study.goals import check_goal, needs_words
from clew_gui.study.prediction import prediction_words
from clew_gui.study.rate_range import rate_curve, rate_words
from clew_gui.study.trace import trace_lines as traced_lines
from clew_gui.study.usage import usage_words
from clew_shared.base.number_words import counted, rate
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec, read_spec


def title(spec: RunSpec, card: ExerciseCard | None) -> str:
    """``Softmax: preset tiny, seed 7, data digits``."""
    parts = [f"preset {spec.preset}"] if spec.preset else []
    parts.append(f"seed {spec.seed}")
    data = spec.data or (card.datasets[0] if card and card.datasets else "")
    parts += [f"data {data}"] if data else []
    return f"{card.title if card else spec.exercise}: {', '.join(parts)}"


def exit_status(state: RunState) -> int:
    """Returns 0 for a finished run, 130 for a stopped one (as a shell says after Ctrl+C), 1 for any other end."""
    return {RunState.FINISHED: 0, RunState.STOPPED: 130}.get(state, 1)


def ending(history: History, state: RunState | None = None) -> str:
    """``Finished: 500 steps in 3.2 s at 6,203 steps/s; loss 0.31, test accuracy 90.79 %.`` ``state``: another one than
    the journal's, as its job knows it."""
    fold = history.fold
    text = f"{words.state_word(state or fold.state)}: {fold.step:,} steps in {words.duration(history.fold.seconds)}"
    speed = history.steps_per_second()
    if speed:
        text += f" at {rate(speed)}"
    values = values_line(history, None)
    return f"{text}; {values}." if values else f"{text}."


def why(history: History, reason: str = "") -> Iterator[str]:
    """The reason of an end that was not asked for, what to do, and where curves stopped to be finite numbers.
    ``reason``: what its job knows better than the journal."""
    fold = history.fold
    if history.first_nonfinite:
        yield words.not_finite(history)
    if fold.problem is not None:
        yield fold.problem.command_text()
    elif (fold.state is not RunState.FINISHED or fold.step < fold.steps) and (reason or fold.reason):
        yield reason or fold.reason


def advice_lines(history: History, places: Places) -> Iterator[str]:
    """Advice on the run, unless the settings say none; that it diverged, ``why`` says already."""
    if local_settings(places).load().advice:
        yield from (f"Advice: {one.text}" for one in advise(history) if one.kind != "divergence")


def usage_lines(history: History) -> Iterator[str]:
    """Yields what the run used of its machines, if anything was sampled."""
    found = usage_words(history.pulse_summary())
    if found:
        yield f"{found}."


def trace_lines(history: History) -> Iterator[str]:
    """Yields where a step's time goes and what is dear in it, with an empty line around, if steps were traced."""
    if history.trace is not None:
        yield from ("", *traced_lines(history.trace), "")


def asked_lines(history: History, folder: Path) -> Iterator[str]:
    """Yields what a range test shows, and how near a prediction came."""
    try:
        spec = read_spec(RunFolder(folder).spec)
    except ProblemError:
        return
    if spec.rate_range is not None:
        yield rate_words(rate_curve(history, spec.rate_range, history.fold.steps))
    if words := prediction_words(history):
        yield words


def goal_lines(history: History, card: ExerciseCard | None, folder: Path, places: Places) -> Iterator[str]:
    """Yields one line for each goal of the exercise, with what it asks for; those of another data set than the run's
    are counted, not judged."""
    spec, answers = kept_spec(folder), kept_answers(places, card.id) if card else {}
    others = Counter[str]()
    for goal in card.goals if card else ():
        result = check_goal(goal, history, card, spec, answers)
        if result.text == needs_words(goal):
            others[result.text.removeprefix("needs ")] += 1
        else:
            yield f"{'[x]' if result.reached else '[ ]'} {goal.text} ({result.text})"
    yield from (f"[ ] {counted(number, 'more goal')} with {data}" for data, number in others.items())


def measured_lines(history: History, card: ExerciseCard | None) -> Iterator[str]:
    """Yields what the run measured, as tables with an empty line around each."""
    plots = measured_plots(card.measured if card else (), history.series)
    for lines in (text_tables(plots), *(timeline_text(plot) for plot in plots if plot.spec.form == "timeline")):
        yield from ("", *lines) if lines else ()
    yield from ("",) if history.series else ()


def update_lines(history: History, card: ExerciseCard | None, folder: Path) -> Iterator[str]:
    """Yields what parameter servers received: how many gradients, how stale, from which workers; nothing for other
    runs."""
    counts = history.updates.counts
    if not counts.workers.any():
        return
    servers, shares = sum(role == "ps" for role, _ in history.peers), counts.shares()
    places = [counted(len(shares), "worker"), *([counted(servers, "server")] if servers else [])]
    dropped = f", {counts.dropped:,} dropped as too old" if counts.dropped else ""
    setup = kept_setup(card, folder)
    places = [setup.words, *places] if setup is not None else places
    yield f"{', '.join(places).capitalize()}: {counts.applied:,} gradients applied{dropped}"
    stale = f"mean {counts.mean_staleness:.2f}, median {counts.median_staleness()}, at most {counts.largest_staleness}"
    yield f"Staleness {stale}"
    yield from staleness_bars(counts.staleness[1])
    yield "Shares    " + ", ".join(f"worker {worker} {100 * share:.0f} %" for worker, share in shares.items())


def kept_setup(card: ExerciseCard | None, folder: Path) -> ClusterSetup | None:
    """Returns the requested setup of the run in ``folder``; None if its spec cannot be read."""
    spec = kept_spec(folder)
    return setup_of(spec, card) if spec is not None else None


_ROWS = 12
_BAR = 40


def staleness_bars(counts: NDArray[np.int64]) -> Iterator[str]:
    """A histogram for a terminal, of at most twelve rows."""
    last = int(np.flatnonzero(counts)[-1]) if counts.any() else 0
    width = -(-(last + 1) // _ROWS)
    sums = np.add.reduceat(counts, np.arange(0, last + 1, width)) if counts.size else counts
    for place, found in enumerate(sums.tolist()):
        low, high = place * width, min((place + 1) * width - 1, last)
        name = f"{low}" if low == high else f"{low} to {high}"
        share = found / max(int(counts.sum()), 1)
        yield f"  {name:>9}  {100 * share:4.0f} %  {'#' * round(_BAR * share)}".rstrip()


def result_lines(
    history: History, card: ExerciseCard | None, folder: Path, places: Places, word: str = "", reason: str = ""
) -> Iterator[str]:
    """Yields all that is said at the end of ``clew run``. ``word`` names the run for other commands; ``reason`` as in
    ``why``."""
    yield ending(history)
    yield from why(history, reason)
    yield from usage_lines(history)
    yield from advice_lines(history, places)
    yield from measured_lines(history, card)
    yield from update_lines(history, card, folder)
    yield from trace_lines(history)
    yield from asked_lines(history, folder)
    yield from goal_lines(history, card, folder, places)
    yield f"Kept in {folder}" if folder.is_dir() else f"Nothing is kept: {folder} is gone."
    yield from resume_line(history, word)


def resume_line(history: History, word: str) -> Iterator[str]:
    """The command that goes on with a run that ended early and has a checkpoint."""
    fold = history.fold
    if word and fold.state is not RunState.FINISHED and history.checkpoints:
        yield f"Continue it from step {max(history.checkpoints):,} with: clew resume {word}"


def word_for(places: Places, folder: Path) -> str:
    """A short name of the run in ``folder`` for other commands: the beginning of its id, else its path."""
    kept = folder.parent in (places.runs, places.mirrors)
    return folder.name[:8] if kept else shlex.quote(str(folder))
