"""``clew shell --site NAME``: a terminal on the allocation that is held or running, or with one of its own."""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import Sequence
from contextlib import closing

from clew_gui.commands.context import CommandContext, Parser
from clew_gui.commands.find import JOB_HELP, named_job
from clew_gui.commands.jobs.hold import known_site
from clew_gui.commands.jobs.local_terminal import join, own_size
from clew_gui.commands.sites.flags import add_allocation_flags, given_allocation
from clew_gui.jobs.held import live_job
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.nodes.shell import NodeShell as OpenShell
from clew_gui.nodes.shell import shell_of_its_own, shell_on_job, where_it_runs
from clew_gui.schedulers.allocation import FIELDS, build_allocation, flag
from clew_gui.schedulers.job import JobRef
from clew_gui.sites.site_connection import open_connection
from clew_gui.ssh.connection import route_words
from clew_gui.ssh.prompts import AskOnce, headless_prompter
from clew_shared.base.problem import problem

_ABOUT = """A terminal on the compute node: on the allocation that is held (clew hold) or running; if there is none,
on one of its own that ends with the terminal. After -- comes a command to run there instead of a shell."""


def shell(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew shell --site NAME [--job JOB | --fresh] [-- COMMAND]``: returns the exit status over there."""
    words, command = split_words(list(argv))
    parser = Parser("clew shell", _ABOUT, usage="clew shell --site NAME [options] [-- COMMAND …]")
    parser.add_argument("--site", metavar="NAME", required=True, help="which site; `clew site list` shows them")
    parser.add_argument("--job", metavar="JOB", default="", help=f"which job there, of several: {JOB_HELP}")
    parser.add_argument("--fresh", action="store_true", help="take an allocation of its own in any case")
    add_allocation_flags(parser, "of its own, instead of the site's")
    options = parser.parse_args(words)
    site = known_site(context, options.site)
    given = given_allocation(options)
    of_its_own = ["--fresh"] * options.fresh + [flag(field) for field in FIELDS if field.name in given]
    if options.job and of_its_own:
        text = f"--job names a job that is running; with {', '.join(of_its_own)} a shell gets its own allocation."
        raise problem("cli.usage", text, "Leave one or the other out.", "job")
    allocation = build_allocation(site.allocation, given)
    book = job_book(context.places)
    job = "" if options.fresh or given else chosen_job(context, book, options.site, options.job)
    size, term = own_size(), os.environ.get("TERM", "")
    if size is None and not command:
        raise problem(
            "shell.terminal", "A shell needs a terminal to run in.", "Give a command: clew shell … -- hostname"
        )
    with closing(
        open_connection(options.site, site, context.places, AskOnce(headless_prompter(os.environ)))
    ) as connection:
        if job:
            ref = JobRef(book.news(job).id, job)
            opened = shell_on_job(connection, ref, first_node(where_it_runs(connection, ref)), command, term, size)
        else:
            opened = shell_of_its_own(connection, str(uuid.uuid4()), allocation, command, term, size)
        if size is not None:
            context.note(f"A terminal {opened.text}, through {route_words(connection.ssh.passed)}.")
        return _use(opened, size is not None)


def chosen_job(context: CommandContext, book: JobBook, site: str, word: str) -> str:
    """The job that ``word`` names, else the one to open a shell beside; empty: none. Raises ``ProblemError``."""
    if not word:
        return live_job(book, site)
    job = named_job(context, book, word, site)
    if job not in book.open_jobs() or book.order(job).site != site:
        raise problem("job.unknown", f"No job {word} is running on {site}.", "`clew jobs` lists them.", "job")
    return job


def split_words(argv: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Splits the words into our own, and the command after ``--``: if that is one word, it is a line for the shell."""
    if "--" not in argv:
        return argv, ()
    at = argv.index("--")
    command = argv[at + 1 :]
    if len(command) == 1 and shlex.quote(command[0]) != command[0]:
        return argv[:at], ("bash", "-lc", command[0])
    return argv[:at], tuple(command)


def first_node(nodes: str) -> list[str]:
    """The first node of a scheduler's list, in a list; empty when none is named.

    ``node[03-07,9]`` begins with ``node03``; ``exec_host`` of PBS names cores after a slash.
    """
    name, bracket, rest = nodes.partition("[")
    if bracket and "," not in name:
        return [name + rest.partition("]")[0].partition(",")[0].partition("-")[0]]
    first = nodes.replace("+", ",").partition(",")[0].partition("/")[0].strip()
    return [first] if first else []


def _use(opened: OpenShell, is_terminal: bool) -> int:
    with closing(opened):
        return join(opened.terminal, is_terminal)
