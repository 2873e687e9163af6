"""What a trace of a run's steps says, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clew_gui.study.usage import share
from clew_shared.base.number_words import counted
from clew_shared.journal.events import Trace
from clew_shared.journal.trace import KINDS, PARTS, all_seconds, most_expensive, shares

_BAR = 50
"""Characters of the bar in a terminal."""


def time_words(seconds: float) -> str:
    """``12 µs``, ``2.34 ms``, ``1.2 s``: three figures at most."""
    size, unit = next(((size, unit) for size, unit in ((1.0, "s"), (1e-3, "ms")) if seconds >= size), (1e-6, "µs"))
    value = seconds / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def _steps_words(event: Trace) -> str:
    """``Steps 1 to 20, 2.34 ms each``."""
    each = time_words(event.seconds / event.count)
    if event.count == 1:
        return f"Step {event.step + 1:,}, {each}"
    return f"Steps {event.step + 1:,} to {event.step + event.count:,}, {each} each"


def trace_words(event: Trace) -> str:
    """``Steps 1 to 20, 2.34 ms each: compute 91 %, input 4.0 %, host 5.0 %.``: where a step's time goes."""
    parts = ", ".join(f"{PARTS[name].lower()} {share(part)}" for name, part in shares(event).items() if part >= 0.0005)
    return f"{_steps_words(event)}: {parts}."


def most_expensive_words(event: Trace) -> str:
    """The ten most expensive operations, each on a line: ``MatMul: matrix product, 2 times, 2.50 ms, 83 %``."""
    total = all_seconds(event)
    return "\n".join(
        f"{one.name}: {KINDS[one.kind].lower()}, {counted(one.times, 'time')}, {time_words(one.seconds)}, "
        f"{share(one.seconds / total)}"
        for one in most_expensive(event)
    )


def trace_lines(event: Trace) -> Iterator[str]:
    """Yields where a step's time goes as a bar, and the ten most expensive operations as a table."""
    yield trace_words(event)
    yield f"  [{''.join(_letters(shares(event)))}]"
    found, total = most_expensive(event), all_seconds(event)
    wide = max((len(one.name) for one in found), default=0)
    for one in found:
        times = f"{counted(one.times, 'time'):>12}  {time_words(one.seconds):>8}  {share(one.seconds / total):>6}"
        yield f"  {one.name.ljust(wide)}  {KINDS[one.kind]:<18}{times}"
    if event.left_out:
        few = counted(event.left_out, "shortest operation")
        yield f"The exported timeline leaves out the {few} to save room; the bar and the sums count them."


def _letters(parts: Mapping[str, float]) -> Iterator[str]:
    """The first letter of each part, as often as it takes of the bar; a dot for idle."""
    end = 0.0
    for name, part in parts.items():
        start, end = end, end + part
        yield ("." if name == "idle" else name[0]) * (round(_BAR * end) - round(_BAR * start))
