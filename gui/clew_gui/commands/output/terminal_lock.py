"""Questions of a login and a picture that is redrawn share one terminal: while one asks, nobody draws."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from clew_gui.ssh.prompts import MessagePrompter, Prompt, Prompter


class TerminalLock:
    """A ``Prompter`` that hands questions on to ``prompter``. ``asked`` counts them and messages."""

    def __init__(self, prompter: Prompter) -> None:
        self.asked = 0
        self._prompter = prompter
        self._stage = threading.Lock()

    def ask(self, prompt: Prompt) -> str | None:
        """Asks as ``Prompter.ask`` does; waits until what is being drawn is there."""
        with self._stage:
            self.asked += 1
            return self._prompter.ask(prompt)

    def show_message(self, text: str) -> None:
        """See ``MessagePrompter``; waits as ``ask``."""
        if isinstance(self._prompter, MessagePrompter):
            with self._stage:
                self.asked += 1
                self._prompter.show_message(text)

    @contextmanager
    def drawing(self) -> Iterator[bool]:
        """Whether the terminal may be written to within."""
        free = self._stage.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._stage.release()
