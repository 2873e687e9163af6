"""The board of a class: what a student shares, in lines that only he appends to, and what a teacher reads of them.

A line is JSON with everything about one run as it was then, so that the last line of a run counts and a lost one costs
nothing. What a student wrote is kept on his own computer first; the file on the board is a copy of it that catches up.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew_gui.base.line_file import LineFile
from clew_gui.base.settings import SettingsFile
from clew_gui.courses.shared_folder import MOST_BYTES, SharedFile, SharedFolder
from clew_gui.study.goals import check_goal, diverged_for_good
from clew_gui.study.ranking import headline_metric
from clew_shared.base.foreign import from_json
from clew_shared.base.number_words import duration
from clew_shared.base.private_files import write_private
from clew_shared.base.problem import os_refused, problem
from clew_shared.cards import ExerciseCard
from clew_shared.goal_settings import asked_settings
from clew_shared.journal.events import RunState
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL
from clew_shared.params import STEPS
from clew_shared.spec import MAX_NAME, RunSpec

SUFFIX = ".board"
LINE_BYTES = 4_000
"""The longest line: 50 points of a curve, and a name."""
RUN_DIGITS = 8
"""Digits of a run's id that name it on the board."""
_POINTS = 50
_FULL = MOST_BYTES // 2
"""Bytes after which a student's file begins again with the last line of each run: more would not be read."""
_PAUSE_S = 15.0
"""Seconds between two lines of a run of which only the step has changed."""
_ALIVE_S = 300.0
"""Seconds after which a run that goes on is told again without news: it can be told from one that nobody tells of."""
_TRIES = 5
"""How often the board's copy is looked at before it counts as changing: another window may write it too."""
_MOST_STEPS, _MOST_VALUE = 2**53, 1e30
"""Bounds of what is drawn: a chart of more than that has no axis."""
STUCK_S = 600.0
"""Seconds without a step after which a run that trains is stuck: the slowest exercise evaluates for one minute."""
WAITS_S = 1_800.0
"""Seconds in a queue after which somebody should look."""
_BAD = {RunState.FAILED: "failed", RunState.TIMED_OUT: "out of time", RunState.LOST: "lost"}


class BoardLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. ``time`` is wall-clock seconds since 1970 on the student's computer, ``run`` the first digits of its
    id, ``best`` the best value of the exercise's ``metric``, ``goals`` when each that is reached was first seen to be,
    by its id, ``points`` its curve, thinned, as (step, value) pairs, if the student shares curves. A line without a run
    says who joined."""

    time: float
    name: str = ""
    exercise: str = ""
    run: str = ""
    state: str = ""
    step: int = 0
    steps: int = 0
    metric: str = ""
    best: float | None = None
    goals: dict[str, float] = {}
    diverged: bool = False
    points: tuple[tuple[int, float], ...] = ()


class RunOnBoard(NamedTuple):
    """The last line of a run, and when its step last changed."""

    line: BoardLine
    moved: float


class Member(msgspec.Struct, kw_only=True):
    """A student as the board shows him: the name that he gave, and the account that owns the file by the file system;
    his runs by id, how many lines are not Clew's, and why the file was not read."""

    file: str
    owner: str
    name: str = ""
    seen: float = 0.0
    runs: dict[str, RunOnBoard] = {}
    strange: int = 0
    refused: str = ""

    def of(self, exercise: str) -> list[RunOnBoard]:
        """The runs of an exercise, the one with the latest line last."""
        return sorted((one for one in self.runs.values() if one.line.exercise == exercise), key=lambda one: one.moved)

    def reached(self, exercise: str) -> dict[str, float]:
        """When each goal of an exercise that any of the runs reached was first seen to be."""
        found: dict[str, float] = {}
        for goal, time in (pair for one in self.of(exercise) for pair in one.line.goals.items()):
            found[goal] = min(time, found.get(goal, time))
        return found

    def stuck(self) -> str:
        """Why somebody should look: what the latest run did when it was told of last, in a few words; empty if all is
        well."""
        if (last := self._latest()) is None:
            return ""
        line, idle = last.line, last.line.time - last.moved
        if line.diverged or line.state in _BAD:
            return "diverged" if line.diverged else _BAD[RunState(line.state)]
        if line.state == RunState.RUNNING and idle > STUCK_S:
            return f"no step for {idle / 60:.0f} min"
        return f"waits for {idle / 60:.0f} min" if line.state == RunState.QUEUED and idle > WAITS_S else ""

    def unheard(self, now: float) -> str:
        """For how long nothing was heard of a run that may still go on, as where a laptop was closed; empty if it was
        heard of."""
        last = self._latest()
        silent = now - self.seen if last is not None and last.line.state not in TERMINAL else 0.0
        return f"not heard of for {duration(silent)}" if silent > 2 * _ALIVE_S else ""

    def _latest(self) -> RunOnBoard | None:
        return max(self.runs.values(), key=lambda one: one.line.time, default=None)


# --- What a student shares --------------------------------------------------------------------------------------------


def line_of(
    history: History, state: RunState, spec: RunSpec, card: ExerciseCard, now: float, curves: bool
) -> BoardLine:
    """What is shared of a run at the time ``now``; of one that has ended, as of its end."""
    metric = headline_metric(card)
    when = round(min(history.fold.ended or now, now), 1)
    best = history.best(metric.name) if metric is not None else None
    return BoardLine(
        time=when,
        exercise=spec.exercise,
        run=spec.run[:RUN_DIGITS],
        state=state,
        step=history.fold.step,
        steps=steps if isinstance(steps := asked_settings(spec, card).get(STEPS), int) else 0,
        metric=metric.label if metric is not None else "",
        best=_plain(best.value) if best is not None else None,
        goals={goal.id: when for goal in card.goals if check_goal(goal, history, card, spec).reached},
        diverged=diverged_for_good(history) is not None,
        points=_points(history, metric.name) if curves and metric is not None else (),
    )


def _plain(value: float) -> float | None:
    return float(f"{value:.6g}") if abs(value) < _MOST_VALUE else None


def _points(history: History, metric: str) -> tuple[tuple[int, float], ...]:
    column = history.column(metric)
    every = max(1, math.ceil(len(column.values) / _POINTS))
    pairs = zip(column.steps[::-every][::-1], column.values[::-every][::-1], strict=True)
    return tuple((int(step), float(f"{value:.5g}")) for step, value in pairs if abs(value) < _MOST_VALUE)


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """What a student agreed to share on ``board``: the ``name`` and whether with ``curves``; ``file`` is his there,
    ``old`` are earlier ones that go."""

    file: str = ""
    name: str = ""
    board: str = ""
    curves: bool = False
    old: tuple[str, ...] = ()


class Sharing:
    """A student's part of a course's ``board`` (empty: any that was joined): what was shared is kept in ``folder``, and
    ``send`` copies it."""

    def __init__(self, folder: Path, board: str = "") -> None:
        self._folder, self._board = folder, board
        self._sending = threading.Lock()
        self._settings = SettingsFile(folder / "member.toml", Membership)
        self._lines = LineFile(folder / "shared.lines")
        self._shared = Member(file="", owner="", runs={})
        self._again = set[str]()
        """The runs that are told again, with or without their curves."""
        self._sent: tuple[str, tuple[int, int]] | None = None
        """The file that was sent last, and the mark of the lines in it."""
        self._there = 0
        """How many bytes the board's copy had then."""

    @property
    def member(self) -> Membership | None:
        """As whom the student shares on this board; None if he does not, as where the course has another one now."""
        found = self._settings.load()
        return found if found.file and found.board == self._board else None

    @property
    def board(self) -> str:
        """The board that has a file of his, which may be an earlier one of the course; empty for none."""
        return self._settings.load().board

    def join(self, name: str, curves: bool, now: float) -> None:
        """Begin to share, or share otherwise from now on. Raises ``ProblemError``."""
        if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
            raise problem("board.name", f"The board needs a name of 1 to {MAX_NAME} letters.", "Type yours.", "name")
        if self.board not in ("", self._board):
            text = f"You still share on {self.board}, where the course had its board before."
            raise problem("board.earlier", text, "Stop sharing first: that deletes it there.", self.board)
        before = self.member or Membership(file=_new_file(), board=self._board)
        self._settings.keep(msgspec.structs.replace(before, name=name.strip(), curves=curves))
        self._add([BoardLine(time=round(now, 1), name=name.strip())])
        self._again = set(self._shared.runs)

    def note(self, lines: Iterable[BoardLine]) -> None:
        """Keep what changed since the last line of each run; nothing without a membership. Raises ``ProblemError``."""
        if self.member is not None:
            self._catch_up()
            news = [line for line in map(self._with_earlier_times, lines) if self._is_news(line)]
            self._add(news)
            self._again -= {line.run for line in news}

    def _with_earlier_times(self, line: BoardLine) -> BoardLine:
        before = self._shared.runs.get(line.run)
        earlier = before.line.goals if before is not None else {}
        return msgspec.structs.replace(line, goals={goal: earlier.get(goal, time) for goal, time in line.goals.items()})

    def is_settled(self, run: str, state: RunState) -> bool:
        """Whether the run had ended so when it was shared last: nothing of it changes any more."""
        before = self._shared.runs.get(run[:RUN_DIGITS])
        told = before is not None and before.line.run not in self._again
        return state in TERMINAL and before is not None and told and before.line.state == state

    def _catch_up(self) -> None:
        """Takes in what was shared, by another window or command as well."""
        for data in self._lines.new_lines():
            fold_line(self._shared, data, math.inf)

    def _is_news(self, line: BoardLine) -> bool:
        before = self._shared.runs.get(line.run)
        if before is None or line.run in self._again:
            return True
        then = msgspec.structs.replace(before.line, time=line.time)
        only_steps = msgspec.structs.replace(then, step=line.step, best=line.best, points=line.points) == line
        since = abs(line.time - before.line.time)
        if then == line:
            return line.state not in TERMINAL and since > _ALIVE_S
        return not only_steps or since >= _PAUSE_S

    def _add(self, lines: Sequence[BoardLine]) -> None:
        with os_refused("board.write", f"What is shared cannot be kept in {self._folder}", "Make room on that disk."):
            for line in lines:
                self._lines.append(msgspec.json.encode(line), lasting=False)
            self._catch_up()
            if self._lines.mark()[0] > _FULL and (member := self.member) is not None:
                self._settings.keep(msgspec.structs.replace(member, file=_new_file(), old=(*member.old, member.file)))
                last = (msgspec.json.encode(one.line) for one in self._shared.runs.values())
                name = msgspec.json.encode(BoardLine(time=0.0, name=member.name))
                write_private(self._lines.path, b"".join(data + b"\n" for data in (name, *last)))

    def send(self, folder: SharedFolder) -> int:
        """Bring the board's copy up to date, if there is news; returns how many bytes were sent. Raises
        ``ProblemError``, as where others could read it there."""
        with self._sending:
            if (member := self.member) is None or (member.file, self._lines.mark()) == self._sent:
                return 0
            mark, data, there = self._lines.mark(), self._lines.path.read_bytes(), self._there
            folder.checked()
            for _ in range(_TRIES):
                if (now := folder.append(member.file, there, data[there:])) == len(data):
                    break
                if now > len(data):  # what was shared is lost here: begin again
                    member, now = msgspec.structs.replace(member, file=_new_file(), old=(member.file,)), 0
                there = now
            else:
                raise problem(
                    "board.damaged", "The board's copy changes while it is written.", "Try again.", member.file
                )
            for old in member.old:
                folder.remove(old)
            if not self._settings.load().file:  # it was left meanwhile, in another window
                folder.remove(member.file)
            elif member.old:
                self._settings.keep(msgspec.structs.replace(member, old=()))
            self._sent, self._there = (member.file, mark), len(data)
            return len(data) - there

    def leave(self, folder: SharedFolder) -> None:
        """Stop sharing and delete what was shared, in the board's ``folder`` first. Raises ``ProblemError`` if that
        fails."""
        with self._sending:
            member = self._settings.load()
            for file in filter(None, (member.file, *member.old)):
                folder.remove(file)
            for path in (self._settings.path, self._lines.path):
                path.unlink(missing_ok=True)
            self._shared.runs.clear()


def _new_file() -> str:
    return f"{uuid.uuid4().hex}{SUFFIX}"


# --- What a teacher reads ---------------------------------------------------------------------------------------------


class Board:
    """The class as its lines say, read again from where it was read before."""

    def __init__(self, folder: SharedFolder) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, bytes]] = {}
        """By file how many bytes were read, and the beginning of a line whose end has not come."""
        self.members: dict[str, Member] = {}
        self.more = 0
        """How many files there are beyond those that are read."""

    def refresh(self) -> None:
        """Read what is new. Raises ``ProblemError``; then what was read before stays."""
        offsets = {name: size for name, (size, _) in self._read.items()} | {"": 0}
        found, self.more = self._folder.look(SUFFIX, offsets)
        for gone in set(self.members) - {one.name for one in found}:
            del self.members[gone]
            self._read.pop(gone, None)
        for one in found:
            self._take(one)

    def _take(self, one: SharedFile) -> None:
        member = self.members.setdefault(one.name, Member(file=one.name, owner=one.owner, runs={}))
        size, rest = self._read.get(one.name, (0, b""))
        if one.size < size or (member.owner != one.owner and not one.refused):  # another file of this name
            self.members.pop(one.name)
            self._read.pop(one.name)
            return
        member.refused, member.seen = one.refused, max(member.seen, one.time)
        *lines, rest = (rest + one.data).split(b"\n")
        self._read[one.name] = (size + len(one.data), rest[: LINE_BYTES + 1])
        member.strange += len(rest) > LINE_BYTES and bool(one.data)
        for line in lines:
            fold_line(member, line, one.time)


def fold_line(member: Member, data: bytes, now: float) -> None:
    """Take one line of a file; what Clew would not write is counted, not believed. Times after ``now`` are not."""
    try:
        line: BoardLine = from_json(data, BoardLine) if len(data) <= LINE_BYTES else BoardLine(time=math.nan)
        texts = (line.name, line.exercise, line.run, line.state, line.metric, *line.goals)
        good = all(0 <= time < math.inf for time in (line.time, *line.goals.values())) and all(
            len(text) <= MAX_NAME and text.isprintable() for text in texts
        )
        good &= all(0 <= step < _MOST_STEPS for step in (line.step, line.steps, *(step for step, _ in line.points)))
        good &= all(abs(value) < _MOST_VALUE for value in (line.best or 0.0, *(value for _, value in line.points)))
    except msgspec.DecodeError:
        good = False
    if not good or len(line.points) > _POINTS + 1:
        member.strange += 1
        return
    goals = {goal: min(time, now) for goal, time in line.goals.items()}
    line = msgspec.structs.replace(line, time=min(line.time, now), goals=goals)
    member.name = line.name or member.name
    if line.run:
        before = member.runs.get(line.run)
        same = before is not None and (before.line.step, before.line.state) == (line.step, line.state)
        member.runs[line.run] = RunOnBoard(line, before.moved if before is not None and same else line.time)
