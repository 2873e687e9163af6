"""The interface of places for runs. A target finds, starts and authorizes at an agent: this computer's here, a job's in
``jobs.agent_route``."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from clew_gui.base.kept_spec import kept_spec
from clew_gui.targets.local_agent import agent_command, find_agent, is_alive, last_lines, start_agent
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError, problem
from clew_shared.spec import RunSpec
from clew_shared.wire.channel import allow
from clew_shared.wire.messages import AgentAddress, Fetch, Fetched

_AGAIN_S = 0.5
_ENDING = 10
"""So many agents that are started end at once while the one before them takes its time to end: five seconds."""


class JournalFiles(Protocol):
    """Runs' files where no agent serves any more, or none can be reached."""

    def fetch(self, wanted: Sequence[Fetch]) -> list[Fetched | ProblemError | None]:
        """Bytes of journals, as an agent would give them; ``sealed`` where the file will not grow any more. None for a
        journal that is not there, and the reason for one that cannot be read. Waits for the network; raises
        ``ProblemError`` when the machine cannot be reached."""


class Target(Protocol):
    """A place for runs. All calls return soon but ``read_spec``; they are made from the link's thread."""

    @property
    def name(self) -> str:
        """The target's name for people, such as "This computer"."""

    def find(self) -> AgentAddress | None:
        """Returns where its agent listens; None if none serves."""

    def while_absent(self) -> str:
        """Starts an agent if that can be done from here, and says what is awaited, as a sentence or its end ("Waits in
        the queue: …"). Called after ``find`` found none. Raises ``ProblemError`` when starting is in vain."""

    def is_alive(self, address: AgentAddress) -> bool:
        """Whether that agent still runs, as far as can be seen from here."""

    def authorize(self, name: str, public_key: str) -> bool:
        """Has the agent let the viewer with this key in. Returns whether it does by now: the key may take its time to
        get there, so give it early. Raises ``OSError`` or ``ProblemError`` if it cannot be written."""

    def read_spec(self, run: str) -> RunSpec | None:
        """The spec of a run that someone else started there."""

    def files(self, over: bool) -> JournalFiles | None:
        """Journals without an agent; None if there are none, or not yet. ``over``: no agent will be there any more, and
        there is something to fetch."""

    def close(self) -> None:
        """Close the connection; agent and runs stay."""


class LocalTarget:
    """This computer: the agent is a program of its own that outlives the window. ``command`` replaces it in tests."""

    name = "This computer"

    def __init__(self, places: Places, command: Sequence[str] | None = None) -> None:
        self._places = places
        self._log = f"The log is in {places.agents}."
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._allow_list: Path | None = None
        """That of the agent which was found last."""
        self._key: Path | None = None
        self._has_served = False
        """An agent came up since one was started here; what ends that later is no failed start, and another follows."""
        self._in_the_way = 0
        """How many agents in a row ended because another one has the home's lock."""
        self._not_before = 0.0

    def find(self) -> AgentAddress | None:
        """The agent of this home on this computer."""
        self._reap()
        found = find_agent(self._places)
        if found is not None:
            self._in_the_way = 0
            self._has_served = self._process is not None
            self._allow_list = Path(found.allow_list)
        return found

    def while_absent(self) -> str:
        """Starts one, unless one that was started is still coming up. Says how that ended if it did so before it
        served; status 0 is one that found another serving already.

        That one may be about to end, but one that cannot be found again and again is in the way.
        """
        if code := self._reap():
            self._process = None
            text = f"This computer's agent ended with exit code {code}:\n{last_lines(self._places)}"
            raise problem("agent.ended", text, self._log)
        if self._in_the_way > _ENDING:
            self._in_the_way = 0
            text = f"No agent can start: one that does not answer is there.\n{last_lines(self._places, 1)}"
            raise problem("agent.locked", text, self._log)
        if self._process is None and time.monotonic() >= self._not_before:
            command = list(self._command) if self._command is not None else agent_command(self._places)
            self._process, self._has_served = start_agent(self._places, command), False
            self._not_before = time.monotonic() + _AGAIN_S
        return "starting the agent"

    def is_alive(self, address: AgentAddress) -> bool:
        """Whether its process runs."""
        self._reap()
        return is_alive(address)

    def authorize(self, name: str, public_key: str) -> bool:
        """Writes the key into the agent's allow-list."""
        if self._allow_list is not None:
            self._key = allow(self._allow_list, name, public_key)
        return self._key is not None

    def read_spec(self, run: str) -> RunSpec | None:
        """Reads the spec from the run's own folder."""
        return kept_spec(self._places.runs / run)

    def files(self, over: bool) -> JournalFiles | None:
        """Returns None: the agent that is started finds all runs."""
        return None

    def close(self) -> None:
        """Leave the agent to itself, without the key that nobody uses any more."""
        if self._key is not None:
            with suppress(OSError):
                self._key.unlink()
            self._key = None
        self._reap()
        if self._process is not None:
            self._process.returncode = 0  # it outlives this program on purpose; no ResourceWarning for it
            self._process = None

    def _reap(self) -> int:
        """Forget the process if it has ended, unless it failed to start: the exit code then, otherwise 0."""
        code = self._process.poll() if self._process is not None else None
        if code and not self._has_served:
            return code
        if code is not None:
            self._process = None
            self._in_the_way += not self._has_served
        return 0
