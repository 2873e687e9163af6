"""The way to one job's agent for a session's link: address, key and tunnel are kept by a thread of their own."""

from __future__ import annotations

from clew_gui.remote.target import JournalFiles
from clew_shared.messages import AgentAddress
from clew_shared.spec import RunSpec


class JobTarget:
    """A ``Target``; made by ``SiteDesk.target``. No call waits for the network, but those of ``files()`` do.

    ``name`` is such as "node1 of minicluster". ``route`` is the way that is used, in words for the status line; empty
    while there is none.
    """

    name: str
    route: str

    def introduce(self, name: str, public_key: str) -> None:
        """The viewer's key, as early as it is known, so that it lies on the node before ``admit`` is called."""
        raise NotImplementedError

    def find(self) -> AgentAddress | None:
        """The agent with the tunnel's end on this computer as its address; None while it cannot be reached."""
        raise NotImplementedError

    def start(self) -> None:
        """Nothing: the job's own keeper starts it."""

    def check_start(self) -> None:
        """Nothing."""

    def is_alive(self, address: AgentAddress) -> bool:
        """Whether that agent still serves, as far as is known: the job is not over, and no other took its place."""
        raise NotImplementedError

    def admit(self, address: AgentAddress, name: str, public_key: str) -> None:
        """The key is on its way to the allow-list, or there. Raises ``ProblemError`` (``link.key_pending``) while it is
        on its way."""
        raise NotImplementedError

    def read_spec(self, run: str) -> RunSpec | None:
        """The spec of a run, from what was asked for here or fetched before."""
        raise NotImplementedError

    def absent(self) -> str:
        """Why nobody serves: what the job waits for, that it is over, that there is no network."""
        raise NotImplementedError

    def files(self) -> JournalFiles | None:
        """Journals by files: when the job is over, or no way leads to its agent."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go; agent and runs stay."""
        raise NotImplementedError
