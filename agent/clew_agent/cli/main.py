"""The ``clew-agent`` command: finds the program's module, and prints every refusal as one message with exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from clew_agent.node.exit_codes import BAD_INPUT, FAILED, STOPPED
from clew_shared import __version__
from clew_shared.base.disk_full import no_room
from clew_shared.base.harmless import say
from clew_shared.base.problem import Problem, ProblemError, long_names_refused
from clew_shared.base.terminal import prepare_output, reader_has_left

_COMMANDS = {
    "run": ("clew_agent.cli.headless", "run", "train a run spec here, without a window"),
    "catalogue": ("clew_agent.cli.catalogue", "catalogue", "list the exercises, their presets and hyperparameters"),
    "data": ("clew_agent.cli.data", "data", "check a data set or a file of data"),
    "replay": ("clew_agent.cli.replay", "replay", "print the events of a run as JSON lines"),
    "new": ("clew_agent.cli.new", "new", "write a working exercise for you to adapt"),
    "serve": ("clew_agent.supervisor.serve", "main", "wait for a window and train what it asks for"),
}
_OWN_COMMANDS = {
    "check": ("clew_agent.cli.check", "check", "say whether run specs could start"),
    "relay": ("clew_agent.cli.relay", "main", "connect standard input and output to a port of this node"),
    "guard": ("clew_agent.processes.guard", "main", "start the trainer of a run folder and watch over it"),
    "trainer": ("clew_agent.trainer.trainer", "main", "train an attempt of a run folder"),
    "peer": ("clew_agent.peers.peer", "main", "train as one of the processes of a run"),
    "try": ("clew_agent.cli.probes", "main", "answer what is tried with a trained run"),
    "service": ("clew_agent.services.process", "main", "open Jupyter with a token"),
    "examine": ("clew_agent.catalogue.examine", "main", "import exercise files and print their cards"),
}
"""The commands that only Clew calls."""
_ALL_COMMANDS = _COMMANDS | _OWN_COMMANDS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` (default: the process's own) and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    prepare_output()
    name = words[0] if words else "--help"
    try:
        if name in ("--help", "-h", "help"):
            say(_help())
            return 0
        if name in ("--version", "version"):
            say(f"clew-agent {__version__}")
            return 0
        if name not in _ALL_COMMANDS:
            return complain(
                "clew-agent", [Problem("cli.command", f"There is no command {name!r}.", "See: clew-agent help")]
            )
        with long_names_refused():
            return _function(name)(words[1:])
    except ProblemError as error:
        return complain(f"clew-agent {name}", error.problems)
    except KeyboardInterrupt:
        return STOPPED
    except OSError as error:
        if reader_has_left(error):
            sys.stdout = None  # nothing more can be written there
            return FAILED
        if (full := no_room(error)) is None:
            raise
        complain(f"clew-agent {name}", [full])
        return FAILED


def complain(command: str, problems: Sequence[Problem]) -> int:
    """Prints all ``problems`` as one message on standard error; returns the exit code for bad input."""
    if len(problems) == 1:
        say(f"{command}: {problems[0].command_text()}", sys.stderr)
    else:
        lines = "\n".join(f"  - {found.command_text()}" for found in problems)
        say(f"{command}: {len(problems)} things are wrong, and nothing was started.\n{lines}", sys.stderr)
    return BAD_INPUT


def _function(name: str) -> Callable[[Sequence[str]], int]:
    module, function, _ = _ALL_COMMANDS[name]
    found: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
    return found


def _help() -> str:
    head = "usage: clew-agent COMMAND [options]   (clew-agent COMMAND --help shows them)"
    return f"{head}\n\n{_list(_COMMANDS)}\n\nUsed by Clew itself:\n{_list(_OWN_COMMANDS)}"


def _list(commands: Mapping[str, tuple[str, str, str]]) -> str:
    return "\n".join(f"  {name:<12} {about}" for name, (_, _, about) in commands.items())
