"""Flags for what is asked of a scheduler, made from the form's own fields: ``--partition``, ``--time``, ``--gpus``."""

from __future__ import annotations

import argparse
from pathlib import Path

from clew_gui.commands.context import Parser
from clew_gui.courses.course import allocation_in
from clew_gui.courses.store import Courses
from clew_gui.jobs.held import job_for
from clew_gui.jobs.job import Place
from clew_gui.jobs.job_book import job_book
from clew_gui.schedulers.allocation import FIELDS, build_allocation, flag, for_run
from clew_gui.sites.store import site_store
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.run_settings import inside
from clew_shared.spec import SITE_PATH, RunSpec


def add_allocation_flags(parser: Parser, about: str) -> argparse._ArgumentGroup:
    """Adds a flag for each field of an allocation, and returns their group; ``about`` is the heading's second line."""
    group = parser.add_argument_group("allocation", about)
    for field in FIELDS:
        help_text = f"{inside(field.label)}: {field.help}".replace("%", "%%")
        name = f"allocation_{field.name}"
        group.add_argument(flag(field), dest=name, metavar=field.type.metavar, help=help_text)
    return group


def given_allocation(options: argparse.Namespace) -> dict[str, object]:
    """Returns what was given, by field; an empty text removes the site's own value."""
    values = {field.name: getattr(options, f"allocation_{field.name}") for field in FIELDS}
    return {name: value for name, value in values.items() if value is not None}


# --- Site flags -------------------------------------------------------------------------------------------------------
# The flags with which ``clew run`` goes to a site, and where that is.


SITE_OPTIONS = ("site", "dry_run", "detach", *(field.name for field in FIELDS))
"""The options whose names no hyperparameter can have as a flag; such a hyperparameter is reached through ``--set``."""


def add_site_flags(parser: Parser) -> argparse._ArgumentGroup:
    """Adds ``--site`` and what goes with it; returns the group of what a job may ask for."""
    group = parser.add_argument_group("on a site")
    group.add_argument("--site", metavar="NAME", help="run there; `clew site list` lists the sites")
    group.add_argument("--dry-run", action="store_true", help="print the job script that would be sent, and end")
    group.add_argument("--detach", action="store_true", help="return when the job waits; `clew attach` comes back")
    return add_allocation_flags(parser, "with --site, instead of what the site's jobs usually ask for")


def check_site_flags(options: argparse.Namespace, spreads: bool = False) -> list[Problem]:
    """Flags that do not go together. ``spreads``: how many nodes there are is said of the run, here as well."""
    if options.site is not None:
        wrong = [name for name in ("out", "queue") if getattr(options, name, None)]
        words = "A run on a site is kept where all copies are, and the scheduler queues it"
        return [Problem("cli.site", f"{words}: --{name} does not work there.", "Leave it out.", name) for name in wrong]
    found = only_for_sites(options, "Say which with --site NAME, or leave it out.")
    return [one for one in found if not spreads or one.where != "--nodes"]


def only_for_sites(options: argparse.Namespace, hint: str = "Leave it out.") -> list[Problem]:
    """The flags among ``options`` that mean something for a run on a site only."""
    given = [f"--{name.replace('_', '-')}" for name in ("dry_run", "detach") if getattr(options, name, False)]
    given += [flag(field) for field in FIELDS if field.name in given_allocation(options)]
    return [Problem("cli.site", f"{name} is for a run on a site.", hint, name) for name in given]


def data_there(text: str, there: bool) -> list[Problem]:
    """Returns what is wrong with ``site:/path``."""
    path = text.removeprefix(SITE_PATH)
    if not there:
        return [Problem("cli.data", f"{text} is a path on a site.", "Say which site with --site NAME.", "data")]
    if not path.startswith("/") or not path.isprintable():
        return [Problem("cli.data", f"A path on a site begins with a slash, got {path!r}.", where="data")]
    return []


def read_place(places: Places, options: argparse.Namespace, spec: RunSpec) -> Place | None:
    """Returns where the run goes; None for this computer. An allocation that is held and has what is asked for is used.

    Raises ``ProblemError`` for an unknown site and wrong values.
    """
    if options.site is None:
        return None
    site = site_store(places).load(options.site)
    exercises = str(Path(options.exercises).expanduser().absolute()) if options.exercises else ""
    usual = allocation_in(Courses(places).current(), spec.exercise, site.allocation)
    allocation = for_run(build_allocation(usual, given_allocation(options)), spec)
    data = spec.data if Path(spec.data).is_absolute() else ""
    bare = not (data or exercises)  # files are brought by a job of the run's own
    book = job_book(places)
    job, why_not = job_for(book, options.site, allocation) if not options.dry_run else ("", "")
    if job and not bare:
        why_not = (
            f"The allocation held as j{book.number(job)} is not used: files of this computer need a job of their own."
        )
        job = ""
    return Place(site=options.site, allocation=allocation, data=data, exercises=exercises, job=job, held_unused=why_not)
