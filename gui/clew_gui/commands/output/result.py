"""What is said of a run when it is over."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from clew_gui.base.state_words import rate
from clew_gui.commands.output import words
from clew_gui.commands.output.progress import values_line
from clew_gui.plotting.measured import measured_plots, text_tables
from clew_gui.plotting.timeline import timeline_text
from clew_shared.base.places import Places
from clew_shared.cards import ExerciseCard
from clew_shared.goals import check_goal
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec


def title(spec: RunSpec, card: ExerciseCard | None) -> str:
    """``Softmax: preset tiny, seed 7, data digits``."""
    parts = [f"preset {spec.preset}"] if spec.preset else []
    parts.append(f"seed {spec.seed}")
    data = spec.data or (card.datasets[0] if card and card.datasets else "")
    parts += [f"data {data}"] if data else []
    return f"{card.title if card else spec.exercise}: {', '.join(parts)}"


def exit_status(state: RunState) -> int:
    """0 for a finished run, 130 for a stopped one (as a shell says after Ctrl+C), 1 for any other end."""
    return {RunState.FINISHED: 0, RunState.STOPPED: 130}.get(state, 1)


def ending(history: History, state: RunState | None = None) -> str:
    """``Finished: 500 steps in 3.2 s at 6,203 steps/s; loss 0.31, test accuracy 90.79 %.`` ``state``: another one than
    the journal's, as its job knows it."""
    fold = history.fold
    text = f"{words.state_word(state or fold.state)}: {fold.step:,} steps in {words.duration(history.seconds)}"
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
        yield str(fold.problem)
    elif fold.state is not RunState.FINISHED and (reason or fold.reason):
        yield reason or fold.reason


def goal_lines(history: History, card: ExerciseCard | None) -> Iterator[str]:
    """One line for each goal of the exercise."""
    for goal in card.goals if card else ():
        result = check_goal(goal, history, card.metrics if card else ())
        yield f"{'[x]' if result.reached else '[ ]'} {goal.text} ({result.text})"


def measured_lines(history: History, card: ExerciseCard | None) -> Iterator[str]:
    """What the run measured, as tables with an empty line around each."""
    plots = measured_plots(card.measured if card else (), history.series)
    for lines in (text_tables(plots), *(timeline_text(plot) for plot in plots if plot.spec.form == "timeline")):
        yield from ("", *lines) if lines else ()
    yield from ("",) if history.series else ()


def result_lines(
    history: History, card: ExerciseCard | None, folder: Path, word: str = "", reason: str = ""
) -> Iterator[str]:
    """All that is said at the end of ``clew run``. ``word`` names the run for other commands; ``reason`` as in
    ``why``."""
    yield ending(history)
    yield from why(history, reason)
    yield from measured_lines(history, card)
    yield from goal_lines(history, card)
    yield f"Kept in {folder}"
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
