"""``clew run`` and ``clew resume``: the agent trains as a program of its own, and its journal is followed from here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from clew_gui.base.student import signed
from clew_gui.commands.agent_program import AgentProgram, cards, runs_program, stop_requests
from clew_gui.commands.context import BAD_INPUT, FAILED, CommandContext, Parser
from clew_gui.commands.find import RUN_HELP, find_run
from clew_gui.commands.output.result import exit_status, result_lines, title, word_for
from clew_gui.commands.run.arguments import count, exercises_folder, parse_run
from clew_gui.commands.run.check import check_here
from clew_gui.commands.run.follow import FollowedRun, Follower
from clew_gui.commands.run.forecast_lines import memory_lines
from clew_gui.commands.run.left_run import LeftAgent, left_run
from clew_gui.commands.sites.flags import add_allocation_flags, only_for_sites, read_place
from clew_gui.targets.target import LocalTarget
from clew_shared.base.problem import Problem, ProblemError, problem, raise_all
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import attempts, is_mirror
from clew_shared.journal.history import History
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import without_effect
from clew_shared.reading import summary
from clew_shared.spec import RunSpec, read_spec, to_toml
from clew_shared.wire.turns import RunEnded, RunWanted

_POLL_S = 0.05
_KILL_AFTER = 4
"""The number of the Ctrl+C that ends an agent which answers none of those before."""
Agent = AgentProgram | LeftAgent


class RunOutcome(NamedTuple):
    """The result of the agent program: the history of its run, its exit status, and why it was refused or failed."""

    history: History
    exit_code: int
    problem: str
    asked: bool = False
    """Whether a person asked for its end, be it too late for this run."""
    refused: tuple[Problem, ...] = ()
    """Says why it never began."""

    def early_end(self) -> str:
        """Returns what is known of an agent that has ended before the run."""
        last = self.problem.splitlines()[-1:] or ["It printed nothing."]
        return f"The agent ended with status {self.exit_code} before the run did. Its last output: {last[0]}"


def run(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew run EXERCISE …``: returns the exit status, see ``arguments``."""
    known = cards(context.places, exercises_folder(argv))
    request, card, spec = parse_run(argv, known, str(uuid.uuid4()))
    raise_all(without_effect(card.params, [name for name, _ in request.assignments], spec.params))
    spec = signed(context.places, spec)
    place = read_place(context.places, request, spec)
    if place is not None:
        from clew_gui.commands.run.site_run import open_terminal, run_there, show_script  # SSH is loaded there

        if request.dry_run:
            return show_script(context, place, (spec,), request.json)
        _say_memory(context, spec, card, request.json, place.site)
        heading = f"{title(spec, card)}, on {request.site}"
        return run_there(open_terminal(context), place, spec, card, known, heading, request.json, request.detach)
    check_here(context.places, [spec], own=request.exercises is not None)
    _say_memory(context, spec, card, request.json)
    if request.queue:
        from clew_gui.commands.run.session_run import run_queued  # a run without the agent has no need of sessions

        return run_queued(context, LocalTarget(context.places), spec, card, known, request.json)
    folder = Path(request.out).expanduser().absolute() if request.out else context.places.runs / spec.run
    return run_spec(context, spec, card, folder, request.json, request.exercises)


def _say_memory(context: CommandContext, spec: RunSpec, card: ExerciseCard, as_json: bool, site: str = "") -> None:
    for line in memory_lines(context.places, spec, card, site):
        (context.note if as_json else context.say)(line)


def run_spec(
    context: CommandContext,
    spec: RunSpec,
    card: ExerciseCard,
    folder: Path,
    as_json: bool = False,
    exercises: str | None = None,
) -> int:
    """Run ``spec`` in ``folder`` and show it; returns the exit status."""
    with runs_program(context.places, exercises) as agent:
        outcome = run_outcome(context, spec, card, folder, title(spec, card), as_json, agent)
    return conclude(context, outcome, folder, card, as_json)


def run_outcome(
    context: CommandContext,
    spec: RunSpec,
    card: ExerciseCard,
    folder: Path,
    heading: str,
    as_json: bool,
    agent: AgentProgram,
    warm: bool = False,
) -> RunOutcome:
    """Have ``agent`` run ``spec`` in ``folder``, and follow it to its end under this heading. ``warm``: its trainer may
    be a copy of a process that has imported TensorFlow for the run before."""
    wanted = RunWanted(str(folder), to_toml(signed(context.places, spec)), warm=warm)
    return follow(context, lambda: agent.ask(wanted), folder, card, heading, as_json)


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
    with runs_program(context.places, options.exercises) as agent:
        wanted = RunWanted(str(folder), changes=given)
        outcome = follow(context, lambda: agent.ask(wanted), folder, card, title(spec, card), options.json)
    return conclude(context, outcome, folder, card, options.json)


def _resume_parser() -> Parser:
    parser = Parser("clew resume", _RESUME)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--exercises", metavar="DIR", help="the folder of your own exercises, if the run is one of them"
    )
    parser.add_argument("--strategy", metavar="NAME", help="continue with another strategy")
    parser.add_argument("--devices", metavar="N", help="continue with this many devices on each node")
    parser.add_argument("--json", action="store_true", help="end with a summary of the run as one line of JSON")
    parser.add_argument("--detach", action="store_true", help="return when the further job waits in the queue")
    add_allocation_flags(parser, "of the further job, instead of what the last one asked for")
    return parser


class ProgramRun(FollowedRun):
    """A run of an agent program that was started for it alone."""

    notes = (
        "",
        "Stopping after this block, with a checkpoint. Ctrl+C again stops at once.",
        "Stopping at once. Ctrl+C once more kills the trainer.",
        "Killing the trainer.",
    )

    def __init__(
        self,
        context: CommandContext,
        agent: Agent,
        follower: Follower,
        as_json: bool,
        stops: Callable[[], int],
        after_attempt: int,
    ) -> None:
        super().__init__(context, as_json, stops, after_attempt)
        self._agent, self._follower = agent, follower
        self.ended: RunEnded | None = None

    @property
    def history(self) -> History:
        """The contents of its journal so far."""
        return self._follower.history

    def take_in(self) -> None:
        """Reads what was written, after asking for the agent's end, so that nothing written before that is missed."""
        self.ended = self._agent.wait(_POLL_S)
        self._follower.poll()
        self.discard = self.ended is not None and self.ended.code == BAD_INPUT

    def stop(self, request: int) -> None:
        """The first three requests are the agent's own business, the fourth is for one that does not answer."""
        if request < _KILL_AFTER:
            self._agent.ask_to_stop()
        else:
            self._agent.kill()

    def complete(self) -> bool:
        """Whether the agent has ended."""
        return self.ended is not None


def follow(
    context: CommandContext,
    begin: Callable[[], Agent],
    folder: Path,
    card: ExerciseCard | None,
    heading: str,
    as_json: bool,
    joined: bool = False,
) -> RunOutcome:
    """Begin the run with ``begin``, show what is in ``folder`` while it lasts, pass on Ctrl+C. ``joined``: it has begun
    already, and all of it is shown."""
    after_attempt = 0 if joined else max(RunFolder(folder).attempts(), default=0)
    with stop_requests() as stops, Follower(folder) as follower:
        agent = begin()
        run = ProgramRun(context, agent, follower, as_json, stops, after_attempt)
        run.to_the_end(card, heading)
        ended = run.ended or RunEnded(FAILED)
        return RunOutcome(run.history, ended.code, ended.problem, stops() > 0, ended.refused)


def conclude(
    context: CommandContext, outcome: RunOutcome, folder: Path, card: ExerciseCard | None, as_json: bool
) -> int:
    """Say how the run ended. Raises ``ProblemError`` when the agent refused it or ended without a word."""
    history = outcome.history
    if outcome.exit_code == BAD_INPUT:
        raise refusal(outcome)
    say = context.note if as_json else context.say
    left = left_run(folder, history)
    if left is not None:
        text = f"The process that watched over the run was ended, and the run trains on (process {left.begun.pid})."
        context.note(f"clew run: {text} clew show {word_for(context.places, folder)} says how far it is.")
        return FAILED
    if not history.fold.done:
        context.note(f"clew run: {outcome.early_end()}")
    for line in result_lines(history, card, folder, context.places, word_for(context.places, folder)):
        say(line)
    if as_json:
        context.say_json(summary(history, folder))
    return exit_status(history.fold.state) if history.fold.done else FAILED


def refusal(outcome: RunOutcome) -> ProblemError:
    """Returns why the agent refused the run."""
    if outcome.refused:
        return ProblemError(*outcome.refused)
    return problem("cli.refused", outcome.problem or "The agent refused the run and gave no reason.")
