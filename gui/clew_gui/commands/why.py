"""``clew why``: explains the code with which a message ends."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import clew_shared
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_shared.base.number_words import either
from clew_shared.base.problem import ProblemError, problem

PAGES = Path(clew_shared.__file__).parent / "problems"
"""Each code is declared by its entry in one of these pages."""
_NEAR = 3
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def why(context: CommandContext, argv: Sequence[str]) -> int:
    """Explains one code, or lists those that begin so."""
    parser = Parser("clew why", "Explain a message: what is behind it, and what helps.")
    parser.add_argument("code", metavar="CODE", help="the code of a message; `ssh` lists all that begin so")
    known = explanations()
    codes = matching(parser.parse_args(argv).code, known)
    for code in codes if len(codes) > 1 else ():
        context.say(code)
    for paragraph in known[codes[0]].split("\n\n") if len(codes) == 1 else ():
        context.console().print(_LINK.sub(r"\1", " ".join(paragraph.split())))
    return OK


def entries(page: Path) -> Iterator[tuple[str, str]]:
    """The codes of one page and their texts, as Markdown."""
    for entry in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        code, _, text = entry.partition("\n")
        yield code.strip(), text.strip()


def explanations() -> dict[str, str]:
    """Returns the explanation of each code."""
    return {code: text for page in sorted(PAGES.glob("*.md")) for code, text in entries(page)}


def matching(code: str, known: Mapping[str, str]) -> list[str]:
    """The codes that are meant: the code itself, else all that begin so, such as ``ssh``.

    Raises ``ProblemError``, which names near ones, when there are none.
    """
    word = code.strip("().").lower()
    found = [word] if word in known else [one for one in known if one.startswith(f"{word}.")]
    if not found:
        raise _unknown(code, known)
    return found


def _unknown(code: str, known: Mapping[str, str]) -> ProblemError:
    families = sorted({one.partition(".")[0] for one in known})
    near = difflib.get_close_matches(code, [*known, *families], n=_NEAR)
    hint = f"Did you mean {either(near)}?" if near else f"Codes begin with: {', '.join(families)}."
    return problem("cli.code", f"No message has the code {code[:60]!r}.", hint, "code")
