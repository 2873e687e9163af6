"""``clew open jupyter --site NAME``: Jupyter runs on the allocation, the browser here. ``clew open tensorboard`` runs
on this computer, over its own runs and the copies of those on sites."""

from __future__ import annotations

import os
import queue
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.context import FAILED, OK, CommandContext, Parser, complain
from clew_gui.commands.has_display import has_display
from clew_gui.commands.jobs.hold import HeldNode, reach_node
from clew_gui.commands.sites.flags import add_allocation_flags, given_allocation
from clew_gui.jobs.job import JobStage
from clew_gui.jobs.job_book import job_book
from clew_gui.nodes.services import OpenedService, RedirectPage, ServiceNews, show_in_browser
from clew_gui.reports.tensorboard import EventFolder, serve_events
from clew_gui.sites.site import LOCAL
from clew_gui.sites.store import site_store
from clew_shared.base import operating_system

_POLL_S = 0.2
_EVERY_S = 2.0
"""Seconds between two looks at the journals for what is new."""
_ABOUT = """Open Jupyter on an allocation that is held or running, or TensorBoard on this computer, in the browser here.

The address holds a secret token and works on this computer only, until Ctrl+C. Jupyter starts in your home folder
there. TensorBoard shows all runs of which this computer has the journals, also those that are still training."""
_OR = "   Or add --hold to take one until Ctrl+C."


def open(context: CommandContext, argv: Sequence[str]) -> int:  # noqa: A001  # the command's name
    """``clew open KIND --site NAME [--no-browser] [--hold]``: returns the exit status."""
    parser = Parser("clew open", _ABOUT)
    parser.add_argument("kind", choices=("jupyter", "tensorboard"), metavar="jupyter|tensorboard")
    parser.add_argument("--site", metavar="NAME", help="which site; `clew site list` shows them")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--hold", action="store_true", help="if none is held, take an allocation until Ctrl+C")
    add_allocation_flags(parser, "for --hold, instead of the site's own")
    options = parser.parse_args(list(argv))
    browse = not options.no_browser and has_display(os.environ, operating_system.NAME)  # a text browser would take it
    if options.kind == "tensorboard":
        if options.hold or given_allocation(options):
            parser.error("An allocation is for Jupyter: TensorBoard runs on this computer")
        return _show_runs(context, options.site, browse)
    if not options.site:
        parser.error("--site is missing: on which site?")
    asking = options if options.hold else None
    with stop_requests() as stops, reach_node(context, options.site, stops, asking, hint=_OR) as node:
        if not node.wait(context, JobStage.RUNNING):
            return OK if stops() else FAILED
        return _serve(context, node, browse, stops)


def _show_runs(context: CommandContext, site: str | None, browse: bool) -> int:
    places = context.places
    book = job_book(places)
    if site:
        site_store(places).load(site)  # or there is no such site

    @cache
    def is_wanted(run: str) -> bool:
        job = book.job_of(run)
        return site in (None, book.order(job).site if job else LOCAL)

    with (
        tempfile.TemporaryDirectory(prefix="clew-tensorboard-", ignore_cleanup_errors=True) as events,
        stop_requests() as stops,
    ):
        folder = EventFolder((places.runs, places.mirrors), Path(events), is_wanted)
        folder.update(stops)  # TensorBoard's first look finds what there is
        url = serve_events(Path(events))
        context.say(url)
        context.note("Open it in the browser of this computer; it works nowhere else. Ctrl+C closes it.")
        page = show_in_browser(url, places.private) if browse else None
        try:
            while not stops():
                time.sleep(_EVERY_S)
                folder.update(stops)
        finally:
            if page is not None:
                page.close()
    return OK


def _serve(context: CommandContext, node: HeldNode, browse: bool, stops: Callable[[], int]) -> int:
    heard: queue.SimpleQueue[ServiceNews] = queue.SimpleQueue()
    opened = OpenedService(node.target(), lambda: node.news.over, heard.put)
    page: RedirectPage | None = None
    try:
        while not stops():
            try:
                news = heard.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            context.note(news.text)
            if news.url:
                context.say(news.url)
                context.note(
                    f"Open it in the browser of this computer; it works nowhere else. {node.hint} Ctrl+C closes it."
                )
                if browse and page is None:
                    page = show_in_browser(news.url, context.places.private)
            if news.over:
                if news.problem is not None:
                    complain(context, "clew open", (news.problem,))
                return FAILED
        return OK
    finally:
        opened.close()
        if page is not None:
            page.close()
