"""Shows a running exercise in a terminal: a live picture, or plain lines if the output is no terminal."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import IO, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clew_gui.commands.output import words
from clew_gui.commands.output.braille import plot
from clew_gui.commands.output.standstill import Standstill
from clew_shared.base.harmless import say
from clew_shared.base.number_words import quantity, rate
from clew_shared.cards import ExerciseCard, PlotSpec
from clew_shared.journal.events import Log
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunState

_REDRAW_S = 0.25
_DRAWING_SHARE = 20
"""The least pause after a drawing, as a multiple of its time: drawing takes at most a twentieth of one core, which the
training beside it loses."""
_PLAIN_EVERY_S = 5.0
_PLOT_ROWS = 8
_TWO_PLOTS_FROM = 100
_STYLES = {RunState.FINISHED: "green", RunState.FAILED: "red", RunState.TIMED_OUT: "red", RunState.PAUSED: "yellow"}


class Display(Protocol):
    """Shows a history as it grows."""

    def show(self, history: History, note: str = "", last: bool = False, still: Standstill | None = None) -> None:
        """Bring the display up to date, when it is time; ``last`` does it in any case. ``note`` is about stopping,
        ``still`` says why nothing moves."""

    def close(self, discard: bool = False) -> None:
        """Leave the terminal in order; ``discard`` removes what was drawn."""


class LiveDisplay:
    """A picture that is redrawn in place: progress, values, and the curves in braille."""

    def __init__(self, console: Console, card: ExerciseCard | None, title: str, after_attempt: int = 0) -> None:
        self._card = card
        self._after_attempt = after_attempt
        self._title = title
        self._console = console
        self._live = Live(
            console=console, auto_refresh=False, transient=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()
        self._next = 0.0

    def show(self, history: History, note: str = "", last: bool = False, still: Standstill | None = None) -> None:
        """Redraw at most four times a second, less often when drawing is slow."""
        begin = time.monotonic()
        if (begin < self._next and not last) or history.fold.attempt <= self._after_attempt:
            return
        shown = picture(history, self._card, self._title, self._console.width, note, still)
        self._live.update(shown, refresh=True)
        end = time.monotonic()
        self._next = end + max(_REDRAW_S, _DRAWING_SHARE * (end - begin))

    def close(self, discard: bool = False) -> None:
        """End the live picture; its last state stays on the screen unless it is to be discarded."""
        if discard:
            self._live.update(Text(""), refresh=True)
        self._live.stop()


class PlainDisplay:
    """Prints one line for each evaluation and sentence of the run, one every five seconds, and one when it stops moving
    or moves again.

    While ``ready`` says no, because nobody reads, nothing is printed and nothing waits: the run's copying goes on.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        card: ExerciseCard | None,
        title: str,
        after_attempt: int = 0,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._say = say
        self._ready = ready
        self._after_attempt = after_attempt
        self._card = card
        self._title: str | None = title
        self._shown: dict[int, Log] = {}
        self._evaluated = -1
        self._step = 0
        self._next = 0.0
        self._note = ""
        self._paused = False
        self._still: Standstill | None = None
        self._stood_at = (0, 0)

    def show(self, history: History, note: str = "", last: bool = False, still: Standstill | None = None) -> None:
        """Print what is new."""
        if history.fold.attempt <= self._after_attempt or not (last or self._ready()):
            return
        logs = history.logs_since(self._after_attempt + 1)  # a run that goes on: what it said before is known
        if self._title is not None and (logs or history.fold.step):  # nothing of a run that may be refused
            self._say(self._title)
            self._title = None
        for log in logs:
            if id(log) not in self._shown and log.level != "debug":
                if not (last or self._ready()):
                    return
                self._say(f"  {log.text}")
            self._shown[id(log)] = log  # kept, so that no other can have its id
        if note != self._note:
            self._say(f"  {note}")
            self._note = note
        self._report_pause(history)
        self._report_still(history, still, last)
        evaluated = last_evaluation(history)
        new = history.fold.step > self._step and (last or time.monotonic() >= self._next)
        if new or evaluated > self._evaluated:
            self._say(f"  {progress_line(history)}  {values_line(history, self._card)}")
            self._evaluated, self._step = evaluated, history.fold.step
            self._next = time.monotonic() + _PLAIN_EVERY_S

    def _report_pause(self, history: History) -> None:
        """Says that the run waits, for a person or for space on the disk, and that it goes on."""
        paused = history.fold.state is RunState.PAUSED
        if paused != self._paused:
            reason = f": {history.fold.reason}" if history.fold.reason else "."
            self._say(f"  Paused{reason}" if paused else "  It goes on.")
            self._paused = paused

    def _report_still(self, history: History, still: Standstill | None, last: bool) -> None:
        """Says why it does not move, and that it does again: only a further step shows that, and not what is fetched
        after its end."""
        before, place = self._still, (history.fold.attempt, history.fold.step)
        if still is not None:
            if before is None or before.text != still.text:
                self._say(f"  {still.text}")
            self._still, self._stood_at = still, place if before is None else self._stood_at
        elif before is not None and (last or history.fold.done or place != self._stood_at):
            self._still = None
            if not (last or history.fold.done):
                self._say(f"  It moves again after {words.duration(time.time() - before.since)}.")

    def close(self, discard: bool = False) -> None:
        """Ends the display; the printed lines stay."""


def choose_display(console: Console, card: ExerciseCard | None, title: str, after_attempt: int = 0) -> Display:
    """A live picture on a terminal, else plain lines. It shows only attempts later than ``after_attempt``, because
    the agent may refuse to continue a run."""
    if console.is_terminal:
        return LiveDisplay(console, card, title, after_attempt)

    return PlainDisplay(partial(say, file=console.file), card, title, after_attempt, partial(takes_more, console.file))


def takes_more(file: IO[str]) -> bool:
    """Whether a line can be written without waiting for the reader of ``file``; True where that is not known.

    A pipe whose reader is busy elsewhere is full after 64 KiB: a few minutes of lines.
    """
    try:
        return bool(select.select((), (file,), (), 0)[1])
    except (OSError, ValueError):  # no file of the system's; on Windows only a socket can be asked
        return True


def last_evaluation(history: History) -> int:
    """Returns after how many updates the latest evaluation was; -1 before the first."""
    evaluated = (history.column(name).steps for name, metric in history.metrics.items() if not metric.per_step)
    return max((int(steps[-1]) for steps in evaluated if len(steps)), default=-1)


def progress_line(history: History, moves: bool = True) -> str:
    """``step 320 of 500, 6,203 steps/s, 0.3 s left``; only the step when nothing ``moves``."""
    fold = history.fold
    parts = [f"step {fold.step:,} of {fold.steps:,}" if fold.steps else f"step {fold.step:,}"]
    if not moves:
        return parts[0]
    speed = history.steps_per_second()
    if speed:
        parts.append(rate(speed))
    left = seconds_left(history)
    if left is not None:
        parts.append(f"{words.duration(left)} left")
    return ", ".join(parts)


def seconds_left(history: History) -> float | None:
    """Returns how long the remaining steps take at the rate that is shown; None if unknown or nothing remains."""
    fold = history.fold
    speed = history.steps_per_second()
    if not speed or fold.state in (*TERMINAL, RunState.PAUSED) or fold.step >= fold.steps:
        return None
    return (fold.steps - fold.step) / speed


def values_line(history: History, card: ExerciseCard | None) -> str:
    """The latest value of each metric, separated by commas."""
    shown = []
    for name in history.recorded():
        value = history.last(name)
        if value is not None:
            shown.append(words.metric_value(words.metric_of(card, name, history), value))
    return ", ".join(shown)


def picture(
    history: History,
    card: ExerciseCard | None,
    title: str,
    width: int,
    note: str = "",
    still: Standstill | None = None,
) -> RenderableType:
    """Draws everything worth seeing of a run, ``width`` columns wide."""
    fold = history.fold
    state = words.state_word(fold.state if fold.attempt else None)
    style = "yellow" if still is not None else _STYLES.get(fold.state, "blue")
    head = Text.assemble((state, f"bold {style}"), "  ", progress_line(history, moves=still is None))
    if fold.reason:
        head.append(f"  {fold.reason}", style="dim")
    bar = Table.grid()  # a bar alone ends no line
    bar.add_row(ProgressBar(total=max(fold.steps, 1), completed=min(fold.step, max(fold.steps, 1)), width=width))
    parts: list[RenderableType] = [Text(title, style="bold"), head, bar, curves(history, card, width)]
    parts.append(Text(values_line(history, card)))
    if history.first_nonfinite:
        parts.append(Text(words.not_finite(history, card), style="red"))
    if history.logs and not fold.done:
        parts.append(Text(history.logs[-1].text, style="dim"))
    if still is not None:
        parts.append(Text(f"{still.text} ({words.duration(time.time() - still.since)})", style="yellow"))
    if note:
        parts.append(Text(note, style="yellow"))
    return Group(*parts)


def curves(history: History, card: ExerciseCard | None, width: int) -> RenderableType:
    """The exercise's first plots: two side by side in a wide terminal, one in a narrow one."""
    wanted = [] if history.series else _plots(history, card)  # of a measurement the table at its end says more
    plots = [spec for spec in wanted if len(history.column(spec.metrics[0]).steps)]
    plots = plots[: 2 if width >= _TWO_PLOTS_FROM else 1]
    if not plots:
        return Text("")
    grid = Table.grid(padding=(0, 2, 0, 0))
    each = width // len(plots) - 2
    grid.add_row(*(curve(history, spec, each) for spec in plots))
    return grid


def _plots(history: History, card: ExerciseCard | None) -> Sequence[PlotSpec]:
    if card and card.plots:
        return card.plots
    known = [words.metric_of(None, name, history) for name in history.recorded()]
    return [PlotSpec(id=one.name, title=one.label, metrics=(one.name,), format=one.format) for one in known]


def _has_decades(history: History, metric: str, ratio: float) -> bool:
    """Whether all values are positive, and the greatest is so many times the least at least."""
    values = history.column(metric).values
    if not len(values) or metric in history.first_nonfinite:
        return False
    low = values.min()
    return bool(low > 0 and values.max() >= ratio * low)


def curve(history: History, spec: PlotSpec, width: int) -> Text:
    """Draws one plot with its title, the values at its edges, and the step axis."""
    column = history.column(spec.metrics[0])
    log = (spec.log or spec.format == "number") and _has_decades(history, spec.metrics[0], 1 if spec.log else 100)
    last = max(history.fold.steps, int(column.steps[-1]) + 1)
    room = max(width - 10, 10)
    drawn = plot(column.steps, column.values, room, _PLOT_ROWS, last, log)
    edges = {0: quantity(drawn.top, spec.format), _PLOT_ROWS - 1: quantity(drawn.bottom, spec.format)}
    text = Text(no_wrap=True)
    text.append(f"{spec.title}{' (logarithmic)' if log else ''}\n", style="dim")
    for row, line in enumerate(drawn.lines):
        text.append(f"{edges.get(row, ''):>8} │", style="dim")
        text.append(f"{line}\n", style="blue")
    text.append(f"{'':>8} └0{f'{last:,} steps':>{room - 1}}", style="dim")
    return text
