"""The class as a teacher sees it: students by exercises, who is stuck, and what was handed in, from board and files."""

from __future__ import annotations

import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from clew_gui.base.state_words import STATE_WORDS
from clew_gui.courses.board import Board, Member, RunOnBoard
from clew_gui.courses.course import Course, closes, late_words, queue_at
from clew_gui.courses.shared_folder import SharedFile, SharedFolder
from clew_gui.reports.check import HandinVerdict
from clew_gui.reports.class_table import ClassRow, class_rows
from clew_gui.reports.facts import ReportFacts
from clew_gui.reports.handin import SUFFIX, file_name
from clew_gui.schedulers.state import ON_NODE, WAITING
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.study.ranking import best_of, headline_metric
from clew_shared.base.foreign import from_json, read_file
from clew_shared.base.number_words import counted, quantity
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.cards import ExerciseCard
from clew_shared.journal.events import RunState

EACH_S = 60.0
"""Seconds between two looks at a class, as often as sites are asked for jobs."""
MOST_BYTES = 64 << 20
"""Bytes of a hand-in that is fetched: a hundred times a usual one."""
_ROOM, _LEAST = 256 << 20, 1 << 20
"""Bytes of hand-ins that are fetched one by one in one look, and what a small one counts for the time that it takes."""
_SHOWN = 5
"""Files of one account that are named: somebody may put thousands there."""
_LATER = HandinVerdict(problems=(Problem("handin.read", "It is not read yet, as others are large.", "Look again."),))


class Cell(msgspec.Struct, frozen=True):
    """A student's work on one exercise: the state of the latest run, the best value so far (None: none), when each of
    the goals that are reached was (seconds since 1970), and the part of the run that is done, from 0 to 1."""

    state: str = ""
    best: float | None = None
    goals: tuple[float, ...] = ()
    done: float = 0.0


class HandedIn(msgspec.Struct, frozen=True):
    """A hand-in: the file, its exercises, who put it there by the file system, when (seconds since 1970), how much too
    late it was in words, what the check said, and the goals in words."""

    file: str
    exercises: str
    owner: str
    time: float
    late: str
    checked: str
    ok: bool
    student: str = ""
    goals: str = ""
    notes: tuple[str, ...] = ()


class StudentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One student: ``name`` is what he says, ``owner`` the account that the file system names, ``file`` his on the
    board. ``stuck`` and ``unheard`` say why somebody should look, and for how long nobody could tell; empty for no."""

    name: str
    owner: str
    file: str = ""
    cells: dict[str, Cell]
    stuck: str = ""
    unheard: str = ""
    seen: float = 0.0
    handed: tuple[HandedIn, ...] = ()
    notes: tuple[str, ...] = ()


def class_view(
    course: Course, cards: Sequence[ExerciseCard], members: Collection[Member], handed: Iterable[HandedIn], now: float
) -> list[StudentRow]:
    """The rows by name. What was handed in belongs to the member with the same account, if only one has it, else to the
    one with that account and name; where nobody has them, the row has the name that the hand-in gives."""
    files = list(handed)
    exercises = [card for card in cards if course.lesson_of(card.id) is not None]
    rows, strangers = [], dict[str, list[Member]]()
    owners = Counter(member.owner for member in members if member.name)
    for member in members:
        if not member.name:  # Clew's first line has it
            strangers.setdefault(member.owner, []).append(member)
            continue
        mine = [one for one in files if one.owner == member.owner and member.owner]
        if owners[member.owner] > 1:  # several share an account in a lab room
            mine = [one for one in mine if one.student == member.name]
        other = dict.fromkeys(one.student for one in mine if one.student != member.name)
        files = [one for one in files if one not in mine]
        notes = [f"{member.strange} lines are not Clew's"] if member.strange else []
        notes += [f"handed in under another name: {name or 'none'}" for name in other]
        rows.append(
            StudentRow(
                name=member.name,
                owner=member.owner,
                file=member.file,
                cells={card.id: cell for card in exercises if (cell := _cell(card, member)) is not None},
                stuck=member.stuck(),
                unheard=member.unheard(now),
                seen=member.seen,
                handed=tuple(mine),
                notes=(*notes, *((f"not read: {member.refused}",) if member.refused else ())),
            )
        )
    notes_of, others = dict[tuple[str, str], str](), dict[tuple[str, str], list[HandedIn]]()
    for owner, theirs in strangers.items():
        named = [f"{one.file} ({one.refused})" if one.refused else one.file for one in theirs]
        notes_of[owner or "?", owner] = f"{len(theirs):,} files are not Clew's: {', '.join(shortened(named))}"
    for hand_in in files:
        others.setdefault((hand_in.student or hand_in.owner or hand_in.file, hand_in.owner), []).append(hand_in)
    for key in dict.fromkeys((*notes_of, *others)):
        said = (notes_of[key],) if key in notes_of else ()
        rows.append(StudentRow(name=key[0], owner=key[1], cells={}, handed=tuple(others.get(key, ())), notes=said))
    return sorted(rows, key=lambda row: (row.name.casefold(), row.owner))


def shortened(words: Sequence[str]) -> list[str]:
    """The first few, and how many more there are."""
    return [*words[:_SHOWN], *([f"{len(words) - _SHOWN:,} more"] if len(words) > _SHOWN else [])]


def _cell(card: ExerciseCard, member: Member) -> Cell | None:
    runs = member.of(card.id)
    if not runs:
        return None
    last = runs[-1].line
    best = best_of(headline_metric(card))((one.line.best for one in runs if one.line.best is not None), default=None)
    reached = member.reached(card.id)
    times = tuple(sorted(reached[goal.id] for goal in card.goals if goal.id in reached))
    return Cell(last.state, best, times, min(1.0, last.step / last.steps) if last.steps > 0 else 0.0)


class LessonQueue(msgspec.Struct, frozen=True):
    """How many jobs run and wait in the reservation or partition ``name`` of the lesson that is on, of those that the
    site shows, and when the next one is expected to begin (seconds since 1970). None: the site does not say."""

    name: str
    running: int | None = None
    waiting: int | None = None
    start: float | None = None

    @property
    def words(self) -> str:
        """The same for people."""
        if self.running is None or self.waiting is None:
            return f"{self.name}: the site does not say which jobs are there"
        start = f", the next one begins at {_clock(self.start)}" if self.start is not None else ""
        return f"{self.name}: {counted(self.running, 'job')} running, {self.waiting} waiting{start}"


def ask_queue(course: Course, connection: SiteConnection, now: float) -> LessonQueue | None:
    """The queue of the lesson that is on; None where no lesson names one. Raises ``ProblemError``."""
    if (asked := queue_at(course, now)) is None:
        return None
    name, jobs = asked.reservation or asked.partition, connection.ask(connection.scheduler.queue(asked))
    if jobs is None:
        return LessonQueue(name)
    waiting = [job for job in jobs if job.phase in WAITING]
    start = min((job.start for job in waiting if job.start is not None and job.start > now), default=None)
    return LessonQueue(name, sum(job.phase in ON_NODE for job in jobs), len(waiting), start)


CLASS_HEADS = ("Student", "Stuck")
"""The columns before those of the exercises."""


def used_cards(rows: Sequence[StudentRow], cards: Sequence[ExerciseCard]) -> list[ExerciseCard]:
    """The exercises that have a column: those that anybody has begun."""
    return [card for card in cards if any(card.id in row.cells for row in rows)]


def shown_name(row: StudentRow, number: int, names: bool) -> str:
    """The name that a student gives, with the account; without ``names`` students are only counted."""
    account = f" ({row.owner})" if row.owner not in ("", row.name) else ""
    return row.name + account if names else f"Student {number}"


def class_table(rows: Sequence[StudentRow], cards: Sequence[ExerciseCard], names: bool) -> list[list[str]]:
    """The class in words, the heads first; without ``names`` students are only counted."""
    used = used_cards(rows, cards)
    table = [[*CLASS_HEADS, *(card.title for card in used), "Handed in", "Seen"]]
    for number, row in enumerate(rows, 1):
        words = [", ".join(filter(None, (one.checked, one.goals, one.late))) for one in row.handed]
        handed = "; ".join(shortened([f"{one.exercises}: {w}" for one, w in zip(row.handed, words, strict=True)]))
        seen = datetime.fromtimestamp(row.seen, UTC).astimezone().strftime("%m-%d %H:%M") if row.seen else ""
        who = shown_name(row, number, names)
        table.append(
            [who, row.stuck or row.unheard, *(_cell_words(row.cells.get(card.id), card) for card in used), handed, seen]
        )
    return table


def _cell_words(cell: Cell | None, card: ExerciseCard) -> str:
    """A student's work on an exercise in a few words: ``Running 40 %, 91.2 %, 1/2``, of its goals."""
    if cell is None:
        return ""
    metric = headline_metric(card)
    best = quantity(cell.best, metric.format) if cell.best is not None and metric is not None else ""
    state = next((words for state, words in STATE_WORDS.items() if state == cell.state), "?")
    state = "" if cell.state == RunState.FINISHED else state
    done = f" {100 * cell.done:.0f} %" if cell.state == RunState.RUNNING and cell.done else ""
    goals = f"{len(cell.goals)}/{len(card.goals)}" if card.goals else ""
    return ", ".join(filter(None, (state + done, best, goals)))


def shared_curves(board: Board, rows: Sequence[StudentRow], card: ExerciseCard, names: bool) -> dict[str, RunOnBoard]:
    """Everybody's best run of an exercise whose curve is shared, by what the rows of ``class_table`` call them; none
    that diverged, which would stretch the axis of all."""
    found = {}
    for number, row in enumerate(rows, 1):
        member = board.members.get(row.file)
        runs = member.of(card.id) if member is not None else []
        if runs := [one for one in runs if one.line.points and not one.line.diverged and one.line.best is not None]:
            found[shown_name(row, number, names)] = best_of(headline_metric(card))(runs, key=lambda one: one.line.best)
    return found


# --- Hand-ins ---------------------------------------------------------------------------------------------------------


class Receipt(msgspec.Struct, frozen=True):
    """What a student gets for a hand-in: its file in the folder of the class, the SHA-256, when it arrived there, and
    until when another one may replace it (seconds since 1970; 0: no limit)."""

    file: str
    sha256: str
    time: float
    until: float = 0.0

    @property
    def words(self) -> str:
        """The receipt for people."""
        end = f" You can replace it until {_clock(self.until)}." if self.until > self.time else ""
        late = " It came too late; one that came in time stays as well." if 0 < self.until <= self.time else ""
        return f"Handed in on {_clock(self.time)} as {self.file}, SHA-256 {self.sha256}.{late}{end}"


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def send_hand_in(
    course: Course, folder: SharedFolder, bundle: Path, facts: ReportFacts, kept: Path, now: float
) -> Receipt:
    """Put a bundle into the folder of the class, in place of an earlier one of this student with these exercises, and
    keep the receipt in the folder ``kept``. Raises ``ProblemError``."""
    path = kept / "receipts.json"
    try:
        known: dict[str, Receipt] = from_json(read_file(path, 1 << 20), dict[str, Receipt])
    except ValueError:  # there is none, or nobody can read it
        known = {}
    about = ", ".join((facts.student, *(one.id for one in facts.exercises)))
    # Nobody can guess the name, so nobody can take it before.
    usual = f"{file_name(facts).removesuffix(SUFFIX)}-{secrets.token_hex(8)}{SUFFIX}"
    before = known.get(about)
    in_time = before is not None and before.time <= before.until < now  # one that comes late leaves it
    name = before.file if before is not None and not in_time else usual
    digest, time = folder.checked().put(name, bundle)
    until = closes(course, [one.id for one in facts.exercises])
    receipt = Receipt(name, digest, time, until.timestamp() if until is not None else 0.0)
    make_private(kept)
    write_private(path, msgspec.json.encode(known | {about: receipt}))
    return receipt


class HandInFolder:
    """The hand-ins in a folder of the class; each is fetched and checked once by ``check``. ``cards`` are those of the
    course: goals of them that a hand-in leaves out are named."""

    def __init__(
        self,
        course: Course,
        folder: SharedFolder,
        check: Callable[[Path], HandinVerdict],
        cards: Sequence[ExerciseCard],
    ) -> None:
        self._course, self._folder, self._check, self._cards = course, folder, check, cards
        self._checked: dict[SharedFile, HandinVerdict] = {}
        self.more = 0
        """How many files there are beyond those that are read."""

    def refresh(self) -> list[HandedIn]:
        """All that are there now. Raises ``ProblemError`` where the folder cannot be read."""
        there, self.more = self._folder.look(SUFFIX, {one.name: -1 for one in self._checked} | {"": 0})
        room, now = _ROOM, dict[SharedFile, HandinVerdict]()
        for one in there:
            key = msgspec.structs.replace(one, data=b"")
            if (verdict := self._checked.get(key)) is None:
                room -= max(one.size, _LEAST) if len(one.data) < one.size <= MOST_BYTES else 0
                verdict = self._verdict(one) if room >= 0 else _LATER
            now[key] = verdict
        self._checked = {one: verdict for one, verdict in now.items() if verdict is not _LATER}
        rows = class_rows([(one.name, verdict) for one, verdict in now.items()])
        found = {one.name: (one, self._late(one, verdict)) for one, verdict in now.items()}
        return [_handed_in(row, *found[row.file]) for row in rows]

    def _verdict(self, one: SharedFile) -> HandinVerdict:
        try:
            if one.refused or one.size > MOST_BYTES:
                why = one.refused or f"it has {one.size:,} bytes"
                raise problem("handin.read", f"{one.name} is not read: {why}.", "Ask for the file again.", one.name)
            with tempfile.TemporaryDirectory(prefix="clew-class-") as into:
                path = Path(into, "hand-in" + SUFFIX)
                path.write_bytes(one.data)
                if len(one.data) < one.size:
                    self._folder.fetch(one, path)
                verdict = self._check(path)
                return msgspec.structs.replace(verdict, notes=(*verdict.notes, *self._left_out(verdict.facts)))
        except ProblemError as error:
            return HandinVerdict(problems=error.problems)

    def _left_out(self, facts: ReportFacts | None) -> list[str]:
        """Says which goals that count here, for the data that it used, are not in a hand-in."""
        claimed = {(goal.exercise, goal.id) for goal in facts.goals} if facts is not None else set()
        missing, handed = list[str](), {one.id for one in facts.exercises} if facts is not None else set()
        for card in (card for card in self._cards if card.id in handed):
            data = {goal.data for goal in card.goals if (card.id, goal.id) in claimed} or {g.data for g in card.goals}
            missing += [goal.text for goal in card.goals if (card.id, goal.id) not in claimed and goal.data in data]
        return [f"Goals that it leaves out: {'; '.join(missing)}."] if missing else []

    def _late(self, one: SharedFile, verdict: HandinVerdict) -> str:
        exercises = [known.id for known in verdict.facts.exercises] if verdict.facts is not None else []
        return late_words(closes(self._course, exercises), one.time)


def _handed_in(row: ClassRow, one: SharedFile, late: str) -> HandedIn:
    notes = (*row.problems, *row.shared, *row.processes, *row.notes)
    checked = (row.checked, row.ok, row.student, row.goals)
    return HandedIn(row.file, row.exercises, one.owner, one.time, late, *checked, notes)


class ClassReader:
    """Reads the board and the hand-ins of a course, those that it has; ``folder_at`` gives a folder that it names, and
    ``cards`` are its exercises. Each look takes what is new."""

    def __init__(
        self,
        course: Course,
        cards: Sequence[ExerciseCard],
        folder_at: Callable[[str], SharedFolder],
        check: Callable[[Path], HandinVerdict],
    ) -> None:
        self.course, self._cards = course, cards
        folders = {text: folder_at(text) for text in (course.board, course.hand_in) if text}
        self.board = Board(folders[course.board]) if course.board else None
        self._files = HandInFolder(course, folders[course.hand_in], check, cards) if course.hand_in else None
        self._connect = next((one.connect for one in folders.values() if one.connect is not None), None)
        self.queue: LessonQueue | None = None
        """The queue of the lesson that is on, where the class meets on a site."""

    @property
    def more(self) -> int:
        """How many files there are beyond those that are read."""
        return sum(one.more for one in (self.board, self._files) if one is not None)

    def look(self, now: float) -> list[StudentRow]:
        """The class at the time ``now``. Raises ``ProblemError``; then what was read before stays."""
        if self.board is not None:
            self.board.refresh()
        handed = self._files.refresh() if self._files is not None else []
        self.queue = ask_queue(self.course, self._connect(), now) if self._connect is not None else None
        members = self.board.members.values() if self.board is not None else ()
        return class_view(self.course, self._cards, members, handed, now)


def class_words(rows: Sequence[StudentRow], reader: ClassReader) -> str:
    """Says how many students there are, how many of them are stuck, and what the queue holds."""
    stuck = sum(bool(row.stuck) for row in rows)
    queue = f". {reader.queue.words}" if reader.queue is not None else ""
    return f"{counted(len(rows), 'student')}, {stuck} stuck{queue}"
