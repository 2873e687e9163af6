"""Explains the code of a ``Problem``. Each code is declared by its entry in a page of ``clew_shared/problems``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from clew_shared.base.number_words import either
from clew_shared.base.problem import ProblemError, problem

PAGES = Path(__file__).parents[1] / "problems"
_NEAR = 3


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
