"""The link's states. They belong to the viewer and say nothing of any run."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class LinkState(StrEnum):
    """OFFLINE: nobody to talk to. STALE: silent for a while, nothing torn down. REFUSED: it does not let us in."""

    OFFLINE = "OFFLINE"
    CONNECTING = "CONNECTING"
    LIVE = "LIVE"
    STALE = "STALE"
    REFUSED = "REFUSED"


SILENT = "silent"
AGENT_ENDED = "the agent has ended"
"""The words of a link that has not heard its agent for a while, and of one whose agent is there no more."""


class LinkStatus(msgspec.Struct, frozen=True):
    """The state, since when (wall-clock seconds since 1970; for STALE, when it last spoke), and the state in words.

    ``datasets`` names the data sets that the agent found on its machine; empty while that is not known. ``link`` is the
    job to whose agent the link is; empty for this computer's.
    """

    state: LinkState
    since: float
    text: str
    datasets: tuple[str, ...] = ()
    link: str = ""
