"""``clew why``: explains the code with which a message ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clew_gui.commands.context import OK, CommandContext, Parser
from clew_shared.base.explanations import explanations, matching

_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def why(context: CommandContext, argv: Sequence[str]) -> int:
    """Explains one code, or lists those that begin so."""
    parser = Parser("clew why", "Explain a message: what is behind it, and what helps.")
    parser.add_argument(
        "code", metavar="CODE", help="the code at the end of the message; `ssh` lists all that begin so"
    )
    known = explanations()
    codes = matching(parser.parse_args(argv).code, known)
    for code in codes if len(codes) > 1 else ():
        context.say(code)
    for paragraph in known[codes[0]].split("\n\n") if len(codes) == 1 else ():
        context.console().print(_LINK.sub(r"\1", " ".join(paragraph.split())))
    return OK
