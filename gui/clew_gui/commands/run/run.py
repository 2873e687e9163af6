"""``clew run`` and ``clew resume``: an agent of the command's own trains, and a session follows the run."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from clew_gui.base.student import signed
from clew_gui.commands.agent_program import cards, stop_requests
from clew_gui.commands.context import CommandContext, Parser
from clew_gui.commands.find import RUN_HELP, find_run
from clew_gui.commands.output.result import title
from clew_gui.commands.run.arguments import count, known_exercises, parse_run
from clew_gui.commands.run.check import check_here
from clew_gui.commands.run.follow import FollowedRun
from clew_gui.commands.run.own_agent import OwnRun, own_session
from clew_gui.commands.sites.flags import add_allocation_flags, only_for_sites, read_place
from clew_gui.session.session import Session
from clew_gui.targets.target import LocalTarget, Target
from clew_shared.base.problem import raise_all
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.files import attempts, is_mirror
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import without_effect
from clew_shared.spec import RunSpec, read_spec


def run(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew run EXERCISE …``: returns the exit status, see ``arguments``."""
    words, known = known_exercises(context.places, argv)
    request, card, spec = parse_run(words, known, str(uuid.uuid4()))
    raise_all(without_effect(card.params, [name for name, _ in request.assignments], spec.params))
    spec = signed(context.places, spec)
    place = read_place(context.places, request, spec)
    if place is not None:
        from clew_gui.commands.run.site_run import open_terminal, run_there, show_script  # SSH is loaded there

        if request.dry_run:
            return show_script(context, place, (spec,), request.json)
        heading = f"{title(spec, card)}, on {request.site}"
        return run_there(open_terminal(context), place, spec, card, known, heading, request.json, request.detach)
    check_here(context.places, [spec], own=request.exercises is not None)
    if request.queue:
        return run_queued(context, LocalTarget(context.places), spec, card, known, request.json)
    out = Path(request.out).expanduser().absolute() if request.out else None
    return run_spec(context, spec, card, known, out, request.json, request.exercises)


def run_queued(
    context: CommandContext,
    target: Target,
    spec: RunSpec,
    card: ExerciseCard,
    known: Catalogue,
    as_json: bool = False,
) -> int:
    """Queue ``spec``, say its place while it waits, follow it, and print how it ended; returns the exit status.

    Raises ``ProblemError`` when the agent refuses it; then nothing is left behind.
    """
    with closing(Session(context.places, known, target, only=())) as session, stop_requests() as stops:
        return _show(FollowedRun(context, session, session.start_run(spec), as_json, stops), card, title(spec, card))


def run_spec(
    context: CommandContext,
    spec: RunSpec,
    card: ExerciseCard,
    known: Catalogue,
    out: Path | None = None,
    as_json: bool = False,
    exercises: str | None = None,
) -> int:
    """Run ``spec`` here, in the folder ``out`` if it is given, and show it; returns the exit status."""
    with own_session(context, known, exercises, out) as own, stop_requests() as stops:
        run = OwnRun(context, own, own.session.start_run(spec), as_json, stops)
        return _show(run, card, title(spec, card))


def _show(run: FollowedRun, card: ExerciseCard | None, heading: str) -> int:
    run.to_the_end(card, heading)
    run.raise_refusal()
    return run.conclude(card)


_RESUME = """Continue an ended run from its last checkpoint, as a new attempt.

A run of a site continues there: its agent takes it up again, or Clew sends a further job like the last one."""


def resume(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew resume RUN``: a new attempt from the last checkpoint, where the run trained; returns the exit status."""
    options = _resume_parser().parse_args(list(argv))
    folder = find_run(context.places, options.run)
    own = context.places.runs / folder.name
    if is_mirror(folder) and not attempts(own):
        from clew_gui.commands.run.site_run import open_terminal, resume_there  # SSH is loaded there

        known = cards(context.places, options.exercises)
        return resume_there(open_terminal(context), folder, known, options)
    raise_all([one for one in only_for_sites(options) if one.where != "--nodes"])
    folder = own if is_mirror(folder) else folder
    spec = read_spec(RunFolder(folder).spec)
    known = cards(context.places, options.exercises)
    card = next((card for card in known.exercises if card.id == spec.exercise), None)
    raise_all([*count("devices", options.devices)[1], *count("nodes", options.allocation_nodes)[1]])
    changes = {"strategy": options.strategy, "devices": options.devices, "nodes": options.allocation_nodes}
    given = {name: value if name == "strategy" else int(value) for name, value in changes.items() if value}
    out = None if folder == own else folder.absolute()
    with own_session(context, known, options.exercises, out) as mine, stop_requests() as stops:
        run = spec.run or folder.name
        mine.session.follow(msgspec.structs.replace(spec, run=run))
        following = OwnRun(context, mine, run, options.json, stops, max(attempts(folder), default=0))
        mine.session.continue_run(run, changes=given)
        return _show(following, card, title(spec, card))


def _resume_parser() -> Parser:
    parser = Parser("clew resume", _RESUME)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--exercises", metavar="DIR", help="the folder of your own exercises, if it is one of them")
    parser.add_argument("--strategy", metavar="NAME", help="continue with another strategy")
    parser.add_argument("--devices", metavar="N", help="continue with this many devices on each node")
    parser.add_argument("--json", action="store_true", help="end with a summary of the run as one line of JSON")
    parser.add_argument("--detach", action="store_true", help="return when the further job waits in the queue")
    add_allocation_flags(parser, "of the further job, instead of what the last one asked for")
    return parser
