"""Computes what a report states from the journals: goals, settings, values, environment and evidence.

A hand-in carries these facts, and anyone who checks it computes them again from the journals in it. So nothing here may
depend on the machine, the time or the language: two computers make the same facts from the same journals.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import tomli_w

from clew_gui.base.state_words import STATE_WORDS
from clew_gui.study.advice import advise
from clew_gui.study.goals import check_goal, data_asked
from clew_gui.study.trace import trace_words
from clew_gui.study.usage import usage_words
from clew_shared.base import foreign
from clew_shared.base.number_words import either, quantity, rate
from clew_shared.base.places import Places
from clew_shared.base.private_files import write_private
from clew_shared.base.problem import ProblemError, os_refused, problem
from clew_shared.base.remedies import choose, list_all
from clew_shared.cards import ExerciseCard, Goal, MetricSpec
from clew_shared.goal_settings import is_for, questions
from clew_shared.journal.events import Attempt, Seal
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.history import History
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import HEADLINE
from clew_shared.reading import read_run
from clew_shared.run_settings import differing, label_of, setting_words, settings_of, short_words
from clew_shared.spec import RunSpec, from_toml, read_spec

FACTS_FORMAT = 1
_NAMED_BY = 4
"""The largest number of settings that make a run's name."""
_YEAR_9999 = 253_370_764_800.0
"""The year 9999 in seconds since 1970: later times have no date."""
_DATA = re.compile(r"Data set (?P<name>\S+) from .*\(SHA-256 (?P<sha256>[0-9a-f]{64})\).*", re.DOTALL)
"""The trainer's sentence about its data."""


class GoalFact(msgspec.Struct, frozen=True, kw_only=True):
    """A goal of an exercise, and how far the run came that is nearest to it."""

    exercise: str
    id: str
    text: str
    reached: bool
    value: float | None
    sentence: str
    run: str


class MetricFact(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded quantity: how many points, the last and the best value as numbers (None: not finite) and in words."""

    name: str
    label: str
    points: int
    last: float | None
    last_text: str
    best: float | None = None
    best_text: str = ""
    best_step: int = 0


class AttemptFact(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: where it ran and on what, its journal's length and SHA-256, and what it says of the one before."""

    number: int
    host: str
    began: str
    job: str
    devices: tuple[str, ...]
    software: dict[str, str]
    start_step: int
    size: int
    sha256: str
    sealed: bool
    resumes: int = 0
    earlier_sha256: str = ""


class PredictionFact(msgspec.Struct, frozen=True):
    """The curve that the student expected before the run began: straight lines between ``values`` at ``steps``."""

    metric: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


class RunFact(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    id: str
    label: str
    exercise: str
    student: str
    state: str
    reason: str
    steps: int
    seconds: float
    speed: str
    settings: dict[str, str]
    data: str
    spec_sha256: str
    source_sha256: str
    metrics: tuple[MetricFact, ...]
    attempts: tuple[AttemptFact, ...]
    changes: tuple[str, ...]
    """The changes and troubles while it trained, in sentences."""
    prediction: PredictionFact | None = None
    advice: tuple[str, ...] = ()
    """The advice from the journal, in sentences."""
    usage: str = ""
    """What it used of its machines, in words."""
    trace: str = ""
    """Where the time of its traced steps went, in words; empty if none were traced."""


class ExerciseFact(msgspec.Struct, frozen=True, kw_only=True):
    """An exercise of the report, with its questions and the student's answers."""

    id: str
    title: str
    course: str = ""
    answers: tuple[GuideAnswer, ...] = ()


class ReportFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report states. ``created`` and ``student`` are what the student says; ``jobs`` what the list of
    jobs on the student's computer says of the batch jobs, by Clew's id of the job. All else follows from the
    journals."""

    format: int
    version: str
    student: str
    created: float
    exercises: tuple[ExerciseFact, ...]
    goals: tuple[GoalFact, ...]
    runs: tuple[RunFact, ...]
    jobs: dict[str, str] = {}


class RunSource(NamedTuple):
    """A run that was read: its folder, its journals as curves, its spec as it was at first and as it was last."""

    folder: Path
    history: History
    spec: RunSpec
    latest: RunSpec


def read_source(folder: Path) -> RunSource:
    """Read a run folder or a copy. The specs are those in the journals; of runs of earlier versions, the files.

    Raises ``ProblemError`` when journals or spec cannot be read.
    """
    found = RunFolder(folder)
    history = read_run(folder)
    texts = [start.spec for _, start in starts(folder) if start.spec]
    if not texts:
        return RunSource(folder, history, read_spec(found.spec), read_spec(found.latest_spec))
    return RunSource(folder, history, from_toml(texts[0]), from_toml(texts[-1]))


def make_facts(
    sources: Sequence[RunSource],
    cards: Mapping[str, ExerciseCard],
    *,
    student: str,
    created: float,
    version: str,
    answers: Mapping[str, Mapping[str, str]],
    jobs: Mapping[str, str],
) -> ReportFacts:
    """The facts of these runs. ``answers`` are by exercise and question. Raises ``ProblemError`` without runs, and for
    an exercise that ``cards`` do not have: its goals could not be judged."""
    if not sources:
        raise problem("report.runs", "A report needs at least one run.", "Name the runs.", "", list_all("runs"))
    ids = tuple(dict.fromkeys(source.spec.exercise for source in sources))
    if missing := [repr(exercise) for exercise in ids if exercise not in cards]:
        text = f"There is no exercise {either(missing)} here, so goals cannot be judged."
        raise problem("report.exercise", text, "Name the folder of your own exercises.", "", choose("exercises"))
    named = labels([source.latest for source in sources], cards)
    used = {one.job for source in sources for _, one in starts(source.folder) if one.job}
    return ReportFacts(
        format=FACTS_FORMAT,
        version=version,
        student=student,
        created=created,
        exercises=tuple(_exercise(cards[one], answers.get(one, {})) for one in ids),
        goals=tuple(goal for one in ids for goal in _goals(cards[one], sources, answers.get(one, {}))),
        runs=tuple(
            _run(source, cards[source.spec.exercise], label) for source, label in zip(sources, named, strict=True)
        ),
        jobs={job: words for job, words in jobs.items() if job in used},
    )


def labels(specs: Sequence[RunSpec], cards: Mapping[str, ExerciseCard]) -> tuple[str, ...]:
    """A name for each run that no other run of its exercise has: the one it was given, else the settings in which they
    differ, else optimizer and rate; numbered where that leaves two alike."""
    words = dict[int, str]()
    for exercise in dict.fromkeys(spec.exercise for spec in specs):
        places = [place for place, spec in enumerate(specs) if spec.exercise == exercise]
        card = cards.get(exercise)
        settings = {str(place): settings_of(specs[place], card) for place in places}
        for values in settings.values():
            values |= {name: setting_words(name, values[name], card) for name in HEADLINE if values.get(name)}
        short = differing(settings, _NAMED_BY)
        for place in places:
            usual = short_words(settings[str(place)], HEADLINE) or f"seed {specs[place].seed}"
            words[place] = specs[place].name or short[str(place)] or usual
    found = [words[place] for place in range(len(specs))]
    return tuple(
        f"{label} ({found[:place].count(label) + 1})" if found.count(label) > 1 else label
        for place, label in enumerate(found)
    )


def _settings(spec: RunSpec, card: ExerciseCard) -> dict[str, str]:
    """The settings of a run, named and worded as in the form; what is not set is left out."""
    values = settings_of(spec, card)
    said = {label_of(name, card): setting_words(name, value, card) for name, value in values.items()}
    return {name: text for name, text in said.items() if text}


def _exercise(card: ExerciseCard, known: Mapping[str, str]) -> ExerciseFact:
    return ExerciseFact(id=card.id, title=card.title, course=card.course, answers=answered(card.guide, known))


def _goals(card: ExerciseCard, sources: Sequence[RunSource], answers: Mapping[str, str]) -> Iterator[GoalFact]:
    mine = [source for source in sources if source.spec.exercise == card.id]
    for goal in goals_for(card, [one.spec for one in mine]):
        results = [(check_goal(goal, one.history, card, one.spec, answers), one) for one in mine]
        result, source = max(results, key=lambda pair: (pair[0].reached, _nearness(goal, pair[0].value)))
        yield GoalFact(
            exercise=card.id,
            id=goal.id,
            text=goal.text,
            reached=result.reached,
            value=_finite(result.value),
            sentence=result.text,
            run=source.history.fold.run,
        )


def goals_for(card: ExerciseCard, specs: Sequence[RunSpec]) -> Sequence[Goal]:
    """The goals for the data of these runs; all goals if none is for that data."""
    data = {data_asked(spec, card) for spec in specs}
    return [goal for goal in card.goals if any(is_for(goal, one) for one in data)] or card.goals


class DataUsed(NamedTuple):
    """The data set of a run as its trainer found it: the whole sentence, the name, and the SHA-256 of the content."""

    sentence: str = ""
    name: str = ""
    sha256: str = ""


def data_of(history: History) -> DataUsed:
    """Returns the data that the run trained on; empty if it needed none."""
    found = (_DATA.fullmatch(log.text) for log in history.logs)
    return next((DataUsed(one[0], one["name"], one["sha256"]) for one in found if one is not None), DataUsed())


def _nearness(goal: Goal, value: float | None) -> float:
    """Returns how near a value comes to a goal; the larger, the nearer."""
    if value is None or not math.isfinite(value):
        return -math.inf
    return value if goal.op == ">=" else -value if goal.op == "<=" else -abs(value - goal.value)


def _run(source: RunSource, card: ExerciseCard, label: str) -> RunFact:
    history, fold = source.history, source.history.fold
    known = {spec.name: spec for spec in card.metrics} | history.metrics
    first = next((one for _, one in starts(source.folder)), None)
    return RunFact(
        id=fold.run,
        label=label,
        exercise=fold.exercise,
        student=source.spec.student,
        state=STATE_WORDS[fold.state],
        reason=fold.reason,
        steps=fold.step,
        seconds=round(history.fold.seconds, 3),
        speed=rate(history.steps_per_second()),
        settings=_settings(source.latest, card),
        data=data_of(history).sentence,
        spec_sha256=first.spec_sha256 if first else "",
        source_sha256=first.source_sha256 if first else "",
        metrics=tuple(_metric(history, name, known[name]) for name in history.recorded()),
        attempts=tuple(_attempts(source.folder)),
        changes=tuple(_changes(history)),
        advice=tuple(one.text for one in advise(history) if one.kind != "divergence"),  # that is among the changes
        prediction=prediction_of(source.spec),
        usage=usage_words(history.pulse_summary()),
        trace=trace_words(history.trace) if history.trace is not None else "",
    )


def prediction_of(spec: RunSpec) -> PredictionFact | None:
    """The curve that the student expected, from the spec; None without one."""
    drawn = msgspec.to_builtins(spec).get("prediction")
    return msgspec.convert(drawn, PredictionFact) if drawn else None


def _metric(history: History, name: str, spec: MetricSpec) -> MetricFact:
    column, best = history.column(name), history.best(name)
    last, unit = float(column.values[-1]), f" {spec.unit}" if spec.unit else ""
    fact = MetricFact(
        name=name,
        label=spec.label,
        points=len(column.values),
        last=_finite(last),
        last_text=f"{quantity(last, spec.format)}{unit}",
    )
    if best is None:
        return fact
    words = f"{quantity(best.value, spec.format)}{unit}"
    return msgspec.structs.replace(fact, best=_finite(best.value), best_text=words, best_step=best.step)


def starts(folder: Path) -> Iterator[tuple[int, Attempt]]:
    """The first event of each attempt whose journal begins as it should."""
    for number in RunFolder(folder).attempts():
        first = next(read_journal(RunFolder(folder).journal(number)), None)
        if isinstance(first, Record) and isinstance(first.event, Attempt):
            yield number, first.event


def _attempts(folder: Path) -> Iterator[AttemptFact]:
    for number, start in starts(folder):
        path = RunFolder(folder).journal(number)
        sealed = any(isinstance(item, Record) and isinstance(item.event, Seal) for item in read_journal(path))
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield AttemptFact(
            number=number,
            host=start.host,
            began=utc(start.time),
            job=start.job,
            devices=start.devices,
            software=dict(start.software),
            start_step=start.start_step,
            size=path.stat().st_size,
            sha256=digest,
            sealed=sealed,
            resumes=start.resumes,
            earlier_sha256=start.earlier_sha256,
        )


def _changes(history: History) -> Iterator[str]:
    yield from (f"{one.name} set to {one.value:g} at step {one.step:,}." for one in history.live)
    yield from (log.text for log in history.logs if log.level in ("warning", "error"))


def utc(time: float) -> str:
    """``2026-03-04 10:20:30 UTC``, the same on every computer; for what is no time "at an unknown time"."""
    if not 0 <= time < _YEAR_9999:
        return "at an unknown time"
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# --- Differences ------------------------------------------------------------------------------------------------------


class FactDifference(NamedTuple):
    """A place where two reports differ, in words, and what each of them says there."""

    place: str
    claimed: str
    found: str


_FREE = ("format", "version", "created", "student", "jobs")
"""Fields that no journal knows."""


def differences(claimed: ReportFacts, found: ReportFacts) -> list[FactDifference]:
    """Returns where ``claimed`` differs from ``found``, which was computed from the journals."""
    ours, theirs = msgspec.to_builtins(found), msgspec.to_builtins(claimed)
    return [
        one
        for field in ours
        if field not in _FREE
        for one in _compare(theirs[field], ours[field], (field.rstrip("s"),))
    ]


def _compare(claimed: object, found: object, place: tuple[str, ...]) -> Iterator[FactDifference]:
    if isinstance(claimed, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*claimed, *found)):
            yield from _compare(claimed.get(key), found.get(key), (*place, str(key).replace("_", " ")))
    elif isinstance(claimed, list | tuple) and isinstance(found, list | tuple) and len(claimed) == len(found):
        for one, other in zip(claimed, found, strict=True):
            name = _named(other) or _named(one)
            yield from _compare(one, other, (*place, name) if name else place)
    elif claimed != found:
        yield FactDifference(", ".join(place), _short(claimed), _short(found))


def _named(item: object) -> str:
    names = ("label", "text", "name", "question", "number", "title")
    return next((repr(item[key]) for key in names if key in item), "") if isinstance(item, dict) else ""


def _short(value: object) -> str:
    text = "nothing" if value in (None, "", [], {}) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


# --- Answers ----------------------------------------------------------------------------------------------------------


MAX_ANSWER = 20_000
"""Characters of one answer, about six pages."""
_MAX_BYTES = 4 << 20


class GuideAnswer(msgspec.Struct, frozen=True):
    """A question in the words of the guide, and what the student wrote; empty: nothing yet."""

    question: str
    text: str = ""


class _AnswersFile(msgspec.Struct):
    answers: tuple[GuideAnswer, ...] = ()


def answers_path(places: Places, exercise: str) -> Path:
    """The file with the answers to the questions of an exercise."""
    return places.home / "answers" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', exercise)}.toml"


def read_answers(places: Places, exercise: str) -> dict[str, str]:
    """The answers so far, by question. Raises ``ProblemError`` when the file is damaged."""
    path = answers_path(places, exercise)
    if not path.exists():
        return {}
    try:
        found = msgspec.convert(foreign.from_toml(foreign.read_file(path, _MAX_BYTES).decode()), _AnswersFile)
    except ValueError as error:  # broken TOML, bytes that are no text, fields of another type
        text = f"The answers in {path} cannot be read: {error}."
        raise problem("answers.read", text, "Fix the file, or move it away to begin again.", str(path)) from None
    return {answer.question: answer.text for answer in found.answers}


def kept_answers(places: Places, exercise: str) -> dict[str, str]:
    """The answers so far, for everyone who can do without them: none if they cannot be read."""
    try:
        return read_answers(places, exercise)
    except ProblemError:
        return {}


def keep_answer(places: Places, exercise: str, question: str, text: str) -> None:
    """Write one answer beside the others; an empty one removes it. Raises ``ProblemError`` when it is too long or
    cannot be written."""
    if len(text) > MAX_ANSWER:
        words = f"An answer may have {MAX_ANSWER:,} characters, this one has {len(text):,}."
        raise problem("answers.long", words, "Shorten it.", question)
    known = read_answers(places, exercise) | {question: text}
    path = answers_path(places, exercise)
    content = {"answers": [{"question": asked, "text": found} for asked, found in known.items() if found.strip()]}
    refused, hint = f"The answer cannot be saved in {path}", "Free some space, or check the folder."
    with os_refused("answers.write", refused, hint, str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, tomli_w.dumps(content, multiline_strings=True).encode())


def answered(guide: str, known: Mapping[str, str]) -> tuple[GuideAnswer, ...]:
    """The guide's questions with their answers, and after them answers to questions that it no longer asks."""
    asked = questions(guide)
    others = (question for question in known if question not in asked)
    return tuple(GuideAnswer(question, known.get(question, "")) for question in (*asked, *others))
