"""``clew hold`` and ``clew let-go``; for ``open`` and ``shell`` an allocation of a site, found or asked for."""

from __future__ import annotations

import argparse
import os
import shlex
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.context import FAILED, OK, CommandContext, Parser, complain
from clew_gui.commands.sites.flags import add_allocation_flags, given_allocation
from clew_gui.jobs.agent_route import AgentRoute
from clew_gui.jobs.held import held_jobs, held_line, live_job
from clew_gui.jobs.job import STAGE_WORDS, EndRequest, JobOrder, JobStage, JobStatus
from clew_gui.jobs.manager import ASK_S, JobManager, open_manager
from clew_gui.schedulers.allocation import build_allocation, summary
from clew_gui.sites.site import Site, is_local
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import headless_prompter
from clew_shared.base.problem import problem

_POLL_S = 0.2
_LINE_EVERY_S = 60.0


class HeldNode:
    """Follows one job with an allocation. ``own``: this command asked for it, and gives it back at its end."""

    def __init__(self, manager: JobManager, job: str, stops: Callable[[], int], own: bool = False) -> None:
        self.job, self.own = job, own
        self._manager, self._stops = manager, stops
        self._said = self.news

    @property
    def news(self) -> JobStatus:
        """What is known of it."""
        return self._manager.book.news(self.job)

    @property
    def hint(self) -> str:
        """Says what happens to the allocation afterwards."""
        return "The allocation is given back then." if self.own else "The allocation stays."

    def target(self) -> AgentRoute:
        """The connection to its agent."""
        return self._manager.target(self.job)

    def wait(self, context: CommandContext, *wanted: JobStage) -> bool:
        """Wait until it is there, printing each new sentence; False when it ended instead, or someone wants to stop."""
        while not self._stops():
            if self.news.stage in wanted:
                return True
            if self.news.over:
                return False
            self.hear(context)
        return False

    def hear(self, context: CommandContext) -> None:
        """Wait a moment, and say what is new."""
        time.sleep(_POLL_S)
        before, self._said = self._said, self.news
        if self._said.text and self._said.text != before.text:
            context.note(self._said.text)
        if self._said != before and self._said.over and self._said.problem is not None:
            complain(context, "clew", (self._said.problem,))

    def keep(self, context: CommandContext) -> None:
        """Stay until it is over or someone wants to stop, and print each minute what it costs."""
        nodes, shown_at = self._manager.book.order(self.job).allocation.nodes, 0.0
        while not self._stops() and not self.news.over:
            if time.monotonic() - shown_at >= _LINE_EVERY_S:
                shown_at = time.monotonic()
                context.note(held_line(self.news, nodes))
            self.hear(context)

    def give_back(self, context: CommandContext) -> None:
        """Let it go, and wait for the scheduler's word; a further Ctrl+C ends the waiting."""
        if self.news.over:
            return
        context.note("The allocation is given back.")
        self._manager.end(self.job, EndRequest.LET_GO)
        before = self._stops()
        while self._stops() == before and not self.news.over:
            self.hear(context)


@contextmanager
def reach_node(
    context: CommandContext,
    site: str,
    stops: Callable[[], int],
    asking: argparse.Namespace | None = None,
    fresh: bool = False,
    hint: str = "",
) -> Iterator[HeldNode]:
    """The held or live allocation of ``site``; where there is none (or with ``fresh``) one is asked for with the flags
    ``asking``, and given back at the end. ``stops`` counts requests to stop.

    Raises ``ProblemError``, also when there is none and none may be asked for; ``hint`` then says what else helps.
    """
    found = known_site(context, site)
    allocation = build_allocation(found.allocation, given_allocation(asking) if asking is not None else {})
    with closing(open_manager(context.places, headless_prompter(os.environ))) as manager:
        job = "" if fresh else live_job(manager.book, site)
        if not job and asking is None:
            text = f"No allocation of {found.title or site} is held, and no run is training there."
            raise problem(
                "hold.none", text, f"Hold one with: clew hold --site {shlex.quote(site)} {hint}".strip(), "site"
            )
        own, job = not job, job or str(uuid.uuid4())
        if own:
            manager.submit(JobOrder(job=job, site=site, allocation=allocation, hold=True))
        else:
            manager.follow(job)
        node = HeldNode(manager, job, stops, own)
        try:
            yield node
        finally:
            if node.own:
                node.give_back(context)


def known_site(context: CommandContext, name: str) -> Site:
    """The site of this name, which is not this computer. Raises ``ProblemError``."""
    found = site_store(context.places).load(name)
    if is_local(found):
        raise problem("hold.local", f"{name} is this computer: there is nothing to hold.", "Start the program here.")
    return found


# --- Hold -------------------------------------------------------------------------------------------------------------
# ``clew hold`` keeps an allocation for many runs, ``clew let-go`` gives it back.


_SENT = (JobStage.QUEUED, JobStage.RUNNING)
_ABOUT = """Keep an allocation for many runs, for `clew shell` and for `clew open`. It costs its nodes' time from its
start to its end, whether something runs on it or not: Ctrl+C gives it back, or `clew let-go`."""


def hold(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew hold --site NAME [--detach]``: returns the exit status."""
    parser = Parser("clew hold", _ABOUT)
    parser.add_argument("--site", metavar="NAME", required=True, help="which site; `clew site list` shows them")
    parser.add_argument("--detach", action="store_true", help="return when the job waits in the queue; it is kept")
    add_allocation_flags(parser, "instead of the site's own")
    options = parser.parse_args(list(argv))
    with stop_requests() as stops, reach_node(context, options.site, stops, options, fresh=True) as node:
        if not node.wait(context, *(_SENT if options.detach else (JobStage.RUNNING,))):
            return FAILED
        if options.detach:
            node.own = False
            context.say(node.job)
            context.note(f"It is kept. `clew let-go --site {options.site}` gives it back.")
            return OK
        use = f"clew run, clew shell and clew open with --site {options.site}"
        context.note(f"In other terminals {use} use it. Ctrl+C gives it back.")
        node.keep(context)
        return OK


def held_state(news: JobStatus, order: JobOrder) -> str:
    """The state of an allocation that is held, by the latest news: until when, in which queue, or how it ended."""
    if news.over:
        return f"It is over. {news.text}".rstrip()
    state = held_line(news, order.allocation.nodes) if news.stage is JobStage.RUNNING else f"{STAGE_WORDS[news.stage]}."
    return f"{state} This is the last known state: {news.problem.text}" if news.problem is not None else state


def let_go(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew let-go [--site NAME] [--list]``: returns the exit status."""
    parser = Parser("clew let-go", "Give back the allocations that are held.")
    parser.add_argument("--site", metavar="NAME", default="", help="only those of one site")
    parser.add_argument("--list", action="store_true", help="only list them, as their schedulers see them now")
    options = parser.parse_args(list(argv))
    manager = open_manager(context.places, headless_prompter(os.environ))
    with closing(manager), stop_requests() as stops:
        jobs = held_jobs(manager.book, options.site)
        if options.list:
            manager.ask_now(jobs, ASK_S)
        if not jobs:
            raise problem("hold.none", "No allocation is held.", "`clew hold --site NAME` takes one.", "site")
        for job in jobs:
            order, news = manager.book.order(job), manager.book.news(job)
            context.say(f"{manager.book.title(job)}: {summary(order.allocation)}. {held_state(news, order)}")
            if options.list:
                continue
            manager.follow(job)
            HeldNode(manager, job, stops).give_back(context)
        return OK
