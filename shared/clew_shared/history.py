"""A run as curves: folds the events of its attempts into columns that can be drawn, judged and exported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from clew_shared.cards import MetricSpec
from clew_shared.curves import Block, Column, Piece, Track, join, stretches
from clew_shared.events import (
    Attempt,
    Checkpoint,
    Evaluation,
    Event,
    Histogram,
    Image,
    Live,
    Log,
    Matrix,
    Points,
    Schema,
    Series,
)
from clew_shared.journal import Damage, Record, attempts, journal_path, read_journal
from clew_shared.lifecycle import RunFold, RunState
from clew_shared.problem import problem

__all__ = ["Best", "Changed", "Column", "History", "Measured", "Note", "read_run", "summary"]


class Changed(NamedTuple):
    """What one event changed: curves that grew, the step from which curves were cut or rewritten, the shown state."""

    metrics: tuple[str, ...] = ()
    truncated_from: int | None = None
    state: bool = False


class Best(NamedTuple):
    """The best value of a curve, and the step where it first stood."""

    step: int
    value: float


class Note(NamedTuple):
    """Something in an attempt's journal that could not be read."""

    attempt: int
    text: str


class Measured(NamedTuple):
    """A measured relation so far: all points of the ``Series`` events of one name; ``last`` has labels and units."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    last: Series


class History:
    """Everything a run's journals say, built incrementally; feeding a block costs what the block holds.

    A step is shown once: a later attempt wins from its start step on (evaluations and checkpoints, which stand *after*
    as many updates as their step says, from the next one). What lost stays reachable by ``column(metric, attempt=n)``.
    The training clock runs on over attempts.

    ``fold`` holds state and progress, ``metrics`` the known metrics by name, ``schema`` the latest ``Schema``,
    ``live`` the hyperparameter changes that acted, ``logs`` the sentences, ``checkpoints`` the complete ones by step,
    ``series`` and ``figures`` what was measured or pictured by name (figures: the latest), ``damages`` what could not
    be read, ``first_nonfinite`` the first step of each curve that is not a finite number.
    """

    def __init__(self) -> None:
        self.fold = RunFold()
        self.metrics: dict[str, MetricSpec] = {}
        self.schema: Schema | None = None
        self.live: list[Live] = []
        self.logs: list[Log] = []
        self.checkpoints: dict[int, Checkpoint] = {}
        self.series: dict[str, Measured] = {}
        self.figures: dict[str, Image | Histogram | Matrix] = {}
        self.damages: list[Note] = []
        self.first_nonfinite: dict[str, int] = {}
        self._tracks: dict[tuple[str, ...], Track] = {}
        self._by_metric: dict[str, list[Track]] = {}
        self._lost: list[tuple[Track, Piece]] = []
        self._schemas: dict[tuple[int, int], Schema] = {}
        self._starts: dict[int, int] = {}
        self._offsets: dict[int, float] = {}
        self._steps_timed = 0
        self._seconds_timed = 0.0
        self._recent_rate = math.nan
        self._first_point = 0.0

    # --- Feeding ------------------------------------------------------------------------------------------------------

    def feed(self, attempt: int, event: Event | None) -> Changed:
        """Take the next event of ``attempt`` (from 1). Attempts may arrive interleaved; each in its own order."""
        later = attempt > self.fold.attempt
        state = self.fold.feed(attempt, event)
        if later:
            self._first_point = 0.0
        return self._take(attempt, event)._replace(state=state)

    def note(self, attempt: int, damage: Damage) -> None:
        """Remember a damaged stretch of an attempt's journal."""
        self.damages.append(Note(attempt, damage.text))

    def _take(self, attempt: int, event: Event | None) -> Changed:
        match event:
            case Points():
                return self._points(attempt, event)
            case Evaluation():
                return self._evaluation(attempt, event)
            case Schema():
                self._schemas[attempt, event.id] = self.schema = event
                self.metrics |= {metric.name: metric for metric in event.metrics}
            case Attempt():
                return self._begin(attempt, event)
            case Log():
                self.logs.append(event)
            case Live():
                self.live.append(event)
            case Checkpoint():
                self.checkpoints[event.step] = event
            case Series():
                self._measured(event)
            case Image() | Histogram() | Matrix():
                self.figures[event.name] = event
        return Changed()

    def _begin(self, attempt: int, event: Attempt) -> Changed:
        """Cut every curve where the attempt begins, unless an even later one is known already."""
        self._starts[attempt] = event.start_step
        if len(self._starts) == 1 or attempt < max(self._starts):
            return Changed()
        start = event.start_step
        for key, track in self._tracks.items():
            self._lose(track, track.cut(start + 1 if key[0] == _EVALUATED else start))
        self.checkpoints = {step: found for step, found in self.checkpoints.items() if step <= start}
        self.live = [change for change in self.live if change.step <= start]
        self.first_nonfinite = {name: step for name, step in self.first_nonfinite.items() if step < start}
        return Changed(tuple(self._by_metric), start)

    def _points(self, attempt: int, event: Points) -> Changed:
        schema = self._schemas.get((attempt, event.schema))
        columns = [metric for metric in schema.metrics if metric.per_step] if schema else []
        values = _decode_columns(event, columns)
        if not values:
            self.damages.append(Note(attempt, f"the values of step {event.first} and on fit no schema"))
            return Changed()
        self._time(attempt, event)
        clock = self._offset(attempt, event.clock - event.seconds) + event.clock
        done = np.arange(1, event.count + 1) / event.count
        piece = Piece(
            np.arange(event.first, event.first + event.count),
            clock - event.seconds * (1.0 - done),
            values,
            [Block(event.count, attempt, event.time, event.seconds)],
        )
        dtypes = {metric.name: metric.dtype for metric in columns}
        return self._add(attempt, (_STEPPED, *dtypes), dtypes, piece)

    def _evaluation(self, attempt: int, event: Evaluation) -> Changed:
        names = sorted(event.values)
        for name in names:
            self.metrics.setdefault(name, MetricSpec(name=name, label=name, per_step=False))
        clock = self._offset(attempt, event.clock) + event.clock
        values: dict[str, NDArray[np.floating]] = {name: np.array([event.values[name]]) for name in names}
        piece = Piece(np.array([event.step]), np.array([clock]), values, [Block(1, attempt, event.time, 0.0)])
        return self._add(attempt, (_EVALUATED, *names), dict.fromkeys(names, "float64"), piece)

    def _add(self, attempt: int, key: tuple[str, ...], dtypes: Mapping[str, str], piece: Piece) -> Changed:
        if key not in self._tracks:
            self._tracks[key] = Track(dtypes)
            for name in dtypes:
                self._by_metric.setdefault(name, []).append(self._tracks[key])
        track = self._tracks[key]
        limit = self._limit(attempt, key[0] == _EVALUATED)
        if limit is not None and int(piece.steps[-1]) >= limit:
            piece, lost = piece.until(limit)
            self._lose(track, lost)
        if not len(piece.steps):
            return Changed()
        self._look_for_nonfinite(piece)
        first = int(piece.steps[0])
        if first > track.last_step:
            track.extend(piece)
            return Changed(tuple(dtypes))
        if limit is None:
            self._lose(track, track.cut(first))
            track.extend(piece)
        else:
            track.insert(piece)
        return Changed(tuple(dtypes), first)

    def _limit(self, attempt: int, evaluated: bool) -> int | None:
        """The step from which a later attempt counts instead; None when there is no later one."""
        starts = [start for later, start in self._starts.items() if later > attempt]
        return min(starts) + evaluated if starts else None

    def _lose(self, track: Track, piece: Piece) -> None:
        if len(piece.steps):
            self._lost.append((track, piece))

    def _look_for_nonfinite(self, piece: Piece) -> None:
        for name, values in piece.values.items():
            wrong = ~np.isfinite(values)
            if wrong.any():
                step = int(piece.steps[int(np.argmax(wrong))])
                self.first_nonfinite[name] = min(step, self.first_nonfinite.get(name, step))

    def _offset(self, attempt: int, clock: float) -> float:
        """What to add to an attempt's clock so that it runs on from where the earlier attempt was cut."""
        if attempt not in self._offsets:
            reached = max((track.last_clock for track in self._tracks.values()), default=0.0)
            self._offsets[attempt] = reached - clock if len(self._starts) > 1 else 0.0
        return self._offsets[attempt]

    def _time(self, attempt: int, event: Points) -> None:
        self._steps_timed += event.count
        self._seconds_timed += event.seconds
        if event.seconds > 0:
            self._recent_rate = event.count / event.seconds
        if attempt == self.fold.attempt and not self._first_point:
            self._first_point = event.time

    def _measured(self, event: Series) -> None:
        x, y = np.frombuffer(event.x, "<f8"), np.frombuffer(event.y, "<f8")
        known = self.series.get(event.name)
        if known is not None:
            x, y = np.concatenate([known.x, x]), np.concatenate([known.y, y])
        self.series[event.name] = Measured(x, y, event)

    # --- Reading ------------------------------------------------------------------------------------------------------

    def column(self, metric: str, attempt: int | None = None) -> Column:
        """The clean curve of ``metric`` across attempts, or all that one attempt recorded; empty when unknown.

        Steps of per-step metrics count from 0; an evaluation's step is the number of updates done.
        """
        tracks = self._by_metric.get(metric, [])
        if attempt is None:
            return join(track.column(metric) for track in tracks)
        parts = [part for track in tracks for part in track.part(metric, attempt)]
        for track, piece in self._lost:
            if metric in track.values:
                parts += stretches(Column(piece.steps, piece.values[metric], piece.clock), piece.blocks, attempt)
        return join(parts)

    def wall(self, metric: str) -> NDArray[np.float64]:
        """Wall-clock seconds since 1970 of each point of ``column(metric)``, interpolated inside blocks."""
        tracks = [track for track in self._by_metric.get(metric, []) if track.steps.size]
        if not tracks:
            return np.empty(0)
        steps = np.concatenate([track.steps.view for track in tracks])
        return np.concatenate([track.wall() for track in tracks])[np.argsort(steps, kind="stable")]

    def recorded(self) -> tuple[str, ...]:
        """Names of the metrics that have points, in the order of the schema; others behind."""
        names = [*self.metrics, *(name for name in self._by_metric if name not in self.metrics)]
        return tuple(name for name in names if any(track.steps.size for track in self._by_metric.get(name, [])))

    def last(self, metric: str) -> float | None:
        """The latest value of a curve; None when it has no point."""
        values = self.column(metric).values
        return float(values[-1]) if len(values) else None

    def best(self, metric: str) -> Best | None:
        """The best finite value, by the metric's ``better``; None without one, or where neither way is better."""
        spec = self.metrics.get(metric)
        column = self.column(metric)
        finite = np.flatnonzero(np.isfinite(column.values))
        if spec is None or spec.better == "none" or not len(finite):
            return None
        values = column.values[finite]
        index = finite[int(np.argmin(values) if spec.better == "lower" else np.argmax(values))]
        return Best(int(column.steps[index]), float(column.values[index]))

    def steps_per_second(self) -> float | None:
        """Steps over the seconds of their training blocks: no compile, evaluation or checkpoint in it."""
        return self._steps_timed / self._seconds_timed if self._seconds_timed > 0 else None

    def recent_steps_per_second(self) -> float | None:
        """The rate of the latest block."""
        return None if math.isnan(self._recent_rate) else self._recent_rate

    @property
    def first_point_seconds(self) -> float | None:
        """From the start of the latest attempt to the end of its first block; None before."""
        return self._first_point - self.fold.started if self._first_point else None

    @property
    def seconds(self) -> float:
        """From the start of the latest attempt to its end, or to its latest record."""
        return (self.fold.ended or self.fold.updated) - self.fold.started if self.fold.started else 0.0


_STEPPED, _EVALUATED = "steps", "evaluations"


def _decode_columns(event: Points, columns: list[MetricSpec]) -> dict[str, NDArray[np.floating]]:
    """The arrays of ``event`` by metric; empty when they do not fit ``columns``."""
    if event.count < 1 or event.first < 0 or len(columns) != len(event.values):
        return {}
    sizes = {"float32": 4, "float64": 8}
    if any(len(raw) != event.count * sizes[metric.dtype] for metric, raw in zip(columns, event.values, strict=True)):
        return {}
    return {
        metric.name: np.frombuffer(raw, np.dtype(metric.dtype).newbyteorder("<"))
        for metric, raw in zip(columns, event.values, strict=True)
    }


# --- A run folder -----------------------------------------------------------------------------------------------------


def read_run(folder: Path) -> History:
    """The history in a run folder or mirror. Raises ``ProblemError`` when it has no journal that can be read.

    A frame that is cut at the end of a journal that may still grow is not counted as damage.
    """
    numbers = attempts(folder)
    if not numbers:
        text = f"{folder} is no run folder: it holds no journal.0001."
        raise problem("run.folder", text, "Name the folder of a run.", str(folder))
    history = History()
    try:
        cuts = _cuts(folder, numbers)
        for attempt in numbers:
            _read_attempt(history, folder, attempt, cuts.get(attempt))
    except OSError as error:
        raise problem("run.read", f"Cannot read {error.filename}: {error.strerror}.", where=str(folder)) from None
    return history


def _cuts(folder: Path, numbers: tuple[int, ...]) -> dict[int, int]:
    """The length up to which each attempt counts, where a later one says so."""
    cuts = {}
    for attempt in numbers:
        first = next(read_journal(journal_path(folder, attempt)), None)
        event = first.event if isinstance(first, Record) else None
        if isinstance(event, Attempt) and 0 < event.resumes < attempt and event.earlier_size:
            cuts[event.resumes] = event.earlier_size
    return cuts


def _read_attempt(history: History, folder: Path, attempt: int, cut: int | None) -> None:
    for item in read_journal(journal_path(folder, attempt)):
        if cut is not None and item.offset >= cut:
            return
        if isinstance(item, Record):
            history.feed(attempt, item.event)
        elif not item.tail or history.fold.done:
            history.note(attempt, item)


# --- For programs -----------------------------------------------------------------------------------------------------


def summary(history: History, run_dir: Path) -> dict[str, object]:
    """A run as one flat table for ``--json``: values that are missing or not finite become None.

    ``metrics`` has each metric's last value, ``best`` those that have a best; times are seconds.
    """
    fold = history.fold
    best = {name: found for name in history.recorded() if (found := history.best(name)) is not None}
    numbers = attempts(run_dir)
    result: dict[str, object] = {
        "run": fold.run,
        "exercise": fold.exercise,
        "state": fold.state.value,
        "steps": fold.step,
        "metrics": {name: _finite(history.last(name)) for name in history.recorded()},
        "best": {name: {"step": found.step, "value": found.value} for name, found in best.items()},
        "steps_per_second": _finite(history.steps_per_second()),
        "first_point_seconds": _finite(history.first_point_seconds),
        "seconds": _finite(history.seconds),
        "run_dir": str(run_dir),
        "journal": str(journal_path(run_dir, numbers[-1])) if numbers else "",
    }
    if fold.reason:
        result["reason"] = fold.reason
    if fold.problem is not None and fold.state is not RunState.FINISHED:
        result["problem"] = msgspec.to_builtins(fold.problem)
    return result


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
