"""``clew open jupyter|tensorboard --site NAME``: the program runs on the allocation, the browser here."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Sequence

from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.context import FAILED, OK, CommandContext, Parser, complain
from clew_gui.commands.has_display import has_display
from clew_gui.commands.jobs.hold import HeldNode, reach_node
from clew_gui.commands.sites.flags import add_allocation_flags
from clew_gui.jobs.job import JobStage
from clew_gui.nodes.services import KINDS, OpenedService, RedirectPage, ServiceNews, show_in_browser
from clew_shared.base import operating_system

_POLL_S = 0.2
_ABOUT = """Open Jupyter or TensorBoard on an allocation that is held or running, and show it in the browser here.

The address holds a secret token and works on this computer only, until Ctrl+C. Jupyter starts in your home folder
there; TensorBoard shows all runs of the site, also those that are still training."""
_OR = "   Or add --hold to take one until Ctrl+C."


def open(context: CommandContext, argv: Sequence[str]) -> int:  # noqa: A001  # the command's name
    """``clew open KIND --site NAME [--no-browser] [--hold]``: returns the exit status."""
    parser = Parser("clew open", _ABOUT)
    parser.add_argument("kind", choices=KINDS, metavar="jupyter|tensorboard")
    parser.add_argument("--site", metavar="NAME", required=True, help="which site; `clew site list` shows them")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--hold", action="store_true", help="take an allocation for it if none is held, until Ctrl+C")
    add_allocation_flags(parser, "for --hold, instead of the site's own")
    options = parser.parse_args(list(argv))
    asking = options if options.hold else None
    with stop_requests() as stops, reach_node(context, options.site, stops, asking, hint=_OR) as node:
        if not node.wait(context, JobStage.RUNNING):
            return OK if stops() else FAILED
        return _serve(context, node, options.kind, _browser(options.no_browser), stops)


def _browser(unwanted: bool) -> bool:
    """Whether there is one that is seen: a text browser would take the terminal."""
    return not unwanted and has_display(os.environ, operating_system.NAME)


def _serve(context: CommandContext, node: HeldNode, kind: str, browse: bool, stops: Callable[[], int]) -> int:
    heard: queue.SimpleQueue[ServiceNews] = queue.SimpleQueue()
    opened = OpenedService(node.target(), kind, lambda: node.news.over, heard.put)
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
