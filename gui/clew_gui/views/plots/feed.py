"""Brings what the shown runs recorded to the plots: only what is new, and the events on the curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clew_gui.plotting.curves.model import RunStyle
from clew_gui.session.runs import RunModel
from clew_gui.views.plots.panel import ConvergencePlots
from clew_gui.views.presentation import words
from clew_shared.cards import ExerciseCard, Goal
from clew_shared.goal_settings import is_for
from clew_shared.journal.events import Live
from clew_shared.journal.history import Column, History
from clew_shared.journal.lifecycle import TERMINAL
from clew_shared.params import STEPS, ParamSpec, format_value

_CLOCK_PIECES = 64
"""A long curve that is brought at once gets so many marks of its training clock; between them time is interpolated."""


@dataclass
class FeedCursor:
    """Keeps what the plots already have of a run: how many points of each metric with the last step, and the events;
    ``complete`` once they have all of it."""

    attempt: int = 0
    points: dict[str, tuple[int, int]] = field(default_factory=dict)
    live: int = 0
    checkpoints: set[int] = field(default_factory=set)
    clock: int = 0
    scale: tuple[int, int] = (0, 0)
    bad: bool = False
    measured: int = 0
    figures: dict[str, tuple[int, int]] = field(default_factory=dict)
    complete: bool = False


class PlotFeed:
    """Brings news from run models to the plots. Cheap to call on every tick."""

    def __init__(self, plots: ConvergencePlots) -> None:
        self._plots = plots
        self._cursors: dict[str, FeedCursor] = {}
        self._card: ExerciseCard | None = None
        self._goals: tuple[Goal, ...] = ()
        self._styles: list[RunStyle] = []

    def set_card(self, card: ExerciseCard) -> None:
        """Sets another exercise with its plots, goals and expected curves. Data that was passed on is kept for
        later."""
        if self._card is None or self._card.id != card.id:
            self._card = card
            self._goals = card.goals
            self._plots.set_plots(card.plots, card.goals, card.metrics)
            self._plots.set_planned(next((s.default for s in card.params if s.name == STEPS), None))
            self._plots.set_surfaces(card.surfaces)
            self._plots.set_measured(card.measured)
            self._plots.set_pictures(card.pictures)

    def drop(self, run: str) -> None:
        """Forget what was brought of a run."""
        if self._cursors.pop(run, None) is not None:
            self._plots.drop_run(run)

    def show(
        self, runs: Sequence[RunModel], selected: str, pinned: str, indices: Mapping[str, int], next_data: str = ""
    ) -> None:
        """Show these runs. ``indices`` says by run which colour and dash it has; ``next_data`` is the data set of the
        next run."""
        data = {run.id: words.run_data(run, self._card) for run in runs}
        differ = len(set(data.values())) > 1
        self._show_goals({name for name in (*data.values(), *(() if runs else (next_data,))) if name})
        self._styles = [
            RunStyle(
                run_id=run.id,
                label=_label(run, self._card, run.id == pinned, data[run.id] if differ else ""),
                index=indices.get(run.id, 0),
                selected=run.id == selected,
                live=run.state not in TERMINAL,
                pinned=run.id == pinned,
                stale=run.link_stale and run.state not in TERMINAL,
                steps=run.history.fold.steps,
                coming=self._is_coming(run),
            )
            for run in runs
        ]
        self._plots.set_runs(self._styles)
        drawn = next((run.history.prediction for run in runs if run.id == selected), None)
        points = list(zip(drawn.steps, drawn.values, strict=False)) if drawn is not None else []
        self._plots.set_prediction(drawn.metric if drawn is not None else "", points)

    def _is_coming(self, run: RunModel) -> bool:
        """Whether there are values of a run that the plots do not have yet."""
        if run.reading is not None or run.catching_up is not None:
            return True
        cursor = self._cursors.get(run.id)
        return run.history.fold.step > 0 and (cursor is None or not cursor.complete)

    def _show_goals(self, data: set[str]) -> None:
        """Shows only the goals that apply to the shown runs' data; all goals if no run is shown."""
        card = self._card
        if card is None:
            return
        goals = tuple(goal for goal in card.goals if not data or any(is_for(goal, name) for name in data))
        if goals != self._goals:
            self._goals = goals
            self._plots.set_plots(card.plots, goals, card.metrics)

    def bring(self, run: RunModel, most: int) -> tuple[int, bool]:
        """Bring about ``most`` values that the plots do not have yet; how many came, and whether that was all."""
        history = run.history
        cursor = self._cursors.get(run.id)
        if cursor is None or cursor.attempt != history.fold.attempt or _was_cut(cursor, history):
            self.drop(run.id)
            cursor = self._cursors[run.id] = FeedCursor(attempt=history.fold.attempt)
        self._bring_scale(run.id, cursor, history)
        columns = {metric: history.column(metric) for metric in self._metrics()}
        each = max(1, most // max(1, len(columns)))
        brought = [self._bring_metric(run.id, cursor, name, column, each) for name, column in columns.items()]
        complete = all(cursor.points.get(name, (0, 0))[0] == len(column.steps) for name, column in columns.items())
        if columns:
            longest = max(columns, key=lambda name: len(columns[name].steps))
            self._bring_clock(run.id, cursor, columns[longest], cursor.points.get(longest, (0, 0))[0], history)
        self._bring_series(run.id, cursor, history)
        self._bring_figures(run.id, cursor, history)
        if complete:
            self._bring_events(run.id, cursor, history)
            self._show_all_brought(run, cursor)
        return sum(brought), complete

    def _show_all_brought(self, run: RunModel, cursor: FeedCursor) -> None:
        """A plot without a value of this run need not wait for one any more."""
        if not cursor.complete:
            cursor.complete = True
            coming = {style.run_id: style.coming for style in self._styles}
            if coming.get(run.id, False) and not self._is_coming(run):
                mine = [replace(one, coming=False) if one.run_id == run.id else one for one in self._styles]
                self._styles = mine
                self._plots.set_runs(mine)

    def _metrics(self) -> Iterable[str]:
        card = self._card
        if card is None:
            return ()
        drawn = [name for plot in card.plots for name in plot.metrics]
        return dict.fromkeys([*drawn, *(name for one in card.surfaces for name in (*one.metrics, one.metric))])

    def _bring_scale(self, run: str, cursor: FeedCursor, history: History) -> None:
        schema = history.schema
        scale = (schema.batch_size, schema.samples_per_epoch) if schema is not None else (0, 0)
        if scale != cursor.scale:
            cursor.scale = scale
            self._plots.set_scale(run, *scale)

    def _bring_metric(self, run: str, cursor: FeedCursor, metric: str, column: Column, most: int) -> int:
        have, _ = cursor.points.get(metric, (0, -1))
        end = min(len(column.steps), have + most)
        if end > have:
            self._plots.append(run, metric, column.steps[have:end], column.values[have:end], column.values.dtype)
            cursor.points[metric] = (end, int(column.steps[end - 1]))
        return end - have

    def _bring_clock(self, run: str, cursor: FeedCursor, column: Column, number: int, history: History) -> None:
        """The training clock of the longest curve: marks for the stretch that is new."""
        if number <= cursor.clock:
            return
        steps, clock, wall = column.steps, column.clock, history.fold.updated
        size = max(1, -(-(number - cursor.clock) // _CLOCK_PIECES))
        for start in range(cursor.clock, number, size):
            end = min(start + size, number)
            before = float(clock[start - 1]) if start else max(0.0, float(2 * clock[0] - clock[min(1, number - 1)]))
            first, last = int(steps[start]), int(steps[end - 1])
            at = wall - (float(clock[-1]) - float(clock[end - 1])) if wall else 0.0
            seconds = float(clock[end - 1]) - before
            self._plots.add_clock(run, first, last - first + 1, float(clock[end - 1]), seconds, at)
        cursor.clock = number

    def _bring_series(self, run: str, cursor: FeedCursor, history: History) -> None:
        """Passes on all measured relations when one has a new point: they are short."""
        size = sum(len(one.x) for one in history.series.values())
        if size != cursor.measured:
            cursor.measured = size
            self._plots.set_series(run, history.series)

    def _bring_figures(self, run: str, cursor: FeedCursor, history: History) -> None:
        """Passes on all pictures when there are more or fewer than before; their contents are not copied."""
        known = {name: (len(found), found[-1].step) for name, found in history.figures.items()}
        if known != cursor.figures:
            cursor.figures = known
            self._plots.set_figures(run, history.figures)

    def _bring_events(self, run: str, cursor: FeedCursor, history: History) -> None:
        for event in history.live[cursor.live :]:
            self._plots.add_event(run, event.step, live_words(self._card, event))
        cursor.live = len(history.live)
        for step in sorted(set(history.checkpoints) - cursor.checkpoints):
            if step < (history.fold.steps or step + 1):  # the state shows one at the end
                self._plots.add_event(run, step, "Checkpoint")
            cursor.checkpoints.add(step)
        if history.first_nonfinite and not cursor.bad:
            cursor.bad = True
            metric = min(history.first_nonfinite, key=lambda name: history.first_nonfinite[name])
            word = history.nonfinite_words.get(metric, "NaN")
            self._plots.mark_nonfinite(run, history.first_nonfinite[metric], word)


def _was_cut(cursor: FeedCursor, history: History) -> bool:
    """Whether points that were brought are no longer there: a later attempt replaced them."""
    for metric, (have, last) in cursor.points.items():
        steps = history.column(metric).steps
        if len(steps) < have or int(steps[have - 1]) != last:
            return True
    return len(history.live) < cursor.live


def live_words(card: ExerciseCard | None, event: Live) -> str:
    """A live change as a short sentence: "Learning rate 0.05 from here"."""
    spec: ParamSpec | None = next((s for s in card.params if s.name == event.name), None) if card is not None else None
    name = spec.label if spec is not None else event.name.replace("_", " ").capitalize()
    return f"{name} {format_value(event.value)} from here"


def _label(run: RunModel, card: ExerciseCard | None, pinned: bool, data: str) -> str:
    """The run's short name; with its data where the shown runs differ in it."""
    return words.join([words.run_title(run, card, "Baseline" if pinned else ""), words.data_short(data)])
