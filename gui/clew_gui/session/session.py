"""A viewer's runs and its link to an agent, without Qt: the window calls ``tick`` and draws what changed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from clew_gui.session.fetcher import Fetcher
from clew_gui.session.inbox import Arrival, Batch, Cards, Found, Inbox, Restarted, Statuses, Told
from clew_gui.session.job_record import job_record
from clew_gui.session.link import Link
from clew_gui.session.mirror import Mirror
from clew_gui.session.run_model import RunModel
from clew_gui.session.states import LinkState, LinkStatus
from clew_shared.cards import Catalogue
from clew_shared.catalogue import find_card
from clew_shared.history import History
from clew_shared.journal import Record
from clew_shared.messages import ContinueRun, MoveRun, Pause, SetLive, StartRun, Stop, Unpause
from clew_shared.params import check
from clew_shared.places import Places
from clew_shared.problem import Problem, problem, raise_all
from clew_shared.spec import RunSpec

if TYPE_CHECKING:
    from clew_gui.remote.target import Target

_LOOK_AFTER = 32
"""Events between two looks at the clock."""


class Changes(msgspec.Struct, frozen=True):
    """What one tick brought: runs with new points, with another state, seen for the first time; troubles to show."""

    points: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()
    link: bool = False
    problems: tuple[Problem, ...] = ()
    catalogue: Catalogue | None = None


class _Gathered:
    """Changes while a tick lasts."""

    def __init__(self) -> None:
        self.points: set[str] = set()
        self.states: set[str] = set()
        self.new: set[str] = set()
        self.link = False
        self.problems: list[Problem] = []
        self.catalogue: Catalogue | None = None

    def done(self) -> Changes:
        return Changes(
            frozenset(self.points),
            frozenset(self.states),
            frozenset(self.new),
            self.link,
            tuple(self.problems),
            self.catalogue,
        )


class Session:
    """Runs of one target. All methods belong to one thread, none of them waits; ``close`` ends within seconds.

    ``runs`` holds a ``RunModel`` for every run that the mirrors or the agent know, by id, in the order of their numbers
    as they are found. Commands return at once; a refusal comes in ``Changes.problems`` of a later tick.
    """

    def __init__(self, places: Places, catalogue: Catalogue, target: Target | None = None) -> None:
        from clew_gui.remote.target import LocalTarget  # it imports this package

        self._places = places
        self._catalogue = catalogue
        self._target: Target = target if target is not None else LocalTarget(places)
        self._record = job_record(places)
        self._inbox = Inbox()
        forgotten = frozenset(self._record.forgotten | set(self._record.refused))
        self._link = Link(self._target, Fetcher(places.mirrors, self._inbox), self._inbox, forgotten, catalogue)
        self._half: tuple[Batch, int] | None = None
        self._started: set[str] = set()
        self.runs: dict[str, RunModel] = {}
        self.link = LinkStatus(LinkState.OFFLINE, time.time(), "not started")

    def start(self) -> None:
        """Begin to look for the agent, and to read the mirrors."""
        self._link.start()

    def call_on_news(self, bell: Callable[[], None]) -> None:
        """Call ``bell``, from the link's thread, when there is something for ``tick`` again."""
        self._inbox.bell = bell

    def close(self) -> None:
        """End the link. The agent and all runs go on."""
        self._link.close()

    # --- Commands -----------------------------------------------------------------------------------------------------

    def start_run(self, spec: RunSpec) -> str:
        """Ask for a run and return its id (a new UUID when ``spec.run`` is empty). Its model exists at once.

        Raises ``ProblemError`` with everything that can be seen to be wrong from here. What the agent finds comes later
        as a problem, and the run is FAILED with that reason.
        """
        card = find_card(self._catalogue.exercises, spec.exercise)
        raise_all(check(card.params, spec.params)[1])
        if not spec.run:
            spec = msgspec.structs.replace(spec, run=str(uuid.uuid4()))
        try:
            Mirror(self._places.mirrors / spec.run).keep_spec(spec, lasting=False)
            self._add(spec, lasting=False)
        except OSError as error:
            raise problem("session.disk", f"The run cannot be noted in {self._places.mirrors}: {error}.") from None
        self._started.add(spec.run)
        self._link.ask(StartRun(spec=spec))
        with suppress(OSError):  # a disk is waited for when the agent is at work already
            self._record.settle()
        return spec.run

    def pause(self, run: str) -> None:
        """Stop after the current block and wait."""
        self._link.ask(Pause(run=self._known(run)))

    def unpause(self, run: str) -> None:
        """Go on after a pause."""
        self._link.ask(Unpause(run=self._known(run)))

    def stop(self, run: str, now: bool = False) -> None:
        """End after the current block, with a checkpoint, or at once."""
        self._link.ask(Stop(run=self._known(run), now=now))

    def set_live(self, run: str, name: str, value: float) -> None:
        """Change a live hyperparameter from the next block on."""
        self._link.ask(SetLive(run=self._known(run), name=name, value=value))

    def continue_run(self, run: str) -> None:
        """Go on from the last checkpoint as a new attempt."""
        self._link.ask(ContinueRun(run=self._known(run)))

    def move_run(self, run: str, place: int) -> None:
        """Put a waiting run at a place of the agent's queue, 1 being the next."""
        self._link.ask(MoveRun(run=self._known(run), place=place))

    def forget(self, run: str) -> None:
        """Take a run out of the list for good and remove the mirror; the agent's own folder stays.

        Raises ``ProblemError`` for an unknown run and when the disk refuses.
        """
        self._known(run)
        try:
            self._record.forget(run, time.time())
        except OSError as error:
            raise problem("session.disk", f"The run cannot be taken out: {error}.") from None
        del self.runs[run]
        self._link.drop(run)

    def renew_agent(self) -> None:
        """End the agent and start another with the present settings; runs go on."""
        self._link.renew()

    def _known(self, run: str) -> str:
        if run not in self.runs:
            raise problem("run.unknown", f"There is no run {run!r}.")
        return run

    # --- What arrived -------------------------------------------------------------------------------------------------

    def tick(self, budget: float = 0.008) -> Changes:
        """Take in what arrived, for about ``budget`` seconds; the rest waits for the next tick."""
        deadline = time.perf_counter() + budget
        gathered = _Gathered()
        while time.perf_counter() < deadline:
            if self._half is not None:
                self._fold(*self._half, deadline, gathered)
                continue
            arrival = self._inbox.take()
            if arrival is None:
                break
            self._take(arrival, gathered)
        return gathered.done()

    def _take(self, arrival: Arrival, gathered: _Gathered) -> None:
        match arrival:
            case Batch() as batch:
                self._half = (batch, 0)
            case Found() as found:
                self._found(found, gathered)
            case Restarted() as restarted if restarted.run in self.runs:
                self.runs[restarted.run].restart()
                gathered.points.add(restarted.run)
            case Statuses() as statuses:
                self._statuses(statuses, gathered)
            case Cards() as cards:
                self._catalogue = gathered.catalogue = cards.catalogue
            case Told() as told:
                self._told(told, gathered)
            case LinkStatus() as status:
                self._link_changed(status, gathered)

    def _fold(self, batch: Batch, start: int, deadline: float, gathered: _Gathered) -> None:
        model = self.runs.get(batch.run)
        if model is None:  # forgotten meanwhile
            self._half = None
            return
        before = (model.state, model.reason)
        place = start
        while place < len(batch.items) and (place % _LOOK_AFTER or place == start or time.perf_counter() < deadline):
            place += 1
            self._feed(model.history, batch, place - 1)
        done = place == len(batch.items)
        self._half = None if done else (batch, place)
        if done:
            model.took(batch.attempt, batch.have, batch.size)
        gathered.points.add(batch.run)
        if before != (model.state, model.reason):
            gathered.states.add(batch.run)

    def _feed(self, history: History, batch: Batch, place: int) -> None:
        item = batch.items[place]
        if isinstance(item, Record):
            history.feed(batch.attempt, item.event, item.offset)
        else:
            history.note(batch.attempt, item)

    def _found(self, found: Found, gathered: _Gathered) -> None:
        if found.run in self.runs or found.run in self._record.forgotten:
            return
        try:
            self._add(found.spec).copied = found.size
        except OSError as error:
            gathered.problems.append(Problem("session.disk", f"A run cannot be noted: {error}."))
            return
        gathered.new.add(found.run)

    def _add(self, spec: RunSpec, lasting: bool = True) -> RunModel:
        number = self._record.number(spec.run, time.time(), lasting)
        model = RunModel(spec, number, self._places.mirrors / spec.run, self._target.name)
        self.runs[spec.run] = model
        return model

    def _statuses(self, statuses: Statuses, gathered: _Gathered) -> None:
        said = {status.run: status for status in statuses.runs}
        self._started -= said.keys()
        for run, model in self.runs.items():
            before = (model.state, model.reason, model.queue)
            model.status = said.get(run)
            model.never_arrived = model.status is None and run not in self._started
            if before != (model.state, model.reason, model.queue):
                gathered.states.add(run)

    def _told(self, told: Told, gathered: _Gathered) -> None:
        gathered.problems.append(told.problem)
        model = self.runs.get(told.refused)
        if model is None:
            return
        model.refused = told.problem.text
        self._started.discard(model.id)
        gathered.states.add(model.id)
        try:
            self._record.refuse(model.id, told.problem.text, time.time())
        except OSError as error:
            gathered.problems.append(Problem("session.disk", f"The refusal cannot be noted: {error}."))

    def _link_changed(self, status: LinkStatus, gathered: _Gathered) -> None:
        self.link = status
        gathered.link = True
        for run, model in self.runs.items():
            stale = status.state is not LinkState.LIVE
            if model.link_stale != stale:
                model.link_stale = stale
                gathered.states.add(run)
