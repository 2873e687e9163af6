"""Rich's console for text of strangers: control characters are shown, not obeyed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from clew_shared.base.harmless import for_terminal


class HarmlessConsole(Console):
    """A console that prints what it is given as it is, but for control characters."""

    def render_str(self, text: str, **settings: Any) -> Text:
        """The text as Rich lays it out: with its escapes, so that columns are as wide as what is shown."""
        return super().render_str(for_terminal(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The pieces of what is printed; those that move the cursor or colour are Rich's own."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(for_terminal(piece.text), piece.style)
