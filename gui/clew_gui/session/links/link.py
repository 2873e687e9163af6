"""The link: one thread that finds or starts an agent, keeps talking to it, and never lets the caller wait.

There is one for this computer's agent and one for each job's. A job's agent is not started from here: the link waits
for it, and reads journals by files where there is a way to them and no agent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import zmq

from clew_gui.session.links.conversation import VERSION_CODES, Command, Conversation, OutgoingCommands, Parts
from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import AGENT_ENDED, SILENT, Inbox, LinkState, LinkStatus, Released, RequestFailed
from clew_gui.targets.target import Target
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.wakeup import WakeupPipe
from clew_shared.cards import Catalogue
from clew_shared.wire.channel import Channel, Greeting, KeyPair
from clew_shared.wire.messages import AgentAddress

_log = logging.getLogger(__name__)

STALE_AFTER_S = 15.0
"""Seconds of silence, of which a person is told. An agent answers at least every five."""
_GREET_WITHIN_S = 5.0
"""The seconds after which an address whose agent does not answer is assumed to belong to another program by now."""
_GREET_JOB_WITHIN_S = 35.0
"""The same for a job's agent: its route may be a program that the scheduler starts on its node first."""
_START_WITHIN_S = 30.0
"""The seconds that the agent may take to start: Python on a cold, slow disk; then the person sees a problem, and it is
tried again."""
_LOOK_EVERY_S = 0.02
"""The seconds between two looks for the agent's address file while it starts."""
_MADE_ROOM_S = 0.01
_ALIVE_EVERY_S = 0.5
"""Seconds between two looks whether the process of a silent agent lives."""
_TURN_S = 0.25
"""Longest wait for a message, so that a request to close is seen soon."""
_JOIN_S = 5.0
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""The seconds between two failed attempts."""
_ONCE = (*VERSION_CODES, "channel.reply", "request.unknown")


class Link:
    """Owns the socket, the mirrors of its runs and the thread. Everything it learns goes into ``inbox``.

    Without ``job`` it is this computer's: all mirrors but those of ``others`` are its own, and so is what the agent
    lists; without ``all_runs`` those alone that are started through it. With the UUID of a ``job`` it has the runs that
    it is given by ``adopt``, and no others.
    """

    def __init__(
        self,
        target: Target,
        fetcher: Fetcher,
        inbox: Inbox,
        others: frozenset[str] = frozenset(),
        catalogue: Catalogue | None = None,
        job: str = "",
        all_runs: bool = True,
    ) -> None:
        self.job = job
        self._all_runs = all_runs and not job
        self.commands = OutgoingCommands()
        self._target = target
        self._fetcher = fetcher
        self._inbox = inbox
        self._others = set(others)
        self._catalogue = catalogue
        self._tasks: deque[Callable[[], None]] = deque()
        self._renewing = False
        self._hurried = False
        self._over = False
        self._wakeup = WakeupPipe()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="clew-link", daemon=True)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._keys = KeyPair.generate()
        self._name = f"viewer-{self._keys.public.encode().hex()[:16]}"
        self._state, self._state_text = LinkState.OFFLINE, ""
        self._talk: Conversation | None = None
        self._dead: set[tuple[str, int]] = set()
        self._failures = 0
        self._not_before = 0.0
        self._starting_until = self._files_not_before = 0.0
        self._reported = ""
        self._reported_once: set[str] = set()
        self._looked = 0.0
        self._datasets: tuple[str, ...] = ()

    # --- For the caller's thread --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the link's thread."""
        self._thread.start()

    def ask(self, command: Command) -> None:
        """Send a command as soon as there is a link."""
        self.commands.put(command)
        self.look()

    def renew(self) -> None:
        """Ask the agent to end, once; another is started as if it had ended by itself."""
        self._hurried = True
        self._do(self._renew)

    def adopt(self, run: str) -> None:
        """Takes over the run from now on; what is here of it is read first."""
        self._do(lambda: self._adopt(run))

    def release(self, run: str) -> None:
        """The run is another link's, which may take it up as soon as ``Released`` is in the inbox."""
        if self._thread.ident is None:
            self._release(run)
        else:
            self._do(lambda: self._release(run))

    def prefer(self, exercises: Sequence[str]) -> None:
        """Reads what is here of the runs of these exercises before those of others."""
        self._do(lambda: self._fetcher.prefer(exercises))

    def drop(self, run: str) -> None:
        """Forget a run and remove its mirror."""
        self._do(lambda: self._drop(run))

    def finish(self) -> None:
        """Ends following a job that is over: what it left is fetched by files, and each of its runs is reported as
        ``Settled``."""
        self._do(self._finish)

    def look(self) -> None:
        """Looks now, because something changed there, instead of waiting out the pause."""
        self._hurried = True
        self._wakeup.wake()

    def leave(self) -> None:
        """Begin to end; ``close`` will wait for it."""
        self._closing.set()
        self._wakeup.wake()

    def close(self) -> None:
        """End the thread and the connection; agent and runs go on. Waits a few seconds at most."""
        self.leave()
        if self._thread.ident is None:
            self._run_tasks()
            self._target.close()
            self._context.term()
        else:
            self._thread.join(_JOIN_S)
        self._wakeup.close()

    def _do(self, task: Callable[[], None]) -> None:
        self._tasks.append(task)
        self._wakeup.wake()

    # --- The thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._target.authorize(self._name, self._keys.public)
            if self._all_runs:
                self._fetcher.find_mirrors(frozenset(self._others))
            while not self._closing.is_set():
                self._guarded_turn()
            self._run_tasks()
        finally:
            self._disconnect()
            self._target.close()
            self._context.term()  # bounded by the channel's linger

    def _guarded_turn(self) -> None:
        try:
            self.turn()
        except Exception as error:  # noqa: BLE001  # the thread's border: a link that fails is made again, the window lives on
            _log.exception("The connection failed; Clew makes a new one.")
            self.report(Problem("link.internal", f"The connection failed: {error}.", "Clew makes a new one by itself."))
            self._fail(LinkState.OFFLINE, "failed")

    def turn(self) -> None:
        """Connect, send, receive or read files, whatever is next; waits a moment at most."""
        self._run_tasks()
        busy = self._fetcher.replay()
        if self._talk is None:
            if self._hurried:
                self._not_before = 0.0  # a person waits: an agent that was away may be back
            self._hurried = False
            self._connect()
        if self._talk is not None:
            self._go_on(self._talk)
        else:
            busy |= self._read_files()
        self._wait(0.0 if busy else _TURN_S)

    def _run_tasks(self) -> None:
        while self._tasks:
            self._tasks.popleft()()

    def _renew(self) -> None:
        self._renewing = True  # by this thread alone: what two write, one may overlook

    def _adopt(self, run: str) -> None:
        self._fetcher.find(run)
        self._fetcher.expect(run)

    def _release(self, run: str) -> None:
        self._others.add(run)
        self._fetcher.release(run)
        self._inbox.put(Released(run))

    def _drop(self, run: str) -> None:
        self._others.add(run)
        self._fetcher.drop(run)

    def _finish(self) -> None:
        if not self._over:
            self._over = True
            self._disconnect()
            self._not_before = 0.0

    def _wait(self, longest: float) -> None:
        """Waits until there is something to do."""
        poller = zmq.Poller()
        poller.register(self._wakeup.socket, zmq.POLLIN)
        if self._talk is not None:
            poller.register(self._talk.socket, zmq.POLLIN)
        else:
            longest = min(longest, max(0.0, self._not_before - time.monotonic()))
        if self._inbox.full:
            longest = min(longest, _MADE_ROOM_S)  # the caller makes room without a word
        poller.poll(round(longest * 1000))
        self._wakeup.clear()

    # --- Connecting ---------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        now = time.monotonic()
        if now < self._not_before:
            return
        self._not_before = now + _LOOK_EVERY_S
        try:
            address = self._target.find() if not self._over else None
            if (
                address is None
                or (address.agent, address.generation) in self._dead
                or not self._target.authorize(self._name, self._keys.public)
            ):
                self._nobody(now)
                return
        except (ProblemError, OSError) as error:
            self.report(_as_problem(error))
            self._starting_until = 0.0
            self._fail(LinkState.OFFLINE, _as_problem(error).text.splitlines()[0])
            return
        self._starting_until = 0.0
        self._open(address)

    def _nobody(self, now: float) -> None:
        """Waits for an agent; the target starts one if that can be done from here."""
        self._enter(LinkState.OFFLINE if self._over else LinkState.CONNECTING, self._target.while_absent())
        if self.job:
            self._not_before = now + _TURN_S
            return
        self._starting_until = self._starting_until or now + _START_WITHIN_S
        if now > self._starting_until:
            text = f"The agent did not start within {_START_WITHIN_S:.0f} s."
            raise ProblemError(Problem("agent.slow", text, "Clew tries again; the agent's log may say why."))

    def _read_files(self) -> bool:
        """Whether there is more to read at once."""
        files = self._target.files(self._over)
        if files is None or time.monotonic() < self._files_not_before:
            return False
        try:
            return self._fetcher.fetch_files(files, self._over)
        except ProblemError as error:
            self._files_not_before = time.monotonic() + _PAUSES_S[-1]
            self.report(error.problems[0])
            return False

    def _open(self, address: AgentAddress) -> None:
        if self._state is not LinkState.REFUSED:
            self._enter(LinkState.CONNECTING, "connecting")
        self._fetcher.fetch_from_agent()
        parts = Parts(self._fetcher, self.commands, self._inbox, self._target, self._is_mine, self.report)
        channel = Channel(self._context, address.address, address.port, address.public_key, self._keys)
        self._talk = Conversation(channel, address, parts, self._catalogue, self.job)

    def _go_on(self, talk: Conversation) -> None:
        if talk.receive():
            self._failures, self._reported = 0, ""
        self._catalogue, self._datasets = talk.catalogue, talk.datasets or self._datasets
        if talk.welcome and talk.news:
            talk.news = False
            self._enter(LinkState.LIVE, "live")
        if self._check(talk) and talk.welcome:
            renewing, self._renewing = self._renewing, False
            talk.send(renewing)

    def _disconnect(self) -> None:
        if self._talk is not None:
            self._talk.close()
        self._talk = None

    def _fail(self, state: LinkState, text: str) -> None:
        """End the connection, show why, and try again after a pause that grows."""
        self._disconnect()
        pause = _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
        self._failures += 1
        self._not_before = time.monotonic() + pause
        self._enter(state, text)

    # --- Talking ------------------------------------------------------------------------------------------------------

    def _check(self, talk: Conversation) -> bool:
        """Whether the connection may be used. A silent agent is stale, nothing is torn down unless it has ended."""
        now = time.monotonic()
        address = talk.address
        if talk.greeting is Greeting.REFUSED:
            self._fail(LinkState.REFUSED, "the agent does not accept this window's key")
            return False
        if not talk.welcome and now - talk.connected > (_GREET_JOB_WITHIN_S if self.job else _GREET_WITHIN_S):
            if not self.job:  # behind a tunnel it may as well be the network that is silent
                self._dead.add((address.agent, address.generation))
            self._fail(LinkState.CONNECTING, "no agent answers at its address")
            return False
        suspect = talk.greeting is not Greeting.ACCEPTED or now - talk.heard > STALE_AFTER_S
        if suspect and now - self._looked > _ALIVE_EVERY_S:
            self._looked = now
            if not self._target.is_alive(address):
                self._fail(LinkState.CONNECTING, AGENT_ENDED)
                return False
        if talk.welcome and now - talk.heard > STALE_AFTER_S:
            self._enter(LinkState.STALE, SILENT, talk.heard_wall)
        return True

    def _is_mine(self, run: str) -> bool:
        """An agent lists all runs of its home, also those of other jobs and those that were taken out here."""
        return run not in self._others if self._all_runs else self._fetcher.knows(run)

    # --- Telling ------------------------------------------------------------------------------------------------------

    def _enter(self, state: LinkState, text: str, since: float = 0.0) -> None:
        if state is not self._state or (state is not LinkState.LIVE and text != self._state_text):
            self._state, self._state_text = state, text
            self._inbox.put(LinkStatus(state, since or time.time(), text, self._datasets, self.job))

    def report(self, problem: Problem) -> None:
        """A lasting problem is reported once, until the agent answers again; another version only once."""
        if problem.code in _ONCE:
            if problem.text not in self._reported_once:
                self._reported_once.add(problem.text)
                self._inbox.put(RequestFailed(problem))
        elif problem.code != self._reported:
            self._reported = problem.code
            self._inbox.put(RequestFailed(problem))


def _as_problem(error: ProblemError | OSError) -> Problem:
    if isinstance(error, ProblemError):
        return error.problems[0]
    return Problem("link.key", f"The key for the agent cannot be written: {error}.", "Make room on the disk.")
