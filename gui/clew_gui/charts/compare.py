"""The Compare tab: its groups of runs and their table, and its charts: curves with bands, a scatter plot, parallel
coordinates. A group is the runs that differ in nothing but the seed, or a single run.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, NamedTuple, TypeGuard

import numpy as np

from clew_gui.base.state_words import NONE
from clew_gui.base.tokens import FontKind, Theme, mixed
from clew_gui.charts.kit.axes import FOOT, draw_foot, draw_grid
from clew_gui.charts.kit.drawing import Chart, Drawing, Shape, Stroke, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box, FloatArray, spread
from clew_gui.charts.kit.readbox import draw_lines
from clew_gui.charts.kit.svg import ChartPage
from clew_gui.charts.kit.ticks import Format, Span, Tick, linear_ticks, log_ticks, span_of, value_text
from clew_gui.study.comparison import Band, Outcome, band_of, best_value, curve_of, outcome_of
from clew_gui.study.importance import Importance, importance_words, share_words
from clew_gui.study.usage import group_usage, usage_table
from clew_shared.base.number_words import difference, number_ranges, quantity
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.journal.history import History
from clew_shared.params import HEADLINE, LEARNING_RATE, Value
from clew_shared.run_settings import SEED, differences, inside, label_of, repeats_of, setting_words, short_words

POINTS = 240
"""Points of a curve; hardly any plot could show more."""
RESULT, STEPS_TO, SECONDS_TO = "best", "steps_to_target", "seconds_to_target"
"""The values that colour groups or stand in a scatter plot beside settings: the metric's best value, and steps and
seconds to the target."""


class ComparedRun(NamedTuple):
    """A run to compare. ``name`` is what a person called it; ``version`` changes when its history went on; ``style`` is
    that of its curve where it is drawn elsewhere as well, else -1."""

    id: str
    number: int
    name: str
    settings: Mapping[str, Value]
    history: History
    version: object = None
    style: int = -1


class CompareOptions(NamedTuple):
    """The options of the comparison: the metric, the setting that colours (empty: each group its own), whether repeats
    are one group, the target of the time to it, the scatter's x, logarithmic values."""

    metric: str
    colour: str = ""
    group: bool = True
    target: float | None = None
    x: str = ""
    log: bool = False


class Ink(NamedTuple):
    """The colour of a group: a place from 0 to 1 on a scale, or the number of a curve style where it is None."""

    place: float | None
    style: int


@dataclass(frozen=True, eq=False)
class CompareGroup:
    """Runs that repeat each other, with their outcome and their curve; ``band`` where there are several."""

    runs: tuple[ComparedRun, ...]
    title: str
    outcome: Outcome
    ink: Ink
    baseline: bool
    x: FloatArray
    y: FloatArray
    band: Band | None


@dataclass(frozen=True, eq=False)
class CompareAxis:
    """The range of an axis, in its own coordinates (log10 with ``log``), and its ticks; ``kinds`` are 0, 1, 2, …"""

    name: str
    title: str
    span: Span
    ticks: tuple[Tick, ...]
    log: bool = False
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CompareScene:
    """Everything that the tab shows. ``places`` are the groups in the scatter, by their number; ``paths`` has for each
    group its coordinate on each of ``parallel`` (NaN: it has none)."""

    metric: MetricSpec
    groups: tuple[CompareGroup, ...]
    x: CompareAxis
    y: CompareAxis
    scatter: tuple[CompareAxis, CompareAxis]
    places: Mapping[int, tuple[float, float]]
    parallel: tuple[CompareAxis, ...]
    paths: FloatArray
    table: tuple[tuple[str, ...], ...]
    legend: tuple[tuple[Ink, str], ...]
    coloured_by: str
    shares: Mapping[str, str] = field(default_factory=dict)
    """How much each setting matters, in words, as far as Optuna can tell."""
    told: str = ""
    """What is said of that below the parallel axes."""


class CurveCache:
    """Thinned curves of runs, computed again only for runs that went on."""

    def __init__(self) -> None:
        self._curves: dict[tuple[str, str], tuple[object, tuple[FloatArray, FloatArray]]] = {}

    def curve(self, run: ComparedRun, metric: str) -> tuple[FloatArray, FloatArray]:
        """The run's curve."""
        known = self._curves.get((run.id, metric))
        if known is None or known[0] != run.version:
            known = (run.version, curve_of(run.history.column(metric), POINTS))
            self._curves[run.id, metric] = known
        return known[1]


def compare_scene(
    runs: Sequence[ComparedRun], card: ExerciseCard, options: CompareOptions, baseline: str, cache: CurveCache
) -> CompareScene:
    """The picture of these runs, of which ``baseline`` is the id of one or empty."""
    unknown = MetricSpec(name=options.metric, label=options.metric)
    metric = next((one for one in card.metrics if one.name == options.metric), unknown)
    by_id = {run.id: run for run in runs}
    settings = {run.id: run.settings for run in runs}
    repeats = repeats_of(settings) if options.group else [(run,) for run in by_id]
    repeats = sorted(repeats, key=lambda group: baseline not in group)
    members = [tuple(by_id[run] for run in group) for group in repeats]
    found = differences([group[0].settings for group in members])
    differ = [one.name for one in found if not options.group or one.name != SEED]

    def group_of(runs: tuple[ComparedRun, ...], ink: Ink) -> CompareGroup:
        bests = {run.id: best_value(run.history, metric.name, metric.better) for run in runs}
        histories = [(run.id, run.history) for run in runs]
        outcome = outcome_of(histories, metric.name, metric.better, options.target, bests.get)
        x, y = cache.curve(runs[0], metric.name)
        band = None
        if len(runs) > 1:
            band = band_of([run.history.column(metric.name) for run in runs], POINTS)
            x, y = (band.x, band.mean) if band is not None else (x, y)
        return CompareGroup(runs, title_of(runs, differ, card), outcome, ink, baseline in bests, x, y, band)

    groups = tuple(map(group_of, members, _own_inks([group[0].style for group in members])))
    legend: tuple[tuple[Ink, str], ...] = ()
    if options.colour:
        values = [_value(group, options.colour) for group in groups]
        inks, legend = _inks(values, partial(_words_of, options.colour, metric, card))
        groups = tuple(replace(group, ink=ink) for group, ink in zip(groups, inks, strict=True))
    x_axis, y_axis = _curve_axes(groups, metric, options.log)
    scatter, places = _scatter(groups, differ, metric, options.x, options.log, card)
    parallel, paths = _parallel(groups, differ, metric, card)
    outcomes = [(group.runs, group.outcome) for group in groups]
    has_baseline = bool(groups) and groups[0].baseline
    table = compare_table(outcomes, differ, metric, options.target, card, has_baseline)
    title = best_words(metric) if options.colour == RESULT else label_of(options.colour, card) if options.colour else ""
    return CompareScene(metric, groups, x_axis, y_axis, scatter, places, parallel, paths, table, legend, title)


def title_of(runs: Sequence[ComparedRun], differ: Sequence[str], card: ExerciseCard | None) -> str:
    """``7  Warm start``, ``3  Adam 0.003``, ``3–6 (4), 9  Adam``: numbers, and the name or the settings in which they
    differ."""
    numbers = number_ranges(run.number for run in runs)
    settings = runs[0].settings
    shown: dict[str, Value] = {name: setting_words(name, settings.get(name), card) or None for name in differ}
    names = {re.sub(r"(^|, )seed \d+$", "", run.name) if len(runs) > 1 else run.name for run in runs}
    main = sorted(differ, key=lambda name: name not in HEADLINE)[:3]
    words = (names.pop() if len(names) == 1 else "") or short_words(shown, main)
    return f"{numbers}  {words}".rstrip()


# --- Colours ----------------------------------------------------------------------------------------------------------


def _inks(values: Sequence[Value], words: Callable[[Value], str]) -> tuple[list[Ink], tuple[tuple[Ink, str], ...]]:
    """A colour for each group, and the legend, in whose ``words`` the values are. Numbers that take three values or
    more are places on a scale."""
    numbers = sorted({float(value) for value in values if isinstance(value, int | float) and _is_number(value)})
    if len(numbers) >= 3:
        low, high, log = numbers[0], numbers[-1], numbers[0] > 0 and numbers[-1] > 20 * numbers[0]

        def place(value: Value) -> Ink:
            return Ink(_share(float(value), low, high, log), 0) if _is_number(value) else Ink(None, 0)

        shown = numbers if len(numbers) <= 7 else [numbers[round(k * (len(numbers) - 1) / 6)] for k in range(7)]
        return [place(value) for value in values], tuple((place(value), words(value)) for value in shown)
    texts = [words(value) for value in values]
    kinds = list(dict.fromkeys(texts))
    return [Ink(None, kinds.index(text)) for text in texts], tuple((Ink(None, k), text) for k, text in enumerate(kinds))


def _words_of(name: str, metric: MetricSpec, card: ExerciseCard, value: Value) -> str:
    if name == RESULT and isinstance(value, int | float):
        return quantity(value, metric.format)
    return setting_words(name, value, card) or NONE


def _own_inks(styles: Sequence[int]) -> list[Ink]:
    """Gives each group the colour of its first run in the other plots; the others get free ones."""
    free = (place for place in itertools.count() if place not in styles)
    return [Ink(None, style if style >= 0 else next(free)) for style in styles]


def _is_number(value: Value) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _share(value: float, low: float, high: float, log: bool) -> float:
    if log:
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    return (value - low) / (high - low)


def best_words(metric: MetricSpec) -> str:
    """The best value of a metric, as a title: ``Best test accuracy``."""
    return f"Best {inside(metric.label)}"


# --- Axes -------------------------------------------------------------------------------------------------------------


def _curve_axes(groups: Iterable[CompareGroup], metric: MetricSpec, log: bool) -> tuple[CompareAxis, CompareAxis]:
    ends = [(float(one.x[0]), float(one.x[-1])) for one in groups if one.x.size]
    heights = np.concatenate([_heights(one) for one in groups] or [np.empty(0)])
    x = span_of([np.array(ends).ravel()], False, air=0.0)
    log = log and bool((heights > 0).any())
    heights = heights[heights > 0] if log else heights
    kept = _without_outliers(np.log10(heights) if log else heights, log)
    y = span_of([kept], False)
    form = metric.format
    ticks = log_ticks(y, 6, form) if log else linear_ticks(y, 5, form)
    return CompareAxis("step", "Step", x, linear_ticks(x, 6)), CompareAxis(metric.name, metric.label, y, ticks, log)


def _heights(one: CompareGroup) -> FloatArray:
    if one.band is None:
        return one.y
    return np.concatenate([one.y - one.band.deviation, one.y + one.band.deviation])


def _without_outliers(heights: FloatArray, log: bool) -> FloatArray:
    """Removes heights far above what most curves show: one run that diverges must not flatten all others. As in
    ``ticks.settled_span``, the limit is twenty times the median on a linear axis, four decades above it on a
    logarithmic one."""
    if not heights.size:
        return heights
    middle = float(np.median(heights if log else np.abs(heights)))
    keep = heights <= middle + 4.0 if log else np.abs(heights) <= 20.0 * middle
    kept: FloatArray = heights[keep]
    return kept if kept.size and middle != 0 else heights


def axis_of(
    name: str, title: str, values: Sequence[Value], card: ExerciseCard, form: Format = "number", log: bool | None = None
) -> CompareAxis:
    """An axis over these values: numbers, or categories in the order of the card's choices, then as they come. Without
    a word about it, numbers that span a factor of twenty are logarithmic; with ``log`` those above 0 are, and others
    have no place."""
    numbers = [float(value) for value in values if isinstance(value, int | float) and _is_number(value)]
    if numbers and len(numbers) == sum(value is not None for value in values):
        above = [number for number in numbers if number > 0]
        log = max(numbers) > 20 * min(numbers) > 0 if log is None else log and bool(above)
        span = span_of([np.array(above if log else numbers)], log)
        return CompareAxis(name, title, span, log_ticks(span, 5, form) if log else linear_ticks(span, 5, form), log)
    spec = next((param for param in card.params if param.name == name), None)
    order = [choice.label for choice in spec.choices] if spec is not None else []
    found = dict.fromkeys(setting_words(name, value, card) or NONE for value in values)
    kinds = sorted(found, key=lambda kind: order.index(kind) if kind in order else len(order))
    ticks = tuple(Tick(float(place), text) for place, text in enumerate(kinds))
    return CompareAxis(name, title, Span(-0.5, max(len(kinds), 1) - 0.5), ticks, kinds=tuple(kinds))


def coordinate(axis: CompareAxis, value: Value, card: ExerciseCard) -> float:
    """Returns where a value is on an axis; NaN if it has no place there."""
    if axis.kinds:
        text = setting_words(axis.name, value, card) or NONE
        return float(axis.kinds.index(text)) if text in axis.kinds else math.nan
    if not isinstance(value, int | float) or not _is_number(value):
        return math.nan
    return (math.log10(value) if value > 0 else math.nan) if axis.log else float(value)


# --- Scatter and parallel coordinates ---------------------------------------------------------------------------------


def _value(group: CompareGroup, name: str) -> Value:
    if name == RESULT:
        return group.outcome.best
    if name == STEPS_TO:
        return group.outcome.steps
    if name == SECONDS_TO:
        return group.outcome.seconds
    return group.runs[0].settings.get(name)


def _coordinates(groups: Sequence[CompareGroup], axes: Sequence[CompareAxis], card: ExerciseCard) -> FloatArray:
    """Where each group is on each axis."""
    found = [[coordinate(axis, _value(group, axis.name), card) for axis in axes] for group in groups]
    return np.array(found, np.float64).reshape(len(groups), len(axes))


def _scatter(
    groups: Sequence[CompareGroup], differ: Sequence[str], metric: MetricSpec, x: str, log: bool, card: ExerciseCard
) -> tuple[tuple[CompareAxis, CompareAxis], dict[int, tuple[float, float]]]:
    name = x or next((one for one in differ if one == LEARNING_RATE), next(iter(differ), LEARNING_RATE))
    title = {STEPS_TO: "Steps to the target", SECONDS_TO: "Seconds to the target"}.get(name) or label_of(name, card)
    values = [_value(group, name) for group in groups]
    bests = [group.outcome.best for group in groups if group.outcome.best is not None]
    y = axis_of(RESULT, best_words(metric), bests, card, metric.format, log)
    axes = axis_of(name, title, values, card), y
    places = enumerate(_coordinates(groups, axes, card))
    return axes, {number: (float(at[0]), float(at[1])) for number, at in places if np.isfinite(at).all()}


def _parallel(
    groups: Sequence[CompareGroup], differ: Sequence[str], metric: MetricSpec, card: ExerciseCard
) -> tuple[tuple[CompareAxis, ...], FloatArray]:
    axes = [axis_of(name, label_of(name, card), [_value(one, name) for one in groups], card) for name in differ]
    axes.append(axis_of(RESULT, metric.label, [one.outcome.best for one in groups], card, metric.format))
    return tuple(axes), _coordinates(groups, axes, card)


Judged = tuple[list[Mapping[str, Value]], list[float | None], bool]
"""What ``importance_of`` judges."""


def to_judge(scene: CompareScene) -> Judged:
    """The scene's settings and results, and whether the highest are the best."""
    settings = [group.runs[0].settings for group in scene.groups]
    return settings, [group.outcome.best for group in scene.groups], scene.metric.better == "higher"


def with_importance(scene: CompareScene, card: ExerciseCard, found: Importance) -> CompareScene:
    """The scene with what Optuna says of its settings."""
    shares = {name: share_words(share) for name, share in found.shares.items()}
    what, sure = importance_words(found, scene.metric, card)
    return replace(scene, shares=shares, told=f"{what.partition(':')[0]}. {sure}" if what else sure)


# --- Table ------------------------------------------------------------------------------------------------------------


def compare_table(
    groups: Sequence[tuple[Sequence[ComparedRun], Outcome]],
    differ: Sequence[str],
    metric: MetricSpec,
    target: float | None,
    card: ExerciseCard | None,
    has_baseline: bool = True,
) -> tuple[tuple[str, ...], ...]:
    """The headings, then a row for each group of repeats, the baseline first if there is one: number and name, what
    differs, the best, the difference to the baseline, steps and seconds to the target, and what is known of what they
    used of their machines."""
    reached = (f"Steps to {quantity(target, metric.format)}", "Seconds") if target is not None else ()
    rows = [("Run", *(label_of(name, card) for name in differ), best_words(metric), "To baseline", *reached)]
    base = groups[0][1].best if groups and has_baseline else None
    for place, (runs, found) in enumerate(groups):
        is_base = has_baseline and place == 0
        title = title_of(runs, (), card)
        title += " (baseline)" if is_base and not any(run.name for run in runs) else ""
        best = NONE if found.best is None else quantity(found.best, metric.format)
        best += f" ± {quantity(found.deviation, metric.format)}" if found.deviation is not None else ""
        values = (setting_words(one, runs[0].settings.get(one), card) or NONE for one in differ)
        delta = "" if is_base else difference(found.best, base, metric.format) or NONE
        some = f" ({found.reached} of {len(runs)})" if found.reached < len(runs) else ""
        steps = NONE if found.steps is None else f"{found.steps:,.0f}{some}"
        met = (steps, NONE if found.seconds is None else value_text(found.seconds))
        rows.append((title, *values, best, delta, *met[: len(reached)]))
    used = [group_usage(found, metric, [run.history for run in runs]) for runs, found in groups]
    return tuple((*row, *cells) for row, cells in zip(rows, usage_table(used, metric, NONE), strict=True))


Form = Literal["curves", "scatter", "parallel"]
EMPTY: Final = "Runs that are ticked, or listed below, are compared here. Start two runs that differ in one setting."
ALIKE: Final = "There is an axis for each setting in which the runs differ, and these differ in none."
_VIRIDIS: Final = ("#440154", "#414487", "#2A788E", "#22A884", "#7AD151", "#FDE725")
_SIZE: Final = (1000.0, 560.0)
_FOOT: Final = FOOT + 18.0
_TOP: Final = 26.0
_GUTTER: Final = 236.0
_ROW: Final = 18.0
_TOLD: Final = 36.0
"""The height of two lines below the parallel axes: what Optuna says of them."""
_NEAR: Final = 14.0
_MANY: Final = 40
"""The number of lines from which on they are drawn thin."""


def ink_stroke(ink: Ink, theme: Theme, width: float) -> Stroke:
    """Returns the stroke for a group: a place on the scale, or a curve style whose dash tells repeated hues apart."""
    style = theme.curve(ink.style)
    if ink.place is not None:
        return Stroke(scale_colour(ink.place, theme), width)
    return Stroke(style.colour, width, style.dash)


def scale_colour(place: float, theme: Theme) -> str:
    """A colour of viridis, without the end that would not be seen on the theme's ground. Source: Smith and van der
    Walt, matplotlib 2.0; its lightness rises evenly, also for the colour-blind."""
    low, high = (0.28, 1.0) if theme.dark else (0.0, 0.82)
    at = (low + (high - low) * min(max(place, 0.0), 1.0)) * (len(_VIRIDIS) - 1)
    first = min(int(at), len(_VIRIDIS) - 2)
    return mixed(_VIRIDIS[first], _VIRIDIS[first + 1], at - first)


_NONE = 22.0
"""Pixels between the lowest value of a parallel axis and the place of what has none."""
_DOT = 9.2
"""The size of a point, in pixels."""


class CompareChart(Chart):
    """One form of a scene in a box."""

    def __init__(self, scene: CompareScene, form: Form, box: Box, sizes: TextSizes) -> None:
        self._scene, self._form, self._box = scene, form, box
        left = 58.0 if form != "parallel" else 64.0
        named = form == "curves" or (form == "scatter" and not scene.legend)
        gutter = min(_GUTTER, box.width * 0.36) if named else 64.0 if form == "parallel" else 150.0
        self._area = box.inset(left, _TOP, gutter, _FOOT if form != "parallel" else _FOOT + _TOLD)
        self._axes = (scene.x, scene.y) if form == "curves" else scene.scatter
        self._frame = Frame(self._area, self._axes[0].span, self._axes[1].span)
        self._missing: list[bool] = np.any(np.isnan(scene.paths), axis=0).tolist()
        """Of which parallel axes some group has no value: it goes through a place of its own at their lower end."""

    # --- Geometry -----------------------------------------------------------------------------------------------------

    def line(self, number: int) -> FloatArray:
        """The pixels of a group's line or of its point in a scatter, n rows of x and y."""
        if self._form == "scatter":
            place = self._scene.places.get(number)
            return np.array([self._frame.at(*place)]) if place is not None else np.empty((0, 2))
        if self._form == "parallel":
            return self._path(number)
        group = self._scene.groups[number]
        line = np.column_stack([self._frame.px(group.x), self._rows(group.y)])
        return line[np.isfinite(line).all(axis=1)]

    def _rows(self, heights: FloatArray) -> FloatArray:
        """The pixel rows of values of the curves; NaN for what a logarithmic axis cannot show."""
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.log10(heights) if self._scene.y.log else heights
        return self._frame.py(np.where(np.isfinite(at), at, np.nan))

    def _path(self, number: int) -> FloatArray:
        spots = [
            (self._column(k), self._height(axis, float(value)))
            for k, (axis, value) in enumerate(zip(self._scene.parallel, self._scene.paths[number], strict=True))
        ]
        return np.array(spots, np.float64).reshape(-1, 2)

    def _column(self, number: int) -> float:
        """The pixel column of a parallel axis."""
        return self._area.x + self._area.width * number / max(len(self._scene.parallel) - 1, 1)

    def _height(self, axis: CompareAxis, value: float) -> float:
        if math.isnan(value):
            return self._area.bottom
        area = self._area.inset(0, 0, 0, _NONE if any(self._missing) else 0)
        return Frame(area, Span(0.0, 1.0), axis.span).row(value)

    def pick(self, x: float, y: float) -> str:
        """The number of the group that is nearest to a pixel; empty if none is near."""
        away = [(_distance(spots, x, y), number) for number, spots in self._spots() if spots.size]
        best, found = min(away, default=(_NEAR, -1))
        return str(found) if best < _NEAR else ""

    @property
    def _alike(self) -> bool:
        """Whether there is no axis to draw but that of the result."""
        return self._form == "parallel" and len(self._scene.parallel) < 2

    def _spots(self) -> list[tuple[int, FloatArray]]:
        if self._alike:
            return []
        return [(number, self.line(number)) for number in range(len(self._scene.groups))]

    # --- Drawing ------------------------------------------------------------------------------------------------------

    def draw(self, drawing: Drawing) -> None:
        """Add everything but the group that stands out."""
        if self._alike or not self._scene.groups:
            high = drawing.sizes.height("body") + 1
            room = Box(self._box.x + 24, self._box.middle - high, self._box.width - 48, 2 * high)
            text = ALIKE if self._scene.groups else EMPTY
            drawing.paragraph(room, text, drawing.theme.text2, across="middle")
            return
        if self._form == "parallel":
            self._draw_parallel_axes(drawing)
        else:
            self._draw_axes(drawing)
        numbers = range(len(self._scene.groups))
        for number in sorted(numbers, key=lambda k: self._scene.groups[k].baseline):
            self._draw_group(drawing, number, 0.8 if len(numbers) > _MANY else 1.7)
        if self._form == "curves" or (self._form == "scatter" and not self._scene.legend):
            self._draw_names(drawing)
        elif self._form == "parallel":
            self._draw_parallel_ticks(drawing)
        self._draw_legend(drawing)

    def draw_lifted(self, drawing: Drawing, name: str) -> None:
        """Add the group that stands out, over a veil."""
        number = int(name)
        if number >= len(self._scene.groups):
            return
        drawing.rect(self._area.inset(-4, -4, -4, -4), drawing.theme.surface, 0.55)
        self._draw_group(drawing, number, 3.0)
        area = self._area
        draw_lines(drawing, self.words_of(number), lambda width, _height: (area.right - width - 6, area.y + 6))

    def _draw_group(self, drawing: Drawing, number: int, width: float) -> None:
        group = self._scene.groups[number]
        stroke = ink_stroke(group.ink, drawing.theme, width + (0.9 if group.baseline else 0.0))
        if self._form == "scatter":
            self._draw_dots(drawing, number, stroke.colour, width)
            return
        with drawing.clipped(self._area.inset(-3, -3, -3, -3)):
            if group.band is not None and self._form == "curves":
                away, floor = group.band.deviation, 10.0**self._scene.y.span.low if self._scene.y.log else -np.inf
                low, high = self._rows(np.maximum(group.y - away, floor)), self._rows(group.y + away)
                drawing.band(self._frame.px(group.x), low, high, stroke.colour, 0.18)
            line = self.line(number)
            drawing.path(line[:, 0], line[:, 1], stroke)

    def _draw_dots(self, drawing: Drawing, number: int, colour: str, width: float) -> None:
        group, area = self._scene.groups[number], self._area
        if number not in self._scene.places:
            return
        ((x, y),), value = self.line(number).tolist(), self._scene.places[number][1]
        if group.outcome.deviation and not self._axes[1].log:
            ends = [self._frame.row(value + side * group.outcome.deviation) for side in (-1, 1)]
            ends = [min(max(end, area.y), area.bottom) for end in ends]
            drawing.line(x, ends[0], x, ends[1], Stroke(colour, 1.4))
        self._draw_dot(drawing, group, x, y, _DOT if width < 2.5 else 14.0)

    def _draw_dot(self, drawing: Drawing, group: CompareGroup, x: float, y: float, size: float) -> None:
        """A point of a group; hollow where its line would be dashed, since another group has the same colour."""
        stroke, ground = ink_stroke(group.ink, drawing.theme, 2.0), drawing.theme.surface
        fill, edge = (ground, Stroke(stroke.colour, 2.0)) if stroke.dash else (stroke.colour, Stroke(ground, 1.2))
        shape: Shape = "square" if group.baseline else "dot"
        drawing.marks([x], [y], fill, size, shape=shape, edge=edge)

    def _draw_axes(self, drawing: Drawing) -> None:
        x, y = self._axes
        draw_grid(drawing, self._frame, y.ticks)
        draw_foot(drawing, self._frame, x.ticks, x.title + (", log scale" if x.log else ""))
        title = y.title + (", log scale" if y.log else "")
        drawing.text(self._box.x + 8, self._box.y + 10, title, drawing.theme.text, "strong")

    def _draw_parallel_axes(self, drawing: Drawing) -> None:
        axes = self._scene.parallel
        wide = self._area.width / max(len(axes) - 1, 1)
        for number, axis in enumerate(axes):
            column, stroke = self._column(number), Stroke(drawing.theme.border, crisp=True)
            drawing.line(column, self._area.y, column, self._area.bottom, stroke)
            at = column, self._box.y + 11
            drawing.text(*at, axis.title, drawing.theme.text, "captionStrong", across="middle", room=wide)
            share = self._scene.shares.get(axis.name, "")
            drawing.text(column, self._area.bottom + 12, share, drawing.theme.text, "captionStrong", across="middle")
        room = Box(self._box.x + 8, self._area.bottom + 22, self._box.width - 16, _TOLD)
        drawing.paragraph(room, self._scene.told, drawing.theme.text2, "caption")

    def _draw_parallel_ticks(self, drawing: Drawing) -> None:
        """Draws the tick labels over the lines, each with a halo: all lines of a value go through its label."""
        theme = drawing.theme
        for number, axis in enumerate(self._scene.parallel):
            marks = [(tick.text, tick.at) for tick in axis.ticks] + [("none", math.nan)] * self._missing[number]
            for text, at in marks:
                place = self._column(number) - 5, self._height(axis, at)
                drawing.text(*place, text, theme.text2, across="right", room=57.0, halo=theme.surface)

    def _draw_names(self, drawing: Drawing) -> None:
        """Writes the names of as many lines or points as there is room for, the baseline and the best first; the table
        has all."""
        theme, area, right = drawing.theme, self._area, self._box.right - 6
        room = int(area.height // _ROW)
        order = self._by_merit()
        shown = order if len(order) <= room else order[: max(room - 1, 0)]
        if self._form == "scatter":
            ends = {number: area.y + place * _ROW for place, number in enumerate(shown)}
        else:
            lines = {number: self.line(number) for number in shown}
            ends = {number: float(line[-1, 1]) for number, line in lines.items() if line.size}
        rows = spread(list(ends.values()), _ROW, area.y, area.bottom - _ROW / 2)
        start = area.right + 12
        for number, row in zip(ends, rows, strict=True):
            group = self._scene.groups[number]
            if self._form == "scatter":
                self._draw_dot(drawing, group, start + 8, row, _DOT)
            else:
                drawing.line(start, row, start + 16, row, ink_stroke(group.ink, theme, 2.0))
            best = group.outcome.best
            value = "" if best is None else f"best {quantity(best, self._scene.metric.format)}"
            drawing.text(right, row, value, theme.text2, across="right")
            wide = right - start - 28 - drawing.width(value)
            kind: FontKind = "captionStrong" if group.baseline else "caption"
            drawing.text(start + 22, row, group.title, theme.text, kind, room=wide)
        if len(shown) < len(order):
            drawing.text(start, area.bottom + 11, f"{len(order) - len(shown)} more in the table")

    def _by_merit(self) -> list[int]:
        """The groups, the baseline first, then by their best value."""
        sign = -1.0 if self._scene.metric.better == "higher" else 1.0

        def order(number: int) -> tuple[bool, float]:
            group = self._scene.groups[number]
            best = group.outcome.best
            return not group.baseline, sign * best if best is not None else math.inf

        drawn = [number for number, spots in self._spots() if spots.size]
        return sorted(drawn, key=order)

    def _draw_legend(self, drawing: Drawing) -> None:
        """Draws the legend of the colours, in a line at the top; in a scatter plot beside it."""
        scene, box, beside = self._scene, self._box, self._form == "scatter"
        if not scene.legend:
            return
        texts = [scene.coloured_by, *(text for _, text in scene.legend)]
        wide = sum(drawing.width(text) + 32 for text in texts) - 20
        x = self._area.right + 14 if beside else box.right - 6 - wide
        y = self._area.y if beside else box.y + (10 if self._form == "curves" else box.height - 12)
        for ink, text in ((None, scene.coloured_by), *scene.legend):
            if ink is not None:
                drawing.line(x, y, x + 14, y, ink_stroke(ink, drawing.theme, 3.0))
            at = x + (20 if ink is not None else 0)
            drawing.text(at, y, text, drawing.theme.text2)
            x, y = (x, y + 18) if beside else (at + drawing.width(text) + 12, y)

    # --- In words -----------------------------------------------------------------------------------------------------

    def words_of(self, number: int) -> list[str]:
        """The lines of the box about a group."""
        heads, cells = self._scene.table[0], self._scene.table[number + 1]
        pairs = (f"{head}: {cell}" for head, cell in zip(heads[1:], cells[1:], strict=True) if cell)
        return [f"Run {self._scene.groups[number].title}", *pairs]

    def description(self) -> str:
        """The number of groups, and the first ones."""
        rows = "; ".join(", ".join(row) for row in self._scene.table[1:8])
        told = f" {self._scene.told}" if self._form == "parallel" else ""
        return f"{len(self._scene.groups)} groups of runs. {rows}{told}"


def _distance(spots: FloatArray, x: float, y: float) -> float:
    """Returns the distance from a pixel to a polyline, or to a single point."""
    start, end = spots[:-1], spots[1:]
    if not start.size:
        return float(np.hypot(spots[0, 0] - x, spots[0, 1] - y))
    along = end - start
    length = np.maximum((along**2).sum(axis=1), 1e-12)
    part = np.clip(((x - start[:, 0]) * along[:, 0] + (y - start[:, 1]) * along[:, 1]) / length, 0, 1)
    gap = np.hypot(start[:, 0] + part * along[:, 0] - x, start[:, 1] + part * along[:, 1] - y)
    return float(gap.min())


def compare_page(scene: CompareScene, form: Form, title: str, theme: Theme, sizes: TextSizes) -> ChartPage:
    """The chart below its title."""
    drawing, (width, height) = Drawing(theme, sizes), _SIZE
    drawing.text(16, 20, title, theme.text, "subtitle", room=width - 32)
    CompareChart(scene, form, Box(8, 40, width - 16, height - 48), sizes).draw(drawing)
    words = "\n".join("; ".join(row) for row in scene.table)
    return ChartPage(width, height, drawing.items, title, words, theme.surface)
