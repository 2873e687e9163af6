"""Sweeps: which values of which settings are tried, as a person writes them and as the list of points that follows.

A point is one choice of values. A grid, a random sweep and a list have all their points from the start, in an order
that depends on nothing but the sweep, so a sweep that was interrupted finds what is done and what is missing. A sampler
such as TPE chooses a point from the results of those before it (``clew_gui.session.study_runner``).
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from clew_shared.base.problem import Problem, did_you_mean
from clew_shared.cards import ExerciseCard
from clew_shared.params import HEADLINE, OPTIMIZER, ParamSpec, Value, convert, format_value, read_number

Method = Literal["grid", "random", "list", "tpe"]
Point = dict[str, Value]
MAX_RUNS = 1000
MOST_DEVICES = 1024
PLACES = ("devices", "nodes")
"""Axes over which the same training spreads. Their runs are timed; all have the seed of the base."""
FIELDS = ("strategy", *PLACES, "precision", "data")
"""The settings that a sweep can be over beside hyperparameters. Seeds repeat each point instead."""
_GRID_COUNT = 5
_FIGURES = 4
"""Number of figures to which a value between two limits is rounded, so that a person can read it and type it again."""


class Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers from ``low`` to ``high``; ``log``: evenly over their logarithms. A grid takes ``count`` of them."""

    low: float
    high: float
    log: bool = False
    count: int = _GRID_COUNT


Values = Range | tuple[Value, ...]


class Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``over`` has the values of each setting. A grid takes all combinations, random and tpe take ``count`` points, a
    list takes ``points`` as they are. Each point is run once for each of ``seeds`` (none: the seed of the base).

    ``draw`` is the seed of what is drawn. ``pruner`` ends runs early that do worse than others: median or halving.
    """

    method: Method = "grid"
    over: dict[str, Values] = {}
    points: tuple[Point, ...] = ()
    count: int = 0
    seeds: tuple[int, ...] = ()
    draw: int = 1
    pruner: Literal["", "median", "halving"] = ""

    @property
    def sampled(self) -> bool:
        """Whether a point depends on the results of those before it."""
        return self.method == "tpe"


def number_of_points(sweep: Sweep) -> int:
    """Returns how many points there will be."""
    if sweep.method == "list":
        return len(sweep.points)
    if sweep.method == "grid":
        return math.prod(_length(values) for values in sweep.over.values())
    return sweep.count


def _length(values: Values) -> int:
    return values.count if isinstance(values, Range) else len(values)


def points(sweep: Sweep) -> tuple[Point, ...]:
    """The points of a sweep that knows them all from the start, in their order; none of one that is sampled."""
    if sweep.method == "list":
        return sweep.points
    if sweep.method == "grid":
        columns = [_expanded(values) for values in sweep.over.values()]
        return tuple(dict(zip(sweep.over, row, strict=True)) for row in itertools.product(*columns))
    return tuple(_drawn(sweep)) if sweep.method == "random" else ()


def _expanded(values: Values) -> Sequence[Value]:
    if not isinstance(values, Range):
        return values
    if values.count == 1:
        return [tidy(values.low)]
    return [_between(values, k / (values.count - 1)) for k in range(values.count)]


def _drawn(sweep: Sweep) -> Iterator[Point]:
    dice = random.Random(sweep.draw)
    for _ in range(sweep.count):
        yield {name: draw(values, dice.random()) for name, values in sweep.over.items()}


def draw(values: Values, share: float) -> Value:
    """The value at ``share`` (0 to 1, 1 excluded) of the way through ``values``."""
    return _between(values, share) if isinstance(values, Range) else values[int(share * len(values))]


def _between(values: Range, share: float) -> float | int:
    if not values.log:
        return tidy(values.low + share * (values.high - values.low))
    return tidy(values.low * (values.high / values.low) ** share)


def tidy(value: float) -> float | int:
    """The number rounded to a few figures; a whole one without a point."""
    rounded = float(f"{value:.{_FIGURES}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def typed(point: Mapping[str, Value], card: ExerciseCard) -> Point:
    """The point with values of the kinds that the exercise wants: 16.4 of a whole number is 16."""
    whole = {"devices", "nodes", *(param.name for param in card.params if param.type.python is int)}
    return {
        name: round(value) if name in whole and isinstance(value, float) else value for name, value in point.items()
    }


def settled(sweep: Sweep, card: ExerciseCard) -> Sweep:
    """The same sweep as a list of its points, none of them twice; a sampled one as it is."""
    if sweep.sampled:
        return sweep
    found = {repr(sorted(one.items())): one for one in (typed(point, card) for point in points(sweep))}
    return msgspec.structs.replace(sweep, method="list", over={}, points=tuple(found.values()), count=0)


def point_title(point: Mapping[str, Value], seed: int | None = None) -> str:
    """``adam 0.1, batch size 64, seed 2``; a rate without its optimizer is named: ``learning rate 0.1``."""
    short = HEADLINE if OPTIMIZER in point else ()
    plain = " ".join(format_value(point[name]) for name in short if name in point)
    others = [setting_words(name, value) for name, value in point.items() if name not in short]
    return ", ".join([part for part in (plain, *others) if part] + ([f"seed {seed}"] if seed is not None else []))


def setting_words(name: str, value: Value) -> str:
    """A hyperparameter with its value where its exercise is not known: ``batch size 64``."""
    return f"{name.replace('_', ' ')} {format_value(value) or 'none'}"


# --- Checking ---------------------------------------------------------------------------------------------------------


def check_sweep(sweep: Sweep, card: ExerciseCard | None = None) -> Iterator[Problem]:
    """Returns everything that is wrong with a sweep; the values of its runs are checked as those of any run."""
    if sweep.method == "list":
        yield from _check_list(sweep)
    else:
        yield from _check_over(sweep)
    if sweep.method in ("random", "tpe") and sweep.count < 1:
        text = f"A sweep with the method {sweep.method} must say how many points it takes, got count = {sweep.count}."
        yield Problem("sweep.count", text, "Write count = 20.", "count")
    runs = number_of_points(sweep) * max(1, len(sweep.seeds))
    if runs > MAX_RUNS:
        text = f"A sweep has at most {MAX_RUNS:,} runs, this one would have {runs:,}."
        yield Problem("sweep.large", text, "Take fewer values, or the method random with a count.", "over")
        return
    if len(set(sweep.seeds)) < len(sweep.seeds):
        yield Problem("sweep.seeds", "A seed is listed twice.", "Each seed repeats the whole sweep once.", "seeds")
    names = dict.fromkeys([*sweep.over, *(name for point in sweep.points for name in point)])
    if card is not None:
        yield from _check_names(list(names), card)
    yield from _check_counts(sweep)


def _check_list(sweep: Sweep) -> Iterator[Problem]:
    if not sweep.points or sweep.over:
        text = "A sweep with the method list has its points in [[sweep.points]], and no over."
        yield Problem("sweep.points", text, "Write one table [[sweep.points]] for each run.", "points")
    shown = [repr(sorted(point.items())) for point in sweep.points]
    if len(set(shown)) < len(shown):
        yield Problem("sweep.points", "Two points have the same values.", "Use seeds to repeat a point.", "points")


def _check_over(sweep: Sweep) -> Iterator[Problem]:
    if not sweep.over or sweep.points:
        text = f"A sweep with the method {sweep.method} needs values in [sweep.over], and has no points."
        yield Problem("sweep.over", text, "Write [sweep.over] with learning_rate = [0.01, 0.1], for example.", "over")
    for name, values in sweep.over.items():
        if not isinstance(values, Range):
            yield from _check_values(name, values)
        elif not (math.isfinite(values.low) and math.isfinite(values.high) and values.low < values.high):
            text = f"{name}: the range must go from a lower to a higher number, got {values.low:g} to {values.high:g}."
            yield Problem("sweep.range", text, "Swap the limits.", name)
        elif values.log and values.low <= 0:
            text = f"{name}: a logarithmic range must begin above 0, got {values.low:g}."
            yield Problem("sweep.range", text, "Begin at 0.0001, for example.", name)
        elif values.count < 1:
            yield Problem("sweep.range", f"{name}: count must be 1 or more, got {values.count}.", "", name)


def _check_values(name: str, values: Sequence[Value]) -> Iterator[Problem]:
    if not values:
        yield Problem("sweep.values", f"{name}: there are no values.", "Name at least one.", name)
    shown = [format_value(value) for value in values]
    for value in doubled(shown):
        yield Problem("sweep.values", f"{name}: the value {value} is listed twice.", "Remove one.", name)


def doubled(words: Iterable[str]) -> list[str]:
    """Returns the words that are there more than once."""
    return [word for word, count in Counter(words).items() if count > 1]


def _check_counts(sweep: Sweep) -> Iterator[Problem]:
    """Checks that numbers of devices and nodes are such before anything is counted with them."""
    for name in PLACES:
        over = sweep.over.get(name, ())
        values = (over.low, over.high) if isinstance(over, Range) else over
        for value in (*values, *(point[name] for point in sweep.points if name in point)):
            number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
            if not 1 <= number <= MOST_DEVICES or number != int(number):
                text = f"The number of {name} must be a whole number from 1 to {MOST_DEVICES:,}, got {value!r}."
                yield Problem("sweep.count", text, f"Write {name} = [1, 2].", name)


def _check_names(names: Sequence[str], card: ExerciseCard) -> Iterator[Problem]:
    known = [*(param.name for param in card.params), *FIELDS]
    for name in names:
        if name == "seed":
            yield Problem("sweep.name", "Seeds are not an axis of a sweep.", "Write seeds = [1, 2] into [sweep].", name)
        elif name not in known:
            hint = did_you_mean(name, known) or f"Known: {', '.join(known)}."
            yield Problem("sweep.name", f"{card.id} has no setting {name!r}.", hint, name)


# --- Typed by a person ------------------------------------------------------------------------------------------------

_RANGE = re.compile(
    r"^\s*(?P<low>[-+0-9.,e]+?)\s*(?:\.\.|\bto\b|…)\s*(?P<high>[-+0-9.,e]+)"
    r"(?:\s*(?P<log>log))?(?:\s*(?:[x×:]\s*)?(?P<count>[0-9]+))?\s*$",
    re.IGNORECASE,
)


def is_many(text: str) -> bool:
    """Whether a person who typed this means several values: ``0.01, 0.1``, ``0.001 to 1 log 4``."""
    return bool(_RANGE.match(text)) or len(_listed(text)) > 1


def _listed(text: str) -> list[str]:
    """The words of a list. A comma without a space is one inside a number: 25,000."""
    return [word.strip() for word in re.split(r";|,\s+|,$", text) if word.strip()]


def read_values(spec: ParamSpec, text: str) -> tuple[tuple[Value, ...], list[Problem]]:
    """The values that ``text`` names for a hyperparameter, and what is wrong with them."""
    limits = read_range(text)
    if limits is None:
        read = [convert(spec, word) for word in _listed(text)]
        return tuple(value for value, wrong in read if wrong is None), [wrong for _, wrong in read if wrong is not None]
    problems = list(_check_over(Sweep(over={spec.label: limits})))
    if not problems and limits.count > MAX_RUNS:
        problems = [Problem("sweep.large", f"{spec.label}: at most {MAX_RUNS:,} values.", "Take fewer.", spec.name)]
    if problems:
        return (), problems
    whole = spec.type.python is int
    values = [round(v) if whole and isinstance(v, float) else v for v in _expanded(limits)]
    wrong = [found for found in (convert(spec, format_value(value))[1] for value in values) if found is not None]
    return tuple(dict.fromkeys(values)), wrong[:1]


def read_range(text: str) -> Range | None:
    """The range that ``0.001 to 1 log 5`` names; None where it is none, or its numbers are none (``0,5 to 2,5``)."""
    found = _RANGE.match(text)
    try:
        low, high = (read_number(found[name]) for name in ("low", "high")) if found else (0.0, 0.0)
    except ValueError:
        return None
    return (
        Range(low=low, high=high, log=bool(found["log"]), count=int(found["count"] or _GRID_COUNT)) if found else None
    )
