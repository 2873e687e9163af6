"""Compares a repeated run with the one that was handed in, and judges the goals on what was repeated.

The repeated run says what there is to compare, how, and what each value should be. What was handed in is only compared
with it: nothing that a student may write decides about the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from clew_gui.reports.facts import GoalFact, ReportFacts, RunSource, starts
from clew_gui.study.goals import check_goal
from clew_shared.base.number_words import counted
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.journal.curves import Column, Floats
from clew_shared.journal.events import Attempt, Schema
from clew_shared.journal.history import Figure, History
from clew_shared.journal.lifecycle import RunState

NOT_COMPARED = (
    "Times, the use of the machine, traces, sentences of the log and predictions are never compared: no computer"
    " repeats them."
)
"""What a student can change in a journal that ``--rerun`` does not find."""
TOLERANCE = 1e-3
"""The part of a curve's largest value by which it may differ on other hardware or software (``TOLERANCE_WORDS``)."""
SAMPLES = 2
"""The number of samples of a batch by which a share may differ there."""
HELD_OUT = 0.005
"""The amount by which a share of the held-out samples may differ there."""


def same_machine(handed_in: Path, again: Path) -> bool:
    """Whether every attempt of a run names the processor, devices and versions of the last one of ``again``, so that
    the same bits must come out."""
    here = next(reversed([start for _, start in starts(again)]), None)
    there = [start for _, start in starts(handed_in)]
    return here is not None and bool(there) and all(_same_computer(one, here) for one in there)


def _same_computer(one: Attempt, other: Attempt) -> bool:
    names = {*one.software, *other.software} - {"clew"}
    same = all(one.software.get(name) == other.software.get(name) for name in names)
    return bool(one.software.get("processor")) and one.devices == other.devices and same


class RepeatComparison(NamedTuple):
    """The result of comparing a repeated run: how many evaluations (one for each step that was evaluated), values
    (those of evaluations included) and pictures were compared, and in sentences what differs."""

    evaluations: int
    values: int
    pictures: int
    differences: tuple[str, ...]


def compare_repeat(handed_in: History, again: History, steps: int, exact: bool) -> RepeatComparison:
    """Compare all that both runs recorded of the first ``steps`` steps, bit by bit if ``exact``: every metric, every
    step, every evaluation, what the schema says of them, and with ``exact`` the pictures that the same version of Clew
    took after the same steps (when it takes one depends on how long that takes). What only one of them has differs,
    too.

    The evaluation after the last step of a run that was ended from outside may be missing: it ended before it.
    """
    compared, evaluated, found = 0, set[int](), [*_schema_differences(handed_in.schema, again.schema)]
    unfinished = steps if handed_in.fold.state is not RunState.FINISHED and steps >= handed_in.fold.step else None
    for name, metric in {**handed_in.metrics, **again.metrics}.items():
        ours, theirs = (run.column(name).before(steps + (not metric.per_step)) for run in (again, handed_in))
        if not metric.per_step and unfinished is not None and unfinished not in theirs.steps:
            ours = ours.before(unfinished)
        if not np.array_equal(ours.steps, theirs.steps):
            found.append(f"{metric.label} has {_lacking(ours, theirs)}.")
            continue
        compared += len(ours.steps)
        evaluated |= set() if metric.per_step else set(ours.steps.tolist())
        text = _difference(again, metric, ours, theirs, exact)
        found += [text] if text else []
    pictures = list(_pictures(handed_in, again, steps)) if exact and _version(handed_in) == _version(again) else []
    wrong = [one for one, other in pictures if one != other]
    if wrong:
        found.append(f"The picture {wrong[0].name!r} of step {wrong[0].step:,} differs ({len(wrong):,} pictures do).")
    return RepeatComparison(len(evaluated), compared, len(pictures), tuple(found))


def _version(history: History) -> str:
    return history.begun.software.get("clew", "") if history.begun is not None else ""


def _schema_differences(handed_in: Schema | None, again: Schema | None) -> Iterator[str]:
    for name in ("batch_size", "samples_per_epoch", "steps"):
        claimed, found = (getattr(one, name, 0) for one in (handed_in, again))
        if claimed != found:
            yield f"{name.replace('_', ' ').capitalize()}: {claimed:,} was handed in, {found:,} comes out here."


def _lacking(ours: Column, theirs: Column) -> str:
    lacking = np.setxor1d(ours.steps, theirs.steps)
    if not len(lacking):
        return "several values for the same step"
    step, who = int(lacking[0]), "was handed in" if lacking[0] in ours.steps else "comes out here"
    return f"{counted(len(lacking), 'value')} too few or too many: none {who} for step {step:,}"


def _difference(again: History, metric: MetricSpec, ours: Column, theirs: Column, exact: bool) -> str:
    """Says where a curve that was handed in differs from the repeated one; empty if it does not."""
    one, other = ours.values, theirs.values
    if exact and one.dtype == other.dtype:
        wrong = _bits(one) != _bits(other)
    else:
        slack = 0.0 if exact else _slack(again, one, metric)
        wrong = _apart(one.astype(np.float64), other.astype(np.float64), slack)
    if not wrong.any():
        return ""
    at = int(np.argmax(wrong))
    return (
        f"{metric.label} differs at step {int(theirs.steps[at]):,}: {float(other[at]):.9g} was handed in, "
        f"{float(one[at]):.9g} comes out here ({'bit by bit' if exact else 'within the tolerance'}, "
        f"{int(wrong.sum()):,} of {len(one):,} values)."
    )


def _bits(values: Floats) -> npt.NDArray[np.unsignedinteger]:
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def _slack(again: History, values: Floats, metric: MetricSpec) -> float:
    """How far a curve may be from the repeated ``values``."""
    finite = np.abs(values[np.isfinite(values)].astype(np.float64))
    slack = TOLERANCE * float(finite.max(initial=0.0))
    if metric.format != "percent":
        return slack
    batch = again.schema.batch_size if again.schema is not None else 0
    share = (SAMPLES / batch if batch else 0.0) if metric.per_step else HELD_OUT
    return max(slack, share)


def _apart(one: Floats, other: Floats, slack: float) -> npt.NDArray[np.bool_]:
    """Returns where two curves are more than ``slack`` apart, or only one is a finite number."""
    both = np.isfinite(one) & np.isfinite(other)
    far: npt.NDArray[np.bool_] = np.abs(np.where(both, one, 0.0) - np.where(both, other, 0.0)) > slack
    far |= np.isfinite(one) != np.isfinite(other)
    return far


def _pictures(handed_in: History, again: History, steps: int) -> Iterator[tuple[Figure, Figure]]:
    """The pictures of the first ``steps`` steps that both runs have, as they were handed in and as they came out here,
    without the time of day."""
    for name, known in again.figures.items():
        ours = {one.step: one for one in known}
        for one in handed_in.figures.get(name, ()):
            if one.step <= steps and one.step in ours:
                yield msgspec.structs.replace(one, time=0.0), msgspec.structs.replace(ours[one.step], time=0.0)


# --- Goals ------------------------------------------------------------------------------------------------------------


class Repetition(NamedTuple):
    """A run as it was repeated here. ``whole``: all of its steps were."""

    again: RunSource
    whole: bool


def first_steps(again: RunSource, steps: int) -> RunSource:
    """A repeated run without what it did after its first ``steps`` steps: it may stop later than it was asked to."""
    history = again.history
    if history.begun is not None and history.fold.step > steps:
        attempt = history.fold.attempt + 1  # one that begins there takes the place of all later steps
        begun = msgspec.structs.replace(history.begun, attempt=attempt, resumes=attempt - 1, start_step=steps)
        history.feed(attempt, begun)
    return again


def judge_repeated(
    facts: ReportFacts, cards: Mapping[str, ExerciseCard], repeated: Mapping[str, Repetition]
) -> tuple[ReportFacts, frozenset[tuple[str, str]]]:
    """The facts with goals that are judged on the values that came out here, by run; and those goals (exercise and
    id) that only values reach which were handed in, but did not come out here."""
    answers = {one.id: {answer.question: answer.text for answer in one.answers} for one in facts.exercises}
    here = list(repeated.values())
    goals = [_judge(goal, cards[goal.exercise], here, answers.get(goal.exercise, {})) for goal in facts.goals]
    unconfirmed = {(goal.exercise, goal.id) for goal, found in zip(facts.goals, goals, strict=True) if found is None}
    kept = tuple(found or goal for goal, found in zip(facts.goals, goals, strict=True))
    return msgspec.structs.replace(facts, goals=kept), frozenset(unconfirmed)


def _judge(
    claimed: GoalFact, card: ExerciseCard, repeated: Sequence[Repetition], answers: Mapping[str, str]
) -> GoalFact | None:
    """The goal as a repeated run reached it; None if only a run reaches it that was handed in. The last value of a run
    is not known before all of it was repeated."""
    goal = next(one for one in card.goals if one.id == claimed.id)
    for source, whole in repeated:
        if source.spec.exercise == card.id and (whole or goal.which in ("best", "at")):
            result = check_goal(goal, source.history, card, source.spec, answers)
            if result.reached:
                return msgspec.structs.replace(claimed, reached=True, value=result.value, sentence=result.text)
    return None if claimed.reached else claimed
