"""Checks a hand-in: hashes, journals, whose runs they are, the report's facts and page, computed again from the
journals alone; and compares a repeated run with the one that was handed in."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from clew_gui.reports.facts import ReportFacts, RunSource, differences, make_facts, read_source, starts
from clew_gui.reports.handin import PAGE, OpenedHandin
from clew_gui.reports.page import LabReport, make_report, render
from clew_shared import __version__
from clew_shared.base.number_words import counted
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.remedies import choose
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.journal.curves import Column, Floats
from clew_shared.journal.events import Attempt
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder, recorded_files
from clew_shared.journal.verify import verify_run
from clew_shared.revisions import trains_alike

_MAX_NAMED = 12
"""The largest number of differences between a report and its journals that are named."""


class HandinVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check. ``problems`` name what was altered; ``notes`` what could not be checked, and why.

    ``facts`` are those that the journals give, or where these cannot be read, those that were handed in. ``report`` is
    the report made again from the journals, ``timings`` the seconds of each block of steps by run, which ``copied``
    compares. ``page_checked``: whether the page that was handed in is the one that the journals give.
    """

    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    facts: ReportFacts | None = None
    report: LabReport | None = None
    timings: dict[str, tuple[float, ...]] = {}
    page_checked: bool = False

    @property
    def ok(self) -> bool:
        """Whether the hand-in is accepted."""
        return not self.problems


def check_handin(handin: OpenedHandin, cards: Mapping[str, ExerciseCard]) -> HandinVerdict:
    """Check everything that can be checked without training."""
    claimed = handin.manifest.facts
    problems, notes, sources = [*handin.faults], list[str](), list[RunSource]()
    by_id = handin.run_folders()
    twice = [run for run, count in Counter(run.id for run in claimed.runs).items() if count > 1]
    if twice:
        text = f"The report names the same run several times: {', '.join(one[:8] for one in twice[:_MAX_NAMED])}."
        return HandinVerdict(problems=(*problems, Problem("handin.run", text, where=PAGE)), facts=claimed)
    for run in claimed.runs:
        folder = by_id.get(run.id)
        found = list(_check_run(run.id, folder, claimed, cards, notes)) if folder is not None else [_no_run(run.id)]
        problems += found
        if folder is not None:
            try:
                sources.append(read_source(folder))
            except ProblemError as error:
                problems += error.problems
    surplus = [name for name in by_id if name not in {run.id for run in claimed.runs}]
    problems += [
        Problem("handin.run", f"Run {one[:8]} is in the bundle but not in its report.", where=one) for one in surplus
    ]
    report, same = None, claimed.version == __version__
    if len(sources) == len(claimed.runs):
        try:
            report = _report_again(claimed, sources, cards)
            problems += _check_report(handin, claimed, report, same, notes)
        except ProblemError as error:
            problems += error.problems
    return HandinVerdict(
        problems=tuple(dict.fromkeys(problems)),
        notes=tuple(notes),
        facts=report.facts if report is not None else claimed,
        report=report,
        timings={one.history.fold.run: timings_of(one.history) for one in sources},
        page_checked=same and not problems,
    )


def _no_run(run: str) -> Problem:
    return Problem("handin.run", f"Run {run[:8]} of the report is not in the bundle.", where=run)


# --- Runs -------------------------------------------------------------------------------------------------------------


def _check_run(
    run: str, folder: Path, claimed: ReportFacts, cards: Mapping[str, ExerciseCard], notes: list[str]
) -> Iterator[Problem]:
    """A run's journals, spec, owner and exercise."""
    short = run[:8]
    for fault in verify_run(folder, journals_only=True).findings:
        yield Problem("handin.journal", f"Run {short}: {fault}.", where=f"{run}/{fault.file}")
    attempts = [start for _, start in starts(folder)]
    if any(start.run != run for start in attempts):
        yield Problem(
            "handin.run", f"The journals that are named {short} belong to run {attempts[0].run[:8]}.", where=run
        )
    yield from _check_specs(run, folder, attempts)
    if any(start.replay_of for start in attempts):
        text = f"Run {short} is a replay of run {attempts[0].replay_of[:8]}, not a run."
        yield Problem("handin.replay", text, "Hand in the run itself.", run)
    try:
        spec = read_source(folder).spec
    except ProblemError as error:
        yield from error.problems
        return
    if spec.student and spec.student != claimed.student:
        text = f"Run {short} was started by {spec.student!r}, not by {claimed.student or 'nobody'!r}."
        yield Problem("handin.student", text, "Ask both.", run)
    if not spec.student:
        notes.append(f"Run {short} names no student: no name was set when it was started.")
    card = cards.get(spec.exercise)
    if card is not None and not all(trains_alike(card, start.revision, start.source_sha256) for start in attempts):
        text = f"Run {short} trained with another file of the exercise {spec.exercise} than the one here."
        hint = "Compare the versions of Clew, or name the folder of that file."
        yield Problem("handin.exercise", text, hint, run, (choose("exercises"),))


def _check_specs(run: str, folder: Path, attempts: Sequence[Attempt]) -> Iterator[Problem]:
    """The spec in the first journal, or the file of an earlier version, against the hash in every journal."""
    path, texts = RunFolder(folder).spec, [start.spec for start in attempts if start.spec]
    content = texts[0].encode() if texts else path.read_bytes() if path.exists() else b""
    if {start.spec_sha256 for start in attempts} - {"", hashlib.sha256(content).hexdigest()}:
        text = f"Run {run[:8]}: its spec is not the one that it was started with."
        yield Problem("handin.spec", text, where=f"{run}/spec.toml")
    records = recorded_files(folder)
    for path in sorted(folder.glob("spec.*.toml")):
        record = records.get(path.name)
        if record is None or hashlib.sha256(path.read_bytes()).hexdigest() != record.sha256:
            text = f"Run {run[:8]}: {path.name} is not what its journal recorded."
            yield Problem("handin.spec", text, where=f"{run}/{path.name}")


# --- Report -----------------------------------------------------------------------------------------------------------


def _report_again(claimed: ReportFacts, sources: Sequence[RunSource], cards: Mapping[str, ExerciseCard]) -> LabReport:
    """The report that the journals give, with the answers, name and jobs that were handed in."""
    answers = {one.id: {answer.question: answer.text for answer in one.answers} for one in claimed.exercises}
    found = make_facts(
        sources,
        cards,
        student=claimed.student,
        created=claimed.created,
        version=claimed.version,
        answers=answers,
        jobs=claimed.jobs,
    )
    return make_report(found, sources, cards)


def _check_report(
    handin: OpenedHandin, claimed: ReportFacts, again: LabReport, same: bool, notes: list[str]
) -> Iterator[Problem]:
    """The facts and the page against the journals. ``same``: the report was made by this version of Clew."""
    found = again.facts
    if not same:
        versions = f"The report was made by Clew {claimed.version}, this is {__version__}"
        notes.append(
            f"{versions}: its page was NOT checked and may say anything. The numbers of its runs were compared, and its"
            " goals are judged again here. Let Clew write the page from the journals, and read that one."
        )
    wrong = differences(*((claimed, found) if same else (_numbers(claimed), _numbers(found))))
    for one in wrong[:_MAX_NAMED]:
        text = f"The report and the journals differ in {one.place}: {one.claimed} was handed in, {one.found} is true."
        yield Problem("handin.report", text, where=one.place)
    if len(wrong) > _MAX_NAMED:
        yield Problem("handin.report", f"{len(wrong) - _MAX_NAMED} more differences.", where=PAGE)
    if same and not wrong:
        yield from compare_pages(handin.page, render(again))


def _numbers(facts: ReportFacts) -> ReportFacts:
    """The facts without what changes from version to version: words, and the goals of exercises."""
    replace = msgspec.structs.replace
    runs = tuple(
        replace(
            run,
            label="",
            state=run.state,
            speed="",
            settings={},
            changes=(),
            advice=(),
            metrics=tuple(replace(one, label="", last_text="", best_text="") for one in run.metrics),
        )
        for run in facts.runs
    )
    exercises = tuple(replace(one, title="", course="", answers=()) for one in facts.exercises)
    return replace(facts, runs=runs, goals=(), exercises=exercises)


_NUMBER = re.compile(r"-?\d+\.\d+")
_ROUNDING = 0.15
"""Pixels: figures are written to a tenth, and two machines may round a value to either side."""


def compare_pages(claimed: str, found: str) -> Iterator[Problem]:
    """The first line in which the page is not the one that the facts make, with what it should say."""
    for number, (ours, theirs) in enumerate(zip_longest(found.splitlines(), claimed.splitlines(), fillvalue=""), 1):
        if ours != theirs and not _same_figure(ours, theirs):
            text = f"Line {number} of {PAGE} was changed: it says {_shown(theirs, ours)}, not {_shown(ours, theirs)}."
            yield Problem("handin.page", text, where=PAGE)
            return


def _same_figure(one: str, other: str) -> bool:
    """Whether two figures are the same but for the rounding of places."""
    if not one.startswith("<svg") or _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) < _ROUNDING for a, b in pairs)


def _shown(line: str, other: str) -> str:
    """The part of a line around its first difference from ``other``."""
    start = next((n for n, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), min(len(line), len(other)))
    return repr(line[max(0, start - 20) : start + 30])


# --- Copies -----------------------------------------------------------------------------------------------------------

_FEWEST_TIMES = 4
"""The fewest blocks that are compared: with fewer two honest runs could agree by chance."""
_SAME_TIMES = 1e-4
"""Times of two runs that agree so well, as shares of their sum, were measured only once."""


def timings_of(history: History) -> tuple[float, ...]:
    """Returns what each block of steps took, in seconds; of a measurement, the values that it measured."""
    found = [block.seconds for block in history.blocks()]
    measured = [value for one in history.series.values() for value in one.y.tolist()]
    return tuple(value for value in found or measured if math.isfinite(value) and value > 0)


def copied(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two runs have the same times but for a common factor: equal settings give equal values, but no computer
    needs the same time twice."""
    if len(one) != len(other) or len(one) < _FEWEST_TIMES:
        return False
    first, second = (np.array(times) / sum(times) for times in (one, other))
    return bool(np.allclose(first, second, rtol=_SAME_TIMES, atol=0.0))


# --- Repeated runs ----------------------------------------------------------------------------------------------------

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
    """The result of comparing a repeated run: how many evaluations (one for each step that was evaluated) and values
    (those of evaluations included) were compared, and in sentences what differs."""

    evaluations: int
    values: int
    differences: tuple[str, ...]


def compare_repeat(handed_in: History, again: History, steps: int, exact: bool) -> RepeatComparison:
    """Compare all that both runs recorded of the first ``steps`` steps, bit by bit if ``exact``: every metric, every
    step, every evaluation. What only one of them has differs, too.

    The evaluation after the last step of a run that was ended from outside may be missing: it ended before it.
    """
    compared, evaluated, found = 0, set[int](), list[str]()
    unfinished = steps if handed_in.fold.state is not RunState.FINISHED and steps >= handed_in.fold.step else None
    for name, metric in {**again.metrics, **handed_in.metrics}.items():
        ours, theirs = (_until(run, name, steps + (not metric.per_step)) for run in (again, handed_in))
        if not metric.per_step and unfinished is not None and unfinished not in theirs.steps:
            ours = _until(again, name, unfinished)
        lacking = np.setxor1d(ours.steps, theirs.steps)
        if len(lacking):
            step, who = int(lacking[0]), "was handed in" if lacking[0] in ours.steps else "comes out here"
            words = f"{counted(len(lacking), 'value')} too few or too many: none {who} for step {step:,}"
            found.append(f"{metric.label} has {words}.")
            continue
        compared += len(ours.steps)
        evaluated |= set() if metric.per_step else set(ours.steps.tolist())
        text = _difference(handed_in, metric, ours, theirs, exact)
        found += [text] if text else []
    return RepeatComparison(len(evaluated), compared, tuple(found))


def _until(history: History, metric: str, step: int) -> Column:
    """Returns what a run recorded of ``metric`` before ``step``."""
    whole = history.column(metric)
    count = int(np.searchsorted(whole.steps, step))
    return Column(whole.steps[:count], whole.values[:count], whole.clock[:count])


def _difference(history: History, metric: MetricSpec, ours: Column, theirs: Column, exact: bool) -> str:
    """Says where one curve differs from the one that was handed in; empty if it does not."""
    one, other = ours.values, theirs.values
    if exact and one.dtype == other.dtype:
        wrong = _bits(one) != _bits(other)
    else:
        slack = 0.0 if exact else _slack(history, other, metric)
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


def _slack(history: History, values: Floats, metric: MetricSpec) -> float:
    finite = np.abs(values[np.isfinite(values)].astype(np.float64))
    slack = TOLERANCE * float(finite.max(initial=0.0))
    if metric.format != "percent":
        return slack
    batch = history.schema.batch_size if history.schema is not None else 0
    share = (SAMPLES / batch if batch else 0.0) if metric.per_step else HELD_OUT
    return max(slack, share)


def _apart(one: Floats, other: Floats, slack: float) -> npt.NDArray[np.bool_]:
    """Returns where two curves are more than ``slack`` apart, or only one is a finite number."""
    both = np.isfinite(one) & np.isfinite(other)
    far: npt.NDArray[np.bool_] = np.abs(np.where(both, one, 0.0) - np.where(both, other, 0.0)) > slack
    far |= np.isfinite(one) != np.isfinite(other)
    return far
