"""The whole examination: of this computer, or of a site: the way there first, then all that can be known from there."""

from __future__ import annotations

import threading
from collections.abc import Generator

from clew_gui.doctor.checks import CHECKS, HERE
from clew_gui.doctor.context import Diagnosis
from clew_gui.doctor.finding import Finding
from clew_gui.doctor.login import check_route
from clew_gui.doctor.runner import follow
from clew_gui.doctor.this_computer import ThisComputer
from clew_gui.sites.site import Site, is_local
from clew_gui.ssh.prompts import Prompter
from clew_shared.base.places import Places


def examine(
    name: str,
    site: Site,
    places: Places,
    prompter: Prompter,
    want_job: bool = False,
    stop: threading.Event | None = None,
) -> Generator[Finding, None, None]:
    """Examine the site ``name``, one finding after another; ``prompter`` is asked what the login asks.

    Waits for the network: call it from a worker thread, and close the iterator, or set ``stop`` from any thread, to
    end it. It first waits for the command on its way: mostly a moment, or as long as that moves. ``want_job`` sends a
    tiny job, which shows what a node has. Every refusal is a finding; nothing is raised but what the prompter raises.
    """
    stop = stop or threading.Event()
    if is_local(site):
        yield from follow(ThisComputer(name, places, stop), HERE, want_job)
        return
    diagnosis = Diagnosis(name, site, places, prompter, stop)
    try:
        yield from check_route(diagnosis)
        yield from follow(diagnosis, CHECKS, want_job)
    finally:
        diagnosis.close()
