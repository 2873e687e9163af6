"""Connections to sites for commands that read or write files there: each site is dialled once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache

from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce, headless_prompter
from clew_shared.base.places import Places


@contextmanager
def site_connections(places: Places) -> Iterator[Callable[[str], SiteConnection]]:
    """Gives what connects to a site by its name, and closes all at the end. It may raise ``ProblemError``."""
    asker = AskOnce(headless_prompter(os.environ))
    with ExitStack() as stack:

        @cache
        def connect(name: str) -> SiteConnection:
            return stack.enter_context(closing(open_connection(name, site_store(places).load(name), places, asker)))

        yield connect
