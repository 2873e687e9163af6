"""Checks a hand-in without training: hashes, journals, whose runs they are, what no run of the exercise could record,
and the report's facts and page, computed again from the journals alone."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew_gui.reports.facts import ReportFacts, RunSource, differences, make_facts, read_source, starts
from clew_gui.reports.handin import PAGE, OpenedHandin
from clew_gui.reports.page import LabReport, make_report, render
from clew_shared import __version__
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.remedies import choose
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.catalogue import on_servers
from clew_shared.goal_settings import with_questions
from clew_shared.journal.events import Attempt, Evaluation, Histogram, Image, Matrix, Points, Schema, Series
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.run_folder import RunFolder, recorded_files
from clew_shared.journal.verify import verify_run
from clew_shared.params import STEPS, check, convert
from clew_shared.revisions import trains_alike
from clew_shared.spec import RunSpec, from_toml, misfits

_MAX_NAMED = 12
"""The largest number of differences between a report and its journals that are named."""


class HandinVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check. ``problems`` name what was altered; ``notes`` what could not be checked, and why.

    ``facts`` are those that the journals give, or where these cannot be read, those that were handed in. ``report`` is
    the report made again from the journals, ``origins`` what tells each run from all others. ``page_checked``: whether
    the page that was handed in is the one that the journals give. ``unconfirmed`` are goals (exercise and id) that were
    reached by values which were handed in, but did not come out here, although runs were repeated.
    """

    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    facts: ReportFacts | None = None
    report: LabReport | None = None
    origins: dict[str, Origin] = {}
    page_checked: bool = False
    unconfirmed: frozenset[tuple[str, str]] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether the hand-in is accepted."""
        return not self.problems

    @property
    def unknown(self) -> bool:
        """Whether nothing is wrong but that it could not be checked: an exercise is not known here, or the file cannot
        be read, as where it came in part."""
        return bool(self.problems) and all(one.code in ("report.exercise", "handin.read") for one in self.problems)


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
    if any(source.spec.course for source in sources):
        cards = _as_claimed(claimed, cards)
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
        origins={one.history.fold.run: _origin(one) for one in sources},
        page_checked=same and not problems,
    )


def _no_run(run: str) -> Problem:
    return Problem("handin.run", f"Run {run[:8]} of the report is not in the bundle.", where=run)


# --- Runs -------------------------------------------------------------------------------------------------------------


def _as_claimed(claimed: ReportFacts, cards: Mapping[str, ExerciseCard]) -> dict[str, ExerciseCard]:
    """The cards with the goals and questions of the hand-in: its course chose them, and may say others by now."""
    found = dict(cards)
    for one in claimed.exercises:
        if (card := cards.get(one.id)) is not None:
            counted = {goal.id for goal in claimed.goals if goal.exercise == one.id}
            goals = tuple(goal for goal in card.goals if goal.id in counted)
            guide = with_questions(card.guide, [answer.question for answer in one.answers])
            found[one.id] = msgspec.structs.replace(card, goals=goals, guide=guide)
    return found


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
        source = read_source(folder)
    except ProblemError as error:
        yield from error.problems
        return
    spec = source.spec
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
    elif card is not None:
        ours = all(start.software.get("clew") == __version__ for start in attempts)
        yield from _check_request(source, card, ours, notes)
        if card.kind == "training":
            yield from _check_record(source, card, ours)


def _check_request(source: RunSource, card: ExerciseCard, ours: bool, notes: list[str]) -> Iterator[Problem]:
    """What ``clew run`` would refuse; in a run of another version, not ``ours``, which may have others, that is a
    note."""
    run = source.history.fold.run
    for refused in refusals(source, card):
        text = f"Run {run[:8]} asks for what this version of Clew refuses: {refused.text}"
        if ours:
            yield Problem("handin.refused", text, where=run)
        else:
            notes.append(text)


def refusals(source: RunSource, card: ExerciseCard) -> list[Problem]:
    """Returns why ``clew run`` would refuse the specs of a run, or changes that were made by hand while it trained."""
    live = {param.name: param for param in card.params if param.live}
    specs = [from_toml(text) for text in source.history.specs if text]
    found = [one for spec in (source.spec, *specs) for one in misfits(spec, card)]
    for change in source.history.live:
        if change.name not in live:
            text = f"{change.name!r} cannot be changed while the run trains."
            found.append(Problem("live.unknown", text, where=change.name))
        elif (wrong := convert(live[change.name], change.value)[1]) is not None:
            found.append(wrong)
    return list(dict.fromkeys(found))


# --- What no run of the exercise records ------------------------------------------------------------------------------


def _check_record(source: RunSource, card: ExerciseCard, ours: bool) -> Iterator[Problem]:
    """Values of steps that were not done, or that the spec does not ask for; metrics and pictures that the exercise
    does not have, or describes otherwise (in other words only if ``ours``: each version has its own). One of each kind
    is named."""
    record = _Record(card, source.spec, ours)
    for number in RunFolder(source.folder).attempts():
        for item in read_journal(RunFolder(source.folder).journal(number)):
            if isinstance(item, Record):
                record.take(number, item.event)
    for text in record.found.values():
        run = source.history.fold.run
        yield Problem("handin.record", f"Run {run[:8]} {text}", where=run)


class _Record:
    """What the attempts of a run recorded, event by event; ``found`` has what cannot be, by kind."""

    def __init__(self, card: ExerciseCard, spec: RunSpec, ours: bool) -> None:
        self.found: dict[str, str] = {}
        self._metrics = {one.name: one for one in card.metrics}
        self._pictures = {one.id for one in card.pictures}
        self._fields = MetricSpec.__struct_fields__ if ours else ("per_step", "dtype")
        self._asked = check(card.params, spec.params)[0].get(STEPS)
        self._in_turn = not on_servers(spec.strategy)
        self._done: dict[int, int] = {}
        """Steps that were done so far, by attempt."""

    def take(self, attempt: int, event: object) -> None:
        """Looks at the next event of an attempt."""
        match event:
            case Attempt():
                if event.start_step > self._done.get(event.resumes, 0):
                    self.found["start"] = f"goes on at step {event.start_step:,}, which nothing before it reached."
                self._reach(attempt, event.start_step)
            case Points():
                self._reach(attempt, event.first + event.count)
            case Schema():
                for metric in event.metrics:
                    self._described(metric)
            case Evaluation():
                self._measured(attempt, event.step, event.values.keys() - self._metrics)
            case Image() | Histogram() | Matrix():
                self._measured(attempt, event.step, {event.name} - self._pictures)
            case Series():
                self._measured(attempt, 0, {event.name})

    def _reach(self, attempt: int, step: int) -> None:
        self._done[attempt] = max(step, self._done.get(attempt, 0))
        if isinstance(self._asked, int) and step > self._asked:
            self.found["steps"] = f"has {step:,} steps, but its settings ask for {self._asked:,}."

    def _measured(self, attempt: int, step: int, unknown: Iterable[str]) -> None:
        done = self._done.get(attempt, 0)
        if self._in_turn and step > done:
            self.found["late"] = f"has values after {step:,} steps, but only {done:,} were done then."
        for name in unknown:
            self.found["name"] = f"has {name[:80]!r}, which the exercise does not record."

    def _described(self, metric: MetricSpec) -> None:
        known = self._metrics.get(metric.name)
        if known is None:
            self._measured(0, 0, [metric.name])
            return
        for field in self._fields:
            said, true = (repr(getattr(one, field))[:80] for one in (metric, known))
            if said != true:
                self.found["words"] = f"describes the metric {metric.name!r} with {field} {said}, not {true}."


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
            trace="",
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
"""The fewest blocks that tell runs apart: with fewer two honest runs could agree by chance."""
_DIGITS = 9
"""Decimals of the logarithm of two times' ratio: clocks count nanoseconds, so honest runs agree in none."""


class Origin(NamedTuple):
    """What tells a run from all others, whatever it is called. ``times`` are the ratios of what a block of steps took
    to what the next one took: equal settings give equal values, but no computer needs the same times twice. ``whole``
    stands for all that was measured, and for a trace. ``process`` is the one that trained, and its node."""

    times: frozenset[float]
    whole: frozenset[str]
    process: frozenset[str]

    def copies(self, other: Origin) -> bool:
        """Whether most of the times of the shorter run are the other's, whatever was done to the rest."""
        fewest = min(len(self.times), len(other.times))
        return bool(self.whole & other.whole) or (fewest > 0 and 2 * len(self.times & other.times) >= fewest)


def _origin(source: RunSource) -> Origin:
    processes = {(one.host, one.boot, one.pid) for _, one in starts(source.folder) if one.boot and one.pid}
    history = source.history
    measured = _ratios([value for one in history.series.values() for value in one.y.tolist()])
    whole = {str(measured)} if measured else set()
    if history.trace is not None:
        whole.add(hashlib.sha256(history.trace.begin + history.trace.took).hexdigest())
    return Origin(
        frozenset(_ratios([block.seconds for block in history.blocks()])),
        frozenset(whole),
        frozenset(f"process {pid} of {host}, {boot}" for host, boot, pid in processes),
    )


def _ratios(times: Sequence[float]) -> list[float]:
    """The ratios of times that follow one another, which a common factor does not change."""
    known = [time for time in times if math.isfinite(time) and time > 0]
    if len(known) < _FEWEST_TIMES:
        return []
    return [round(math.log(one / other), _DIGITS) for one, other in itertools.pairwise(known)]
