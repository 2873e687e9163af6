"""``clew replay``: a finished run again as if it were training, for a lesson without a cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence

from clew_gui.commands.agent_program import cards, stop_requests
from clew_gui.commands.context import INTERRUPTED, OK, CommandContext, Parser
from clew_gui.commands.find import RUN_HELP, find_run
from clew_gui.commands.output.progress import choose_display
from clew_gui.commands.output.result import title
from clew_gui.reports.replay_writer import DEMONSTRATION, Replay, demonstrations, find_demonstration
from clew_shared.base.problem import problem

_POLL_S = 0.05
_ABOUT = """Show a finished run again as if it were training: here, and in a window that is open meanwhile.

The replay is a run of its own, marked as a replay; it cannot be handed in. Ctrl+C ends it."""


def replay(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew replay RUN [--speed X]``: 0 when it was shown to its end."""
    parser = Parser("clew replay", _ABOUT)
    parser.add_argument("run", metavar="RUN", nargs="?", help=f"{RUN_HELP}, or {DEMONSTRATION}NAME")
    parser.add_argument("--speed", metavar="X", type=float, default=1.0, help="how many times as fast (default 1)")
    parser.add_argument("--name", metavar="TEXT", default="", help="a name for it (default: Replay of …)")
    parser.add_argument("--list", action="store_true", help="list the demonstrations that come with Clew")
    options = parser.parse_args(list(argv))
    if options.list:
        for name in demonstrations():
            context.say(f"{DEMONSTRATION}{name}")
        return OK
    if not options.run:
        hint = "Name one, or see: clew replay --list"
        raise problem("cli.run", "Which run?", hint, "run")
    if not options.speed > 0:
        raise problem("cli.speed", f"--speed must be greater than 0, got {options.speed:g}.", where="speed")
    demo = options.run.startswith(DEMONSTRATION)
    name = options.run.removeprefix(DEMONSTRATION)
    source = find_demonstration(name) if demo else find_run(context.places, options.run)
    return _show(
        context,
        Replay(source, context.places.runs, options.name or (f"Recorded: {name}" if demo else "")),
        options.speed,
    )


def _show(context: CommandContext, shown: Replay, speed: float) -> int:
    card = next((card for card in cards(context.places).exercises if card.id == shown.spec.exercise), None)
    display = choose_display(context.console(), card, f"{shown.spec.name}, {title(shown.spec, card)}", 0)
    started = time.monotonic()
    try:
        with stop_requests() as stops:
            while not shown.done:
                shown.advance((time.monotonic() - started) * speed, time.time())
                if stops():
                    shown.stop(time.time())
                display.show(shown.history, "", last=shown.done)
                if not shown.done:
                    time.sleep(_POLL_S)
            return INTERRUPTED if stops() else OK
    finally:
        shown.close()
        display.close()
