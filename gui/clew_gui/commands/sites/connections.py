"""Connections to sites for commands that read or write files there: each site is dialled once."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing

from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce, headless_prompter
from clew_shared.base.places import Places


def site_connections(places: Places, stack: ExitStack) -> Callable[[str], SiteConnection]:
    """Returns what gives the connection to a site by its name until ``stack`` ends. It may raise ``ProblemError``."""
    opened: dict[str, SiteConnection] = {}
    asker = AskOnce(headless_prompter(os.environ))

    def connect(name: str) -> SiteConnection:
        if name not in opened:
            site = site_store(places).load(name)
            opened[name] = stack.enter_context(closing(open_connection(name, site, places, asker)))
        return opened[name]

    return connect
