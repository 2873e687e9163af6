"""Gives every command what it needs: where things are kept, where to write, and how problems are reported."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TextIO

import msgspec

from clew_shared.base.harmless import say
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, did_you_mean, problem
from clew_shared.base.terminal import ascii_json
from clew_shared.params import read_number, read_whole

if TYPE_CHECKING:
    from rich.console import Console

OK = 0
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

_WIDE = 200
"""Columns assumed where the output is no terminal: nothing is cut or wrapped for a program that reads it."""


class CommandContext(msgspec.Struct, frozen=True):
    """The world of one command: folders, standard output and standard error."""

    places: Places
    out: TextIO
    err: TextIO

    def console(self, err: bool = False) -> Console:
        """A console on standard output (or standard error) that prints text as it is, without guessing at markup."""
        from clew_gui.commands.output.console import HarmlessConsole  # the window starts without it

        stream = self.err if err else self.out
        width = None if stream.isatty() else _WIDE
        return HarmlessConsole(
            file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=not stream.isatty()
        )

    def say(self, text: str = "") -> None:
        """Prints one line on standard output."""
        say(text, self.out)

    def note(self, text: str) -> None:
        """Prints one line on standard error, for what is no result."""
        say(text, self.err)

    def report(self, problem: Problem) -> None:
        """A problem that is none of this command's, on one line of standard error."""
        self.note(problem.command_text())

    def keep_trace(self) -> str:
        """Write the traceback of the present exception into a file; returns the sentence that names it."""
        path = self.places.home / "log" / "command.log"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8", newline="\n", errors="backslashreplace") as file:
                file.write(traceback.format_exc())
        except OSError as found:
            return f"Its traceback could not be kept in {path}: {found.strerror}"
        return f"Please report it, with the end of {path}"

    def say_json(self, value: object) -> None:
        """Prints one line of JSON on standard output; numbers that JSON cannot hold become null."""
        self.say(ascii_json(msgspec.json.encode(value)))


class Parser(argparse.ArgumentParser):
    """An argument parser that raises its complaint as a ``ProblemError`` instead of ending the process."""

    def __init__(self, prog: str, description: str, **settings: object) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **settings,  # type: ignore[arg-type]
        )
        self.register("type", int, partial(_typed, read_whole))
        self.register("type", float, partial(_typed, read_number))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Called by argparse for what one has to choose."""
        if action.choices is not None and value not in action.choices:
            asked = action.option_strings[0] if action.option_strings else self.prog
            hint = did_you_mean(str(value), action.choices) or f"There are: {', '.join(action.choices)}."
            raise problem("cli.usage", f"{asked} does not know {value!r}.", hint)

    def error(self, message: str) -> NoReturn:
        """Called by argparse for anything it cannot read."""
        text = message[:1].upper() + message[1:]
        raise problem("cli.usage", f"{text.rstrip('.')}.", f"See: {self.prog} --help")


def _typed(read: Callable[[str], float], text: str) -> float:
    """A number as a person types it elsewhere: Python reads 1_000 and digits of every script as well."""
    try:
        return read(text.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def complain(context: CommandContext, command: str, problems: Sequence[Problem], as_json: bool = False) -> None:
    """Prints all ``problems`` as one message on standard error, and as one JSON line on standard output if asked
    for."""
    if len(problems) == 1:
        context.note(f"{command}: {problems[0].command_text()}")
    else:
        lines = "\n".join(f"  - {found.command_text()}" for found in problems)
        context.note(f"{command}: {len(problems)} things are wrong, and nothing was started.\n{lines}")
    if as_json:
        context.say_json({"problems": problems})


def standard_context(places: Places) -> CommandContext:
    """The context of this process."""
    return CommandContext(places=places, out=sys.stdout, err=sys.stderr)
