"""Decides when a site's login may ask the person: only after the person did something, never out of nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from clew_gui.ssh.prompts import ASKED_FOR, AskOnce, Prompt
from clew_shared.base.problem import problem

NEEDS_PERSON = "ssh.person"


class LoginPromptPolicy:
    """A ``Prompter``. While a login is ``dialling`` and the policy is shut, only what is remembered is answered; every
    other question is a ``ProblemError`` (``ssh.person``). Shut at first. Used from any thread."""

    def __init__(self, asker: AskOnce) -> None:
        self._asker = asker
        self._opened = False
        self._dials = 0

    def open(self) -> None:
        """The person did something that this site is needed for."""
        self._opened = True

    def shut(self) -> None:
        """Marks a request as answered: it was served, or refused."""
        self._opened = False

    @contextmanager
    def dialling(self) -> Iterator[None]:
        """Questions within belong to a login of the site itself."""
        self._dials += 1
        try:
            yield
        finally:
            self._dials -= 1

    def ask(self, prompt: Prompt) -> str | None:
        """See ``Prompter.ask``."""
        if self._opened or not self._dials:
            return self._asker.ask(prompt)
        known = self._asker.remembered(prompt)
        if known is None:
            text = f"{prompt.title} asks for {ASKED_FOR[prompt.kind]}."
            raise problem(NEEDS_PERSON, text, "Log in: the button is above Run, and under Cluster.", prompt.title)
        return known

    def refused(self, prompt: Prompt) -> None:
        """See ``Remembers.refused``."""
        self._asker.refused(prompt)

    def show_message(self, text: str) -> None:
        """See ``MessagePrompter``."""
        self._asker.show_message(text)
