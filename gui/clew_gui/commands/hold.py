"""``clew hold`` keeps an allocation for many runs, ``clew let-go`` gives it back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing

from clew_gui.commands.allocation_flags import add_allocation_flags
from clew_gui.commands.held import HeldNode, reach_node
from clew_gui.commands.program import stop_requests
from clew_gui.commands.shell import FAILED, OK, Parser, Shell
from clew_gui.remote.allocation import summary
from clew_gui.remote.held import held_jobs, held_line
from clew_gui.remote.jobs import STAGE_WORDS, JobNews, Order, Stage
from clew_gui.remote.prompts import headless_prompter
from clew_gui.session.desks import open_desks
from clew_shared.problem import problem

ASK_S = 60.0
"""A login with a question, and a scheduler that is slow to answer."""
_SENT = (Stage.QUEUED, Stage.RUNNING)
_ABOUT = """Keep an allocation for many runs, for `clew shell` and for `clew open`. It costs its nodes' time from its
begin to its end, whether something runs on it or not: Ctrl+C gives it back, or `clew let-go`."""


def hold(shell: Shell, argv: Sequence[str]) -> int:
    """``clew hold --site NAME [--detach]``: returns the exit status."""
    parser = Parser("clew hold", _ABOUT)
    parser.add_argument("--site", metavar="NAME", required=True, help="which site; `clew site list` shows them")
    parser.add_argument("--detach", action="store_true", help="end as soon as it waits in the queue; it is kept")
    add_allocation_flags(parser, "instead of the site's own")
    options = parser.parse_args(list(argv))
    with stop_requests() as stops, reach_node(shell, options.site, stops, options, fresh=True) as node:
        if not node.wait(shell, *(_SENT if options.detach else (Stage.RUNNING,))):
            return FAILED
        if options.detach:
            node.own = False
            shell.say(node.job)
            shell.note(f"It is kept. `clew let-go --site {options.site}` gives it back.")
            return OK
        use = f"clew run, clew shell and clew open with --site {options.site}"
        shell.note(f"In other terminals {use} use it. Ctrl+C gives it back.")
        node.keep(shell)
        return OK


def held_state(news: JobNews, order: Order) -> str:
    """How an allocation is that was held when this was last heard: until when, in which queue, or how it ended."""
    if news.over:
        return f"It is over. {news.text}".rstrip()
    state = held_line(news, order.allocation.nodes) if news.stage is Stage.RUNNING else f"{STAGE_WORDS[news.stage]}."
    return f"{state} This is as last heard: {news.problem.text}" if news.problem is not None else state


def let_go(shell: Shell, argv: Sequence[str]) -> int:
    """``clew let-go [--site NAME] [--list]``: returns the exit status."""
    parser = Parser("clew let-go", "Give back the allocations that are held.")
    parser.add_argument("--site", metavar="NAME", default="", help="only those of one site")
    parser.add_argument("--list", action="store_true", help="only list them, as their schedulers see them now")
    options = parser.parse_args(list(argv))
    desks = open_desks(shell.places, headless_prompter(os.environ))
    with closing(desks), stop_requests() as stops:
        jobs = held_jobs(desks.book, options.site)
        if options.list:
            desks.ask_now(jobs, ASK_S)
        if not jobs:
            raise problem("hold.none", "No allocation is held.", "`clew hold --site NAME` takes one.", "site")
        for job in jobs:
            order, news = desks.book.order(job), desks.book.news(job)
            shell.say(f"{desks.book.title(job)}: {summary(order.allocation)}. {held_state(news, order)}")
            if options.list:
                continue
            HeldNode(desks, job, stops).give_back(shell)
        return OK
