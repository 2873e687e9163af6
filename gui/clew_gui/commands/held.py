"""What ``clew open``, ``shell`` and ``hold`` share: an allocation of a site, found or asked for, and its news."""

from __future__ import annotations

import argparse
import os
import queue
import shlex
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from clew_gui.commands.allocation_flags import given_allocation
from clew_gui.commands.shell import Shell, complain
from clew_gui.remote.allocation import build_allocation
from clew_gui.remote.held import held_line, live_job
from clew_gui.remote.jobs import JobNews, Order, Stage
from clew_gui.remote.prompts import headless_prompter
from clew_gui.remote.site_store import site_store
from clew_gui.remote.sites import Site, is_local
from clew_gui.session.desks import Desks, open_desks
from clew_shared.problem import problem

if TYPE_CHECKING:
    from clew_gui.remote.job_target import JobTarget

_POLL_S = 0.2
_LINE_EVERY_S = 60.0


class HeldNode:
    """One job with an allocation, followed. ``own``: this command asked for it, and lets it go at its end."""

    def __init__(self, desks: Desks, job: str, stops: Callable[[], int], order: Order | None = None) -> None:
        self.job = job
        self.own = order is not None
        self._desks = desks
        self._stops = stops
        self._heard: queue.SimpleQueue[JobNews] = queue.SimpleQueue()
        desks.listen = self._heard.put
        if order is not None:
            desks.submit(order)
        else:
            desks.follow(job)
        self.news = desks.book.news(job)

    @property
    def hint(self) -> str:
        """What becomes of the allocation afterwards."""
        return "The allocation is given back then." if self.own else "The allocation stays."

    @property
    def nodes(self) -> int:
        """How many nodes were asked for."""
        return self._desks.book.order(self.job).allocation.nodes

    def target(self) -> JobTarget:
        """The way to its agent."""
        target: JobTarget = self._desks.target(self.job)  # type: ignore[assignment]  # that of a real desk
        return target

    def is_over(self) -> bool:
        """Whether nothing more will come of it. From any thread."""
        return self._desks.book.news(self.job).over

    def wait(self, shell: Shell, *wanted: Stage) -> bool:
        """Until it is so far, with each new sentence told; False when it ended instead, or somebody wants to stop."""
        while not self._stops():
            if self.news.stage in wanted:
                return True
            if self.news.over:
                return False
            self.hear(shell)
        return False

    def hear(self, shell: Shell) -> bool:
        """Take in what is new, if anything comes soon."""
        try:
            news = self._heard.get(timeout=_POLL_S)
        except queue.Empty:
            return False
        if news.job != self.job:
            return False
        before, self.news = self.news, news
        if news.text and news.text != before.text:
            shell.note(news.text)
        if news.over and news.problem is not None:
            complain(shell, "clew", (news.problem,))
        return True

    def keep(self, shell: Shell) -> None:
        """Stay until it is over or somebody wants to stop, and tell each minute what it costs."""
        told = 0.0
        while not self._stops() and not self.news.over:
            if time.monotonic() - told >= _LINE_EVERY_S:
                told = time.monotonic()
                shell.note(held_line(self.news, self.nodes))
            self.hear(shell)

    def give_back(self, shell: Shell) -> None:
        """Let it go, and wait for the scheduler's word; a further Ctrl+C ends the waiting."""
        if self.news.over:
            return
        shell.note("The allocation is given back.")
        self._desks.let_go(self.job)
        before = self._stops()
        while self._stops() == before and not self.is_over():
            self.hear(shell)


@contextmanager
def reach_node(
    shell: Shell,
    site: str,
    stops: Callable[[], int],
    asking: argparse.Namespace | None = None,
    fresh: bool = False,
    hint: str = "",
) -> Iterator[HeldNode]:
    """The held or live allocation of ``site``; where there is none (or with ``fresh``) one is asked for with the flags
    ``asking``, and given back at the end. ``stops`` counts wishes to stop.

    Raises ``ProblemError``, also when there is none and none may be asked for; ``hint`` then says what else helps.
    """
    found = known_site(shell, site)
    allocation = build_allocation(found.allocation, given_allocation(asking) if asking is not None else {})
    desks = open_desks(shell.places, headless_prompter(os.environ))
    try:
        job = "" if fresh else live_job(desks.book, site)
        if not job and asking is None:
            text = f"No allocation of {found.title or site} is held, and no run is at work there."
            raise problem(
                "hold.none", text, f"Hold one with: clew hold --site {shlex.quote(site)} {hint}".strip(), "site"
            )
        order = None if job else Order(job=str(uuid.uuid4()), site=site, allocation=allocation, hold=True)
        node = HeldNode(desks, order.job if order is not None else job, stops, order)
        try:
            yield node
        finally:
            if node.own:
                node.give_back(shell)
    finally:
        desks.close()


def known_site(shell: Shell, name: str) -> Site:
    """The site of this name, which is not this computer. Raises ``ProblemError``."""
    found = site_store(shell.places).load(name)
    if is_local(found):
        raise problem("hold.local", f"{name} is this computer: there is nothing to hold.", "Start the program here.")
    return found
