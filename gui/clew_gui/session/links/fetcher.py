"""Tracks which bytes of which journals are still to come, and handles those that came. For the link's thread only."""

from __future__ import annotations

import logging
import shutil
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from clew_gui.base.kept_spec import kept_spec
from clew_gui.session.links.inbox import FrameBatch, Inbox, RequestFailed, Restarted, RunFound, Settled
from clew_gui.session.links.mirror import Items, Mirror, Replaced
from clew_gui.session.summaries import Summaries
from clew_gui.targets.target import JournalFiles
from clew_shared.base.problem import Problem, ProblemError, raise_all
from clew_shared.base.remedies import verify_run
from clew_shared.journal.events import Attempt
from clew_shared.journal.files import Record, made
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.wire.messages import MAX_FETCH_WAIT, AnyReply, Fetch, Fetched, Refused, RunStatus

_log = logging.getLogger(__name__)

AT_ONCE = 16
"""The number of fetches at the same time: enough for every live run, and 4 MiB of answers at most."""
_LOST_AFTER_S = MAX_FETCH_WAIT + 8.0
_DISK_AGAIN_S = 5.0
"""Seconds until a journal is asked for again after this computer's disk could not take it."""
_FILE_AGAIN_S = 2.0
"""A file that has not grown is looked at again after this."""
_ID = b"by files"
_SHORTER = Refused(problem=Problem("fetch.offset", "The journal there is shorter than its copy."))


class FetchCursor:
    """The progress of fetching one run."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.found = mirror.attempts()
        """The attempts that were here when it was found."""
        self.attempt = max(self.found, default=1)
        self.complete = False
        self.asked: bytes | None = None
        self.not_before = 0.0
        self.deadline = 0.0
        self.restarted: set[int] = set()
        """Attempts whose copies were set aside, which happens once."""
        self.status: RunStatus | None = None
        self.expected = False
        """Whether its start was requested just before, and the agent has not listed it yet."""
        self.replay: Iterator[tuple[int, Items]] | None = None
        self.owed: dict[int, int] = {}
        """The earlier attempts that were longer than what is here, according to a later one, and how many of their
        bytes count."""
        self.given_up: set[int] = set()
        """The earlier attempts whose rest the node does not have either."""

    @property
    def place(self) -> int:
        """The attempt to fetch from."""
        return min(self.owed, default=self.attempt)

    @property
    def wanted(self) -> bool:
        """Whether a fetch should be running."""
        if self.replay is not None or self.asked is not None or time.monotonic() < self.not_before:
            return False
        if self.owed:
            return self.status is not None or self.expected  # nobody else has it
        if self.complete:
            return False
        if self.status is None:
            return self.expected
        return self.status.state not in (RunState.QUEUED, RunState.SUBMITTED) or self.attempt <= self.status.attempt

    @property
    def live(self) -> bool:
        """Whether its journal still grows."""
        return self.expected if self.status is None else self.status.state not in TERMINAL


class Fetcher:
    """The cursors of one link's runs. What it learns goes into ``inbox``; while that is full nothing is asked or read.

    No run may be followed by two of them at once: each writes into the mirrors of its own. ``summaries`` know the specs
    of runs that are over.
    """

    def __init__(
        self,
        mirrors: Path,
        inbox: Inbox,
        link: str = "",
        summaries: Summaries | None = None,
        at_once: int = AT_ONCE,
    ) -> None:
        self._mirrors = mirrors
        self._at_once = at_once
        self._summaries = summaries
        self._preferred: Sequence[str] = ()
        self._put_off: set[str] = set()
        """Runs of which a summary is enough until somebody looks at their exercise."""
        self._exercises: dict[str, str] = {}
        self._inbox = inbox
        self._link = link
        self._final: bool | None = None
        """Whether journals that come as files are final; None while they come from an agent."""
        self._cursors: dict[str, FetchCursor] = {}
        self._replays: deque[str] = deque()
        self._asked: dict[bytes, str] = {}
        self._disk_full = False

    # --- Runs ---------------------------------------------------------------------------------------------------------

    def find_mirrors(self, forgotten: frozenset[str]) -> None:
        """Make known the runs that have a mirror; they are read bit by bit, the newest first."""
        folders = [path for path in self._mirrors.glob("*-*-*-*-*") if path.name not in forgotten and path.is_dir()]
        for folder in sorted(folders, key=made):
            self.find(folder.name)
        self.prefer(self._preferred)

    def find(self, run: str) -> None:
        """Follow a run whose spec, at least, this computer has, and make it known."""
        folder = self._mirrors / run
        summary = self._summaries.instead(folder) if self._summaries is not None else None
        spec = summary.spec if summary is not None else kept_spec(folder)
        if spec is not None and spec.run == run:
            self._exercises[run] = spec.exercise
            known = run in self._cursors
            cursor = self.follow(run)
            self._inbox.put(RunFound(run, spec, sum(map(cursor.mirror.length, cursor.found)), summary))
            wanted = spec.exercise in self._preferred
            if summary is not None and not known and not wanted and run in self._replays:
                self._replays.remove(run)
                self._put_off.add(run)

    def prefer(self, exercises: Sequence[str]) -> None:
        """Read the runs of these exercises before those of others: somebody looks at them."""
        self._preferred = exercises
        wanted = [run for run in self._cursors if run in self._put_off and self._exercises[run] in exercises]
        self._put_off.difference_update(wanted)
        waiting = [*reversed(wanted), *self._replays]
        self._replays = deque(sorted(waiting, key=lambda run: self._exercises.get(run) not in exercises))

    def follow(self, run: str) -> FetchCursor:
        """The cursor of a run; the first time its mirror is queued to be read."""
        if run not in self._cursors:
            cursor = self._cursors[run] = FetchCursor(Mirror(self._mirrors / run))
            if cursor.found:
                cursor.replay = _read_all(cursor.mirror)
                self._replays.appendleft(run)
        return self._cursors[run]

    def knows(self, run: str) -> bool:
        """Whether the run is followed."""
        return run in self._cursors

    def expect(self, run: str) -> None:
        """Fetches a run whose start is on its way to the agent: the first fetch goes right after it and waits there for
        the journal, instead of here for the agent's next list of runs."""
        self.follow(run).expected = True

    def note(self, status: RunStatus) -> None:
        """Takes note of what the agent says about a run: there may be more to fetch."""
        cursor = self.follow(status.run)
        before, cursor.status = cursor.status, status
        if cursor.complete and status.attempt > cursor.attempt:
            cursor.complete, cursor.attempt = False, cursor.attempt + 1
        grew = status.attempt > cursor.attempt or status.size > cursor.mirror.length(status.attempt)
        if status.run in self._put_off and (cursor.live or grew):
            self._put_off.discard(status.run)
            self._replays.append(status.run)
        if before is None and cursor.replay is not None and cursor.live:
            self._replays.remove(status.run)
            self._replays.appendleft(status.run)  # what moves comes first

    def release(self, run: str) -> None:
        """Stop following a run; its mirror stays."""
        cursor = self._cursors.pop(run, None)
        if cursor is not None and cursor.asked is not None:
            self._asked.pop(cursor.asked, None)
        self._put_off.discard(run)
        if run in self._replays:
            self._replays.remove(run)

    def drop(self, run: str) -> None:
        """Forget a run and remove its mirror."""
        self.release(run)
        shutil.rmtree(self._mirrors / run, ignore_errors=True)

    def fetch_from_agent(self) -> None:
        """An agent serves, and no journal is final."""
        self._final = None

    # --- What is here already -----------------------------------------------------------------------------------------

    def replay(self) -> bool:
        """Read a piece of the mirrors; whether more is to be read and there is room for it."""
        if not self._replays or self._inbox.full:
            return False
        run = self._replays[0]
        cursor = self._cursors[run]
        piece = next(cursor.replay, None) if cursor.replay is not None else None
        if piece is None:
            cursor.replay = None
            self._replays.remove(run)
            self._after_replay(cursor)
        else:
            attempt, items = piece
            _look_back(cursor, attempt, items)
            self._put(run, cursor, attempt, items, cursor.mirror.length(attempt))
        return bool(self._replays) and not self._inbox.full

    def _after_replay(self, cursor: FetchCursor) -> None:
        attempt = cursor.attempt
        self._check_mirror(cursor)
        if cursor.replay is not None:
            return
        if attempt in cursor.mirror.sealed:
            listed = cursor.status is not None and cursor.status.attempt > attempt
            later = listed or self._final  # nobody lists it then: it is looked for
            cursor.complete, cursor.attempt = not later, attempt + 1 if later else attempt

    # --- What is to come ----------------------------------------------------------------------------------------------

    def next_fetch(self) -> tuple[str, Fetch] | None:
        """The next request to send, live runs first; None when enough are under way or the inbox is full."""
        if self._inbox.full or len(self._asked) >= self._at_once:
            return None
        wanted = [(not cursor.live, run) for run, cursor in self._cursors.items() if cursor.wanted]
        if not wanted:
            return None
        run = min(wanted)[1]
        cursor = self._cursors[run]
        if not cursor.owed and cursor.mirror.unread(cursor.attempt):  # another program of this computer was faster
            cursor.replay = _read_one(cursor.mirror, cursor.attempt)
            self._replays.append(run)
            return self.next_fetch()
        return run, Fetch(run=run, attempt=cursor.place, offset=cursor.mirror.length(cursor.place))

    def sent(self, run: str, request_id: bytes) -> None:
        """Notes that the run's fetch was sent."""
        self._cursors[run].asked = request_id
        self._cursors[run].deadline = time.monotonic() + _LOST_AFTER_S
        self._asked[request_id] = run

    def lost(self, everything: bool = False) -> None:
        """Ask again for what was not answered in time, or for everything after a cut."""
        now = time.monotonic()
        for run, cursor in self._cursors.items():
            if cursor.asked is not None and (everything or now >= cursor.deadline):
                _log.info("The fetch for run %s is asked again.", run)
                self._asked.pop(cursor.asked, None)
                cursor.asked = None

    def answered(self, request_id: bytes, reply: AnyReply) -> bool:
        """Take the reply to one of the fetches; False when it is none of them."""
        run = self._asked.pop(request_id, None)
        if run is None:
            return False
        cursor = self._cursors[run]
        cursor.asked = None
        if isinstance(reply, Fetched) and reply.attempt == cursor.place:
            self._take(run, cursor, reply)
        elif not isinstance(reply, Fetched):
            self._refused(run, cursor, reply)
        return True

    def _take(self, run: str, cursor: FetchCursor, reply: Fetched) -> None:
        wanted = cursor.owed.get(reply.attempt)
        try:
            data = reply.data if wanted is None else reply.data[: wanted - reply.offset]
            items = cursor.mirror.append(reply.attempt, reply.offset, data)
        except OSError as error:
            self._wait_for_room(cursor, error)
            return
        except Replaced:
            _log.info("Another program has begun the copy of run %s again.", run)
            self._begin_anew(run, cursor)
            return
        self._disk_full = False
        have = cursor.mirror.length(reply.attempt)
        if wanted is not None:
            self._take_owed(run, cursor, have >= wanted, bool(data))
            return
        if _look_back(cursor, reply.attempt, items):
            return  # they come again after the bytes that they continue
        if cursor.replay is None and reply.sealed and have == reply.size:
            items = [*items, *cursor.mirror.finish(reply.attempt)]
        if items or reply.data:
            self._put(run, cursor, reply.attempt, items, reply.size, len(reply.data))
        self._check_mirror(cursor)
        if cursor.replay is None and reply.sealed and have == reply.size:
            cursor.complete = reply.attempts <= reply.attempt
            cursor.attempt += 0 if cursor.complete else 1
            if cursor.complete and self._final:
                self._inbox.put(Settled(run, self._link))

    def _take_owed(self, run: str, cursor: FetchCursor, whole: bool, more: bool) -> None:
        """Takes bytes of an earlier attempt: once it is ``whole``, everything is folded again in its order."""
        if whole:
            del cursor.owed[cursor.place]
            self._begin_anew(run, cursor)
        elif not more:
            self._give_up(run, cursor)

    def _give_up(self, run: str, cursor: FetchCursor) -> None:
        """Gives up the rest of an earlier attempt, which the node does not have either: the gap stays, and ``verify``
        names it."""
        cursor.given_up.add(cursor.place)
        cursor.not_before = 0.0
        del cursor.owed[cursor.place]
        self._begin_anew(run, cursor)

    def _wait_for_room(self, cursor: FetchCursor, error: OSError) -> None:
        cursor.not_before = time.monotonic() + _DISK_AGAIN_S
        if not self._disk_full:
            self._disk_full = True
            text = f"The journal of a run cannot be kept in {self._mirrors}: {error}."
            self._inbox.put(RequestFailed(Problem("mirror.write", text, "Make room; it goes on by itself.")))

    def _refused(self, run: str, cursor: FetchCursor, reply: AnyReply) -> None:
        found = getattr(reply, "problem", Problem("fetch.reply", "The agent's answer was no journal."))
        if found.code == "fetch.offset" and cursor.owed:
            self._give_up(run, cursor)
        elif found.code == "fetch.offset":  # what is here is not what is there: fetch the node's
            self._restart(run, cursor, cursor.attempt)
        elif cursor.status is None:  # refused, or its catalogue is not read yet: its list will show it
            cursor.expected = False
        else:
            cursor.not_before = time.monotonic() + _DISK_AGAIN_S
        _log.info("A fetch was refused: %s", found)

    def _put(self, run: str, cursor: FetchCursor, attempt: int, items: Items, size: int, weight: int = -1) -> None:
        have = max((item.offset + item.size for item in items), default=0)
        weight = sum(item.size for item in items) if weight < 0 else weight
        self._inbox.put(FrameBatch(run, attempt, items, weight, have, size))

    def _check_mirror(self, cursor: FetchCursor) -> None:
        """A sealed copy that is not the node's is set aside and fetched again, once; a second time the node has no
        other."""
        while cursor.mirror.damaged:
            attempt, found = cursor.mirror.damaged.popitem()
            again = attempt in cursor.restarted
            self._inbox.put(RequestFailed(_damaged_there(cursor.mirror, attempt) if again else found))
            if not again:
                self._restart(cursor.mirror.folder.name, cursor, attempt)

    def _restart(self, run: str, cursor: FetchCursor, attempt: int) -> None:
        """Fetches the run again, that attempt from the node: what the caller knows of the run is void."""
        if attempt in cursor.restarted:
            cursor.complete = True
            return
        cursor.restarted.add(attempt)
        cursor.mirror.set_aside(attempt)
        cursor.attempt = attempt
        self._begin_anew(run, cursor)

    def _begin_anew(self, run: str, cursor: FetchCursor) -> None:
        """Lets the caller forget what it knows of the run, and gives it all of it again."""
        cursor.replay = _read_all(cursor.mirror)
        if run not in self._replays:
            self._replays.append(run)
        self._inbox.put(Restarted(run))

    # --- By files -----------------------------------------------------------------------------------------------------

    def fetch_files(self, files: JournalFiles, final: bool) -> bool:
        """Reads a piece of each journal that is wanted, because no agent serves; whether there is more to read at once.
        ``final``: nothing will be added, and each run is ``Settled`` once all of it is here.

        Raises ``ProblemError`` when the machine cannot be reached.
        """
        if self._final is not final:
            self._final = final
            for cursor in self._cursors.values():
                cursor.status, cursor.expected = None, True
                if final and cursor.complete:  # as far as it was known; there may be a later attempt
                    cursor.complete, cursor.attempt = False, cursor.attempt + 1
        wanted: list[Fetch] = []
        while (following := self.next_fetch()) is not None:
            run, fetch = following
            self.sent(run, _ID + run.encode())
            wanted.append(fetch)
        if not wanted:
            return False
        try:
            found = files.fetch(wanted)
        except BaseException:
            self.lost(everything=True)
            for fetch in wanted:
                self._later(fetch.run)
            raise
        for fetch, reply in zip(wanted, found, strict=True):
            self._take_file(fetch, reply)
        raise_all([problem for reply in found if isinstance(reply, ProblemError) for problem in reply.problems])
        return True

    def _take_file(self, fetch: Fetch, found: Fetched | ProblemError | None) -> None:
        if found is None:
            self._nothing_there(fetch.run)
        elif isinstance(found, ProblemError):
            self._later(fetch.run)
        else:
            shorter = found.size < fetch.offset
            self.answered(_ID + fetch.run.encode(), _SHORTER if shorter else found)
            if not found.sealed and not shorter and fetch.offset + len(found.data) == found.size:
                self._later(fetch.run)

    def _nothing_there(self, run: str) -> None:
        self._later(run)
        cursor = self._cursors[run]
        if cursor.owed:
            self._give_up(run, cursor)
        elif self._final:
            cursor.complete = True
            self._inbox.put(Settled(run, self._link))

    def _later(self, run: str) -> None:
        """Ask for this run again only after a while."""
        cursor = self._cursors[run]
        self._asked.pop(cursor.asked or b"", None)
        cursor.asked, cursor.not_before = None, time.monotonic() + _FILE_AGAIN_S


def _look_back(cursor: FetchCursor, attempt: int, items: Items) -> bool:
    """Says whether the run resumed from more of an earlier attempt than was copied here, and notes what to copy. A node
    that was cut off may have written more after everybody else took its job for ended."""
    first = items[0] if items else None
    if not isinstance(first, Record) or not isinstance(first.event, Attempt):
        return False
    earlier, size = first.event.resumes, first.event.earlier_size
    found = 0 < earlier < attempt and earlier not in cursor.given_up and size > cursor.mirror.length(earlier)
    if found:
        cursor.owed[earlier] = size
    return found


def _damaged_there(mirror: Mirror, attempt: int) -> Problem:
    """Returns the problem of a journal that disagrees with its seal also when it was fetched again."""
    run = mirror.folder.name
    text = f"The journal of attempt {attempt} of run {run} is damaged on the node: some of its points may be missing."
    return Problem("mirror.node", text, "A check of the run says where.", remedies=(verify_run(run),))


def _read_all(mirror: Mirror) -> Iterator[tuple[int, Items]]:
    for attempt in mirror.attempts():
        yield from _read_one(mirror, attempt)


def _read_one(mirror: Mirror, attempt: int) -> Iterator[tuple[int, Items]]:
    for items in mirror.read(attempt):
        yield attempt, items
