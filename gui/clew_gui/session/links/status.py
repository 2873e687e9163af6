"""The states of a link."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class LinkState(StrEnum):
    """The states of a link. OFFLINE: nobody to talk to. STALE: silent for a while, nothing torn down. REFUSED: it does
    not let us in. RECORDED: there are recorded runs only, and no agent is missing."""

    OFFLINE = "OFFLINE"
    CONNECTING = "CONNECTING"
    LIVE = "LIVE"
    STALE = "STALE"
    REFUSED = "REFUSED"
    RECORDED = "RECORDED"


SILENT = "silent"
AGENT_ENDED = "the agent has ended"
"""The words of a link that has not heard its agent for a while, and of one whose agent is gone."""


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
