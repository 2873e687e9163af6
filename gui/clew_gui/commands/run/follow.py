"""Follows a run to its end, wherever it trains: the one loop between what comes in and what a terminal shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from clew_gui.commands.context import CommandContext
from clew_gui.commands.output.progress import Display, choose_display
from clew_gui.commands.output.standstill import Standstill
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import FrameReader, Record, attempts, journal_path
from clew_shared.journal.history import History

_CHUNK = 1 << 20


class FollowedRun(ABC):
    """A run that a command follows. ``stops`` counts requests to stop, and each is passed on once; attempts up to
    ``after_attempt`` belong to an earlier command. With ``as_json`` standard output is for the summary alone."""

    notes: tuple[str, ...]
    """The sentences after no request to stop, after the first one, and so on."""

    def __init__(
        self, context: CommandContext, as_json: bool, stops: Callable[[], int] = lambda: 0, after_attempt: int = 0
    ) -> None:
        self.context, self.as_json = context, as_json
        self.say = context.note if as_json else context.say
        self.aside: list[Problem] = []
        """What is to be reported at once although the run goes on as if nothing had happened."""
        self.asked = 0
        """How often a person asked for its end."""
        self.discard = False
        """Whether nothing of it is to stay on the screen, because it was refused after all."""
        self._stops = stops
        self._after_attempt = after_attempt
        self._shown = ""
        self._noted = 0

    @property
    def note(self) -> str:
        """Says what becomes of the latest request to stop."""
        return self.notes[min(self.asked, len(self.notes) - 1)]

    @property
    @abstractmethod
    def history(self) -> History:
        """The contents of its journal so far."""

    @abstractmethod
    def take_in(self) -> None:
        """Takes in what came; waits a moment if nothing did."""

    @abstractmethod
    def stop(self, request: int) -> None:
        """Passes on a person's request to stop, the first, second or later one."""

    @abstractmethod
    def complete(self) -> bool:
        """Whether it has ended and nothing more comes."""

    def waiting(self) -> str:
        """Says what it waits for while nothing of it can be shown; empty if there is nothing to say."""
        return ""

    def is_overwritten(self) -> bool:
        """Whether something was or will be written below the picture, so that another one begins there."""
        return bool(self.aside)

    def standstill(self) -> Standstill | None:
        """Says why it does not move."""
        return None

    def shown_after(self) -> int:
        """Returns the attempt up to which nothing is shown."""
        return self._after_attempt

    def drawing(self) -> AbstractContextManager[bool]:
        """Whether the terminal may be written to within."""
        return nullcontext(True)

    def turn(self) -> None:
        """Takes in what came, and passes requests to stop on."""
        self.take_in()
        while self.asked < self._stops():
            self.asked += 1
            self.stop(self.asked)

    def say_wait(self) -> None:
        """Answers a request to stop, and says what it waits for, each sentence once."""
        if self.asked > self._noted and self.note:
            with self.drawing() as free:
                if free:
                    self.say(self.note)
                    self._noted = self.asked
        text = self.waiting()
        if not text or text == self._shown:
            return
        with self.drawing() as free:
            if free:
                self.say(f"{text}{self.hint()}" if not self._shown else text)
                self._shown = text

    def hint(self) -> str:
        """Returns what is said beside the first sentence about waiting."""
        return ""

    def report_aside(self) -> None:
        """Reports what is to be reported at once."""
        if self.aside:
            with self.drawing() as free:
                if free:
                    for found in self.aside:
                        self.context.report(found)
                    self.aside.clear()

    def to_the_end(self, card: ExerciseCard | None, heading: str) -> None:
        """Shows the run under this heading until it is complete."""
        display: Display | None = None
        after_attempt = self.shown_after()
        try:
            while not self.complete():
                self.turn()
                if display is not None and self.is_overwritten():
                    display.close()
                    display = None
                self.report_aside()
                if self.history.fold.attempt <= after_attempt:
                    self.say_wait()
                    continue
                with self.drawing() as free:
                    if free:
                        console = self.context.console(err=self.as_json)
                        display = display or choose_display(console, card, heading, after_attempt)
                        last = self.complete()
                        display.show(self.history, self.note, last, None if last else self.standstill())
        finally:
            if display is not None:
                display.close(discard=self.discard)


# --- Journals ---------------------------------------------------------------------------------------------------------
# Reads a run folder's journals while they grow.


class Follower:
    """The history of the run in ``folder``, kept up to date by ``poll``. The folder may appear later."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history = History()
        self._files: dict[int, tuple[BinaryIO, FrameReader]] = {}

    def poll(self) -> bool:
        """Take everything that was written since the last call; returns whether there was anything."""
        for attempt in attempts(self.folder):
            if attempt not in self._files:
                with suppress(FileNotFoundError):  # that of a refused run is removed again
                    self._files[attempt] = journal_path(self.folder, attempt).open("rb"), FrameReader()
        taken = [self._take(attempt, *opened) for attempt, opened in self._files.items()]
        return any(taken)

    def _take(self, attempt: int, file: BinaryIO, reader: FrameReader) -> bool:
        any_new = False
        file.seek(reader.rewind())
        while chunk := file.read(_CHUNK):
            for found in reader.feed(chunk):
                any_new = True
                if isinstance(found, Record):
                    self.history.feed(attempt, found.event, found.offset)
                else:
                    self.history.note(attempt, found)
        return any_new

    def close(self) -> None:
        """Close the journals."""
        for file, _ in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
