"""The agent on a site: installed when it is not there, and what starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from clew_gui.remote.site_line import SiteLine
from clew_shared.problem import problem


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be started on a site.

    ``command`` begins its command line: ``(".../python", "-m", "clew_agent")``; what it is to do follows.
    ``environment`` must be set for it, after the site's modules and prologue. ``python`` and ``tensorflow`` are
    versions, "?" where the site does not tell.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    python: str
    tensorflow: str


def ensure_agent(line: SiteLine, tell: Callable[[str], None]) -> Installed:
    """The agent of this very version on the site, brought there if need be. Raises ``ProblemError``."""
    raise problem("bootstrap.missing", "Installing the agent is not built yet.")
