"""``clew run --queue``: this computer's agent runs it in its turn, and it is followed from here."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from clew_gui.base.state_words import queue_place
from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.context import FAILED, CommandContext
from clew_gui.commands.output import words
from clew_gui.commands.output.progress import Display, choose_display
from clew_gui.commands.output.result import exit_status, result_lines, word_for
from clew_gui.commands.run.follow import Follower
from clew_gui.session.agent_line import AgentLine
from clew_gui.targets.target import Target
from clew_shared.base.problem import ProblemError, problem
from clew_shared.cards import ExerciseCard
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL
from clew_shared.reading import summary
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import RunStatus, StartRun, Stop

_LOOK_S = 0.1
_STOP_NOTES = (
    "",
    "Stopping after this block, with a checkpoint. Ctrl+C again stops at once.",
    "Stopping at once.",
)


def run_queued(
    context: CommandContext,
    target: Target,
    spec: RunSpec,
    card: ExerciseCard | None,
    heading: str,
    as_json: bool = False,
) -> int:
    """Queue ``spec``, say its place while it waits, follow it, and print how it ended; returns the exit status.

    Raises ``ProblemError`` when the agent refuses it; then nothing is left behind.
    """
    folder = context.places.runs / spec.run
    with (
        AgentLine(target, start=True, report=context.report) as agent,
        stop_requests() as stops,
        Follower(folder) as follower,
    ):
        agent.ask(StartRun(spec=spec))
        queued = _Queued(context, agent, spec.run, as_json, stops)
        ended = queued.wait(follower)
        if ended is None:
            queued.watch(follower, choose_display(context.console(err=as_json), card, heading))
    if ended is not None:
        return _never_began(context, ended, as_json)
    return _conclude(context, follower.history, card, folder, as_json)


class _Queued:
    """A run that was handed over. Each request to stop is passed on once."""

    def __init__(
        self, context: CommandContext, agent: AgentLine, run: str, as_json: bool, stops: Callable[[], int]
    ) -> None:
        self._agent, self._run, self._stops = agent, run, stops
        self._say = context.note if as_json else context.say
        self._asked = 0

    def wait(self, follower: Follower) -> RunStatus | None:
        """Waits until it writes its journal, which gives None; or returns the status of one that ended before it began.

        There is no bound: it depends on the runs before it.
        """
        shown = -1
        while not follower.poll():
            self._pass_on()
            status = self._agent.status(self._run)
            if status is None:
                raise problem("run.unknown", f"The agent does not know the run {self._run} any more.")
            if status.state in TERMINAL and not status.attempt:
                return status
            if status.queue != shown:
                way_out = " Ctrl+C takes the run out of it." if shown < 0 else ""
                shown = status.queue
                self._say(f"Waiting: {queue_place(shown)}.{way_out}" if shown else "Its turn has come.")
            time.sleep(_LOOK_S)
        return None

    def watch(self, follower: Follower, display: Display) -> None:
        """Shows the run until its journal is complete."""
        try:
            while not follower.history.fold.sealed:
                self._pass_on()
                time.sleep(_LOOK_S)
                follower.poll()
                note = _STOP_NOTES[min(self._asked, 2)]
                display.show(follower.history, note, last=follower.history.fold.sealed)
        finally:
            display.close()

    def _pass_on(self) -> None:
        if self._asked < self._stops():
            self._asked += 1
            try:
                self._agent.ask(Stop(run=self._run, now=self._asked > 1))
            except ProblemError as error:  # a trainer in a long step answers late, and stops all the same
                self._say(error.command_text())


def _never_began(context: CommandContext, status: RunStatus, as_json: bool) -> int:
    say = context.note if as_json else context.say
    say(f"{words.state_word(status.state)}. {status.reason}".strip())
    if as_json:
        context.say_json(
            {"run": status.run, "exercise": status.exercise, "state": status.state, "reason": status.reason}
        )
    return exit_status(status.state)


def _conclude(context: CommandContext, history: History, card: ExerciseCard | None, folder: Path, as_json: bool) -> int:
    say = context.note if as_json else context.say
    for line in result_lines(history, card, folder, context.places, word_for(context.places, folder)):
        say(line)
    if as_json:
        context.say_json(summary(history, folder))
    return exit_status(history.fold.state) if history.fold.done else FAILED
