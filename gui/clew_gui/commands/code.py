"""``clew code``: an exercise's file, the same as a script that runs by itself, and the job script for that."""

from __future__ import annotations

from collections.abc import Sequence

from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.run.arguments import known_exercises, not_taken, parse_run
from clew_gui.commands.sites.flags import given_allocation
from clew_gui.schedulers.allocation import build_allocation
from clew_gui.sites.own_job import course_machine, find_machine, own_job
from clew_gui.sites.store import site_store
from clew_gui.study.written_code import has_script, written_code
from clew_shared.base.problem import problem, raise_all

_DESCRIPTION = """Write the code of an exercise.

Without --as it is the very file that runs. With --as keras it is a script that needs no Clew, with the
exercise's values or those that you give as for `clew run`. `job` is the job script that you would write to run the
Keras script on the course's machine, or on --site: one of your sites, or another of the courses' machines. `clew run
EXERCISE --help` lists the exercise's own options, and those of a job, such as --time and --partition."""
_FILE, _KERAS, _JOB = "exercise", "keras", "job"
_NOT_HERE = ("out", "name", "queue", "json", "trace", "predict", "detach", "dry_run")
_NOT_IN_JOB = ("allocation_nodes", "strategy", "devices", "precision", "rate_range")


def code(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew code EXERCISE [--as FORM]``."""
    usage = "clew code EXERCISE [--as FORM] [--site NAME] [options of clew run]"
    parser = Parser("clew code", _DESCRIPTION, usage=usage)
    forms = (_FILE, _KERAS, _JOB)
    parser.add_argument("--as", dest="form", choices=forms, default=_FILE, help=f"default: {_FILE}")
    options, rest = parser.parse_known_args(list(argv))
    request, card, spec = parse_run(*known_exercises(context.places, rest), "")
    is_job = options.form == _JOB
    raise_all(not_taken("code", request, (*_NOT_HERE, *(_NOT_IN_JOB if is_job else ("site",)))))
    if options.form != _FILE and not has_script(card):
        text = f"The exercise {card.id} has no Keras script{' for a job to run' if is_job else ''}."
        raise problem("cli.form", text, f"Its own file: clew code {card.id}", "--as")
    if is_job:
        site = find_machine(site_store(context.places), request.site or course_machine(card))
        text = own_job(site, card.id, build_allocation(site.allocation, given_allocation(request)))
    else:
        text = card.source if options.form == _FILE else written_code(card, spec)
    context.say(text.rstrip("\n"))
    return OK
