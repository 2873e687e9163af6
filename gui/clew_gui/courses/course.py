"""A course as data: lessons with exercises in their order, where data and hand-ins are, and the folder of the class.

``course_file`` reads one from a folder or a file, ``store`` keeps those that a person has opened.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec
from msgspec.structs import replace

from clew_gui.schedulers.allocation import AllocationRequest, build_allocation
from clew_shared.base.file_names import why_unsafe
from clew_shared.base.foreign import from_toml
from clew_shared.base.number_words import duration
from clew_shared.base.problem import Problem, ProblemError, did_you_mean, problem, raise_all
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.data_sets import data_set_of
from clew_shared.goal_settings import with_questions
from clew_shared.params import Value

COURSE_FORMAT = 1
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}")
_PLACE = re.compile(r"([a-z0-9][a-z0-9_-]+):([/~].*)", re.DOTALL)  # one letter and a colon are a drive of Windows
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST = 20_000
"""Characters of a text for people: ten pages."""
_MOST = 200
"""Lessons, and exercises of one."""


class SharedPlace(NamedTuple):
    """A path on a site of the course, or on this computer (``site`` is empty then), as on a network drive."""

    site: str
    path: str


class Assigned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exercise of a lesson. ``preset`` and ``data`` are what its form begins with, ``goals`` the ids of those that
    count (None: all), ``questions`` follow those of its guide."""

    id: str
    preset: str = ""
    data: str = ""
    goals: tuple[str, ...] | None = None
    questions: tuple[str, ...] = ()


class Lesson(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A chapter of the course. ``text`` begins the guide of its first exercise, ``until`` is when its exercises have to
    be handed in, ``allocation`` what jobs ask for otherwise than their site says, such as the lesson's reservation."""

    title: str
    text: str = ""
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    allocation: dict[str, Value] = {}
    exercises: tuple[Assigned, ...] = ()


class DataSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a data set is: the place on a site, the file's name, an address to show. Nothing is downloaded."""

    name: str
    sha256: str = ""
    path: str = ""
    file: str = ""
    address: str = ""


class Course(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One course. ``board`` and ``hand_in`` are folders that a class shares, as ``SITE:/path`` or as a path that is the
    same on all its computers; empty for none. Sites are called as their files in the course's folder ``sites``."""

    format: int
    id: str
    title: str
    text: str = ""
    teachers: tuple[str, ...] = ()
    board: str = ""
    hand_in: str = ""
    data: tuple[DataSource, ...] = ()
    lessons: tuple[Lesson, ...] = ()

    def assigned(self) -> Iterator[tuple[Lesson, Assigned]]:
        """All exercises with their lessons, in the course's order."""
        return ((lesson, one) for lesson in self.lessons for one in lesson.exercises)

    def shown(self, text: str) -> str:
        """A place with its site as it is called among a person's sites."""
        place = read_place(text)
        return f"{site_name(self.id, place.site)}:{place.path}" if place.site else text

    def where(self, source: DataSource) -> str:
        """All that the course says of the place of a data set, in words."""
        file = f"a file {source.file}" if source.file else ""
        return " or ".join(filter(None, (self.shown(source.path), file, source.address))) or "no place is named"

    def lesson_of(self, exercise: str) -> Lesson | None:
        """The lesson of an exercise; None if the course does not have it."""
        return next((lesson for lesson, one in self.assigned() if one.id == exercise), None)


def read_place(text: str) -> SharedPlace:
    """``cluster:/course/board`` as site and path; all else is a path on this computer."""
    found = _PLACE.fullmatch(text)
    return SharedPlace(found[1], found[2]) if found else SharedPlace("", text)


def site_name(course: str, site: str) -> str:
    """What a site of a course is called among a person's sites: two courses may have different ones of one name."""
    return site if site == course or site.startswith(f"{course}-") else f"{course}-{site}"


def until_words(lesson: Lesson) -> str:
    """Says until when a lesson's exercises can be handed in; empty where nothing says so."""
    return f"Hand in until {lesson.until:%Y-%m-%d %H:%M %z}" if lesson.until is not None else ""


def late_words(until: datetime | None, when: float) -> str:
    """Says by how much something came too late; empty if it did not."""
    late = math.ceil(when - until.timestamp()) if until is not None else 0
    return f"{duration(late)} late" if late > 0 else ""


# --- Reading ----------------------------------------------------------------------------------------------------------


def from_text(text: str, sites: Sequence[str], origin: str) -> Course:
    """The course in TOML text, with site files of these names beside it. Raises ``ProblemError``."""
    try:
        table = from_toml(text.replace("\r\n", "\n"))
    except ValueError as error:
        raise problem("course.read", f"{origin} is not valid TOML: {error}.", "Fix that line.", origin) from None
    if (form := table.get("format")) != COURSE_FORMAT:
        words = f"{origin} has format {str(form)[:40]}; this version of Clew reads format {COURSE_FORMAT}."
        raise problem("course.read", words, "Install the version of Clew that the course was made for.", origin)
    try:
        course = msgspec.convert(table, Course, strict=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise problem("course.fields", f"{origin}: {_plain(str(error))}.", "Fix that field.", origin) from None
    raise_all(_check(course, sites))
    return course


def _plain(text: str) -> str:
    """The words of msgspec for people who write TOML."""
    for foreign, plain in (("`", ""), ("Object", "a table"), ("object", "table"), ("$.", ""), (" - at ", ", at ")):
        text = text.replace(foreign, plain)
    if "timezone" in text:
        text = f"{text}: write the time with its zone, as in 2026-12-01T18:00:00+01:00"
    return text[:300]


def _check(course: Course, sites: Sequence[str]) -> Iterator[Problem]:
    if not _ID.fullmatch(course.id) or why_unsafe(course.id):
        hint = "Up to 31 small letters, digits, - and _, beginning with a letter or digit."
        yield Problem("course.fields", f"A course cannot have the id {course.id[:60]!r}.", hint, "id")
    yield from _check_words(course)
    data = ((f"data.{source.name}", source.path) for source in course.data)
    for name, place in (("board", course.board), ("hand_in", course.hand_in), *data):
        yield from _check_place(name, place, sites)
    for source in course.data:
        if source.sha256 and not _SHA256.fullmatch(source.sha256):
            hint = f"Write the 64 digits that this prints: sha256sum {source.file or 'FILE'}"
            yield Problem("course.fields", f"The SHA-256 of {source.name} is none.", hint, "data")
    seen: set[str] = set()
    for lesson, one in course.assigned():
        if one.id in seen:
            text = f"{one.id} is there twice, again in {lesson.title!r}."
            yield Problem("course.fields", text, "Keep it in one lesson: its progress is counted once.", "lessons")
        seen.add(one.id)
    for lesson in course.lessons:
        try:
            build_allocation(AllocationRequest(), lesson.allocation)
        except ProblemError as error:
            yield from (replace(one, where=f"lessons.{one.where}") for one in error.problems)
    if not seen or max(len(course.lessons), len(seen)) > _MOST:
        text = f"The course has {len(course.lessons)} lessons and {len(seen)} exercises; 1 to {_MOST} can be shown."
        yield Problem("course.fields", text, "Name exercises in [[lessons.exercises]].", "lessons")


def _check_place(name: str, text: str, sites: Sequence[str]) -> Iterator[Problem]:
    place = read_place(text)
    if len(text) > 1024 or not text.isprintable() or ".." in re.split(r"[/\\]", place.path):
        yield Problem("course.fields", f"{name} is no path: {text[:60]!r}.", "Write it whole, without ..", name)
    elif place.site and place.site not in sites:
        hint = did_you_mean(place.site, sites) or f"Put its file into the course: sites/{place.site}.toml"
        yield Problem("course.fields", f"{name} is on {place.site}, a site that the course lacks.", hint, name)


def _check_words(course: Course) -> Iterator[Problem]:
    lines = [("title", course.title), *(("teachers", one) for one in course.teachers)]
    lines += [(f"data.{one.name}", word) for one in course.data for word in (one.name, one.file, one.address)]
    lines += [("lessons", lesson.title) for lesson in course.lessons]
    lines += [("lessons", word) for _, one in course.assigned() for word in (one.id, one.preset, one.data)]
    texts = [("text", course.text), *(("lessons", lesson.text) for lesson in course.lessons)]
    texts += [("lessons", question) for _, one in course.assigned() for question in one.questions]
    for name, text in (*lines, *((name, re.sub(r"[\n\t]", " ", text)) for name, text in texts)):
        if len(text) > _LONGEST or not text.isprintable():
            wrong = f"A text in {name} is longer than {_LONGEST:,} characters, or has invisible ones."
            yield Problem("course.fields", wrong, "Shorten it.", name)
    titles = [lesson.title.strip() for lesson in course.lessons]
    if not course.title.strip() or not all(titles) or len(set(titles)) < len(titles):
        yield Problem("course.fields", "The course and each of its lessons need titles of their own.", where="title")


# --- In the catalogue -------------------------------------------------------------------------------------------------


def applied(course: Course | None, catalogue: Catalogue, *, rest: bool = False) -> Catalogue:
    """The catalogue as the course has it: its lessons are the chapters, in each exercise only the goals that count,
    and its questions after those of the guide. What is not there has a card that says so; with ``rest`` those of the
    catalogue that the course does not have come last."""
    if course is None:
        return catalogue
    cards = {card.id: card for card in catalogue.exercises}
    found = [_as_assigned(cards.pop(one.id, None), course, lesson, one) for lesson, one in course.assigned()]
    chapters = tuple(lesson.title for lesson in course.lessons)
    return replace(
        catalogue,
        chapters=(*chapters, *catalogue.chapters) if rest else chapters,
        exercises=(*found, *(cards.values() if rest else ())),
    )


def _as_assigned(card: ExerciseCard | None, course: Course, lesson: Lesson, one: Assigned) -> ExerciseCard:
    if card is None:
        text = f"The course names the exercise {one.id}, which is not here, or has not been read yet."
        absent = Problem("course.exercise", text, "If it stays so, ask your teacher.", one.id)
        return ExerciseCard(id=one.id, title=one.id, chapter=lesson.title, problem=absent)
    text = f"## {lesson.title}\n\n{lesson.text.strip()}\n\n" if lesson.text and one is lesson.exercises[0] else ""
    for source in (source for source in course.data if source.name in card.datasets):
        digest = f", SHA-256 `{source.sha256}`" if source.sha256 else ""
        text += f"Your course has {source.name} here: `{course.where(source)}`{digest}.\n\n"
    return replace(
        card,
        chapter=lesson.title,
        guide=text + with_questions(card.guide, one.questions),
        goals=tuple(goal for goal in card.goals if one.goals is None or goal.id in one.goals),
        presets=tuple(sorted(card.presets, key=lambda preset: preset.name != one.preset)),
        datasets=tuple(sorted(card.datasets, key=lambda name: name != one.data)),
    )


def check_exercises(course: Course, catalogue: Catalogue, whole: bool = True) -> list[Problem]:
    """What the course names and the exercises of a catalogue do not have: presets, goals, data sets, and exercises if
    the catalogue is ``whole``."""
    cards, found = {card.id: card for card in catalogue.exercises}, list[Problem]()

    def check(what: str, exercise: str, name: str, known: Sequence[str]) -> None:
        if name and name not in known:
            hint = did_you_mean(name, known) or f"There are: {', '.join(known) or 'none'}."
            text = f"{exercise} has no {what} {name!r}." if exercise else f"There is no {what} {name!r}."
            found.append(Problem("course.exercise", text, hint, exercise or name))

    for _, one in course.assigned():
        check("exercise", "", one.id, list(cards) if whole else [one.id])
        if (card := cards.get(one.id)) is None:
            continue
        found += [card.problem] if card.problem is not None else []
        check("preset", one.id, one.preset, [preset.name for preset in card.presets])
        for goal in one.goals or ():
            check("goal", one.id, goal, [known.id for known in card.goals])
        check("data set", one.id, data_set_of(one.data), card.datasets)
    return found


def allocation_in(course: Course | None, exercise: str, usual: AllocationRequest) -> AllocationRequest:
    """What a job of an exercise asks for where the person says nothing: the site's, with the lesson's own."""
    lesson = course.lesson_of(exercise) if course is not None else None
    return build_allocation(usual, lesson.allocation) if lesson is not None else usual


def queue_at(course: Course, now: float) -> AllocationRequest | None:
    """What the jobs of the lesson that is on ask for: the first that names a reservation or partition and is not over
    at ``now``; None if none does."""
    lessons = (lesson for lesson in course.lessons if not late_words(lesson.until, now))
    asked = (build_allocation(AllocationRequest(), lesson.allocation) for lesson in lessons)
    return next((one for one in asked if one.reservation or one.partition), None)


def closes(course: Course | None, exercises: Sequence[str]) -> datetime | None:
    """Until when a hand-in with these exercises counts: the earliest of their lessons' times; None for no limit."""
    lessons = [course.lesson_of(one) for one in exercises] if course is not None else []
    times = [lesson.until.astimezone(UTC) for lesson in lessons if lesson is not None and lesson.until is not None]
    return min(times, default=None)
