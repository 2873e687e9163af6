"""A run as curves: folds the events of its attempts into columns that can be drawn, judged and exported."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from clew_shared.cards import MetricSpec, is_curve
from clew_shared.journal.buffer import Buffer
from clew_shared.journal.curves import (
    EVALUATED,
    STEPPED,
    Column,
    CurveBlock,
    CurvePiece,
    Floats,
    PointsLayout,
    Track,
    join,
    stretches,
)
from clew_shared.journal.events import (
    Attempt,
    Checkpoint,
    Diverged,
    Evaluation,
    Event,
    Histogram,
    Image,
    Live,
    Log,
    Matrix,
    Peer,
    Points,
    Predicted,
    Pulse,
    Schema,
    Seal,
    Series,
    Trace,
    Updates,
)
from clew_shared.journal.files import Damage
from clew_shared.journal.lifecycle import RunFold
from clew_shared.journal.pulse import PulseSummary, PulseTable
from clew_shared.journal.pyramid import Pyramid
from clew_shared.journal.trace import read_spans
from clew_shared.journal.updates import KEPT, UpdateTable, read_updates


class Measured(NamedTuple):
    """A measured relation so far: all points of the ``Series`` events of one name; ``last`` has labels and units.

    The arrays are views of growing buffers: use them at once, or copy them, before more is fed.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    last: Series


class _Piece(NamedTuple):
    """A ``Series`` event: how many steps its attempt had recorded before, and how many points there are with it."""

    reached: int
    end: int
    event: Series


class Relation:
    """The points of one name; appending costs what is appended."""

    def __init__(self) -> None:
        self._x = Buffer(np.float64)
        self._y = Buffer(np.float64)
        self._pieces: list[_Piece] = []

    def append(self, event: Series, reached: int) -> None:
        """Take one event, whose x and y are as many."""
        self._x.extend(np.frombuffer(event.x, "<f8"))
        self._y.extend(np.frombuffer(event.y, "<f8"))
        self._pieces.append(_Piece(reached, self._x.size, event))

    def cut(self, start: int) -> None:
        """Take away what a later attempt, which begins at step ``start``, measures again; from step 0 that is all.

        Series have no steps: an event belongs to the steps that its attempt had recorded before it.
        """
        self._pieces = [piece for piece in self._pieces if 0 < start >= piece.reached]
        for buffer in (self._x, self._y):
            buffer.truncate(self._pieces[-1].end if self._pieces else 0)

    @property
    def measured(self) -> Measured | None:
        """Returns the points so far; None without points."""
        return Measured(self._x.view, self._y.view, self._pieces[-1].event) if self._pieces else None


# --- Sayings ----------------------------------------------------------------------------------------------------------
# The sentences of a run in the order in which they came, with what is needed to take one back.


JOB_ENDED = "The job was cancelled, or the site ended it before its time was up."
"""The reason in a journal when the scheduler's request to end reaches a run: the node does not know who wanted it."""


def peer_words(peer: Peer, servers: bool = False) -> str:
    """A process of a run that has several, for people: ``process 1 on node2 (10.0.0.2, port 40213)``; with parameter
    ``servers`` ``worker 1 on …``."""
    host = f" on {peer.host}" if peer.host else ""
    place = f" ({peer.address}, port {peer.port})" if peer.address else ""
    kind = "parameter server" if peer.role == "ps" else "worker" if servers else "process"
    return f"{kind} {peer.index}{host}{place}"


def disturbed_words(peer: Peer) -> str:
    """Says in a sentence what happened to a process of a parameter-server run; empty where that is said in other
    words."""
    who = peer_words(msgspec.structs.replace(peer, address=""), servers=True)
    if peer.status == "slowed":
        return f"Slowed {who}: ×{peer.factor:g}." if peer.factor > 1 else f"{who.capitalize()}: full speed again."
    return {"killed": f"Killed {who}.", "replaced": f"Started {who} again."}.get(peer.status, "")


class _Saying(NamedTuple):
    """A sentence at a place in an attempt's journal. One that is ``about`` a step is void when that is done again."""

    attempt: int
    offset: int
    about: int | None
    log: Log


class LogEntries:
    """``logs`` are the sentences that count."""

    def __init__(self) -> None:
        self.logs: list[Log] = []
        self._all: list[_Saying] = []

    def add(self, attempt: int, offset: int, log: Log, about: int | None = None) -> None:
        """Keep a sentence that is at ``offset`` (-1: unknown)."""
        self._all.append(_Saying(attempt, offset, about, log))
        self.logs.append(log)

    def since(self, attempt: int) -> list[Log]:
        """Returns the logs of ``attempt`` and of later ones."""
        return [saying.log for saying in self._all if saying.attempt >= attempt]

    def cut_journal(self, attempt: int, size: int) -> None:
        """Take back what ``attempt`` wrote after the ``size`` bytes that count."""
        self._keep([saying for saying in self._all if saying.attempt != attempt or saying.offset < size])

    def cut_steps(self, start: int) -> None:
        """Take back what was about steps from ``start`` on."""
        self._keep([saying for saying in self._all if saying.about is None or saying.about < start])

    def _keep(self, kept: list[_Saying]) -> None:
        if len(kept) < len(self._all):
            self._all, self.logs = kept, [saying.log for saying in kept]


_LARGEST = 1e300
"""The limit of a histogram's edges: a range twice as large is still a number."""


def fits(event: Image | Histogram | Matrix) -> bool:
    """Whether the arrays of a picture are as long as they should be."""
    match event:
        case Image():
            known = event.channels in (1, 3) and min(event.width, event.height) > 0 and event.count >= 0
            whole = len(event.data) == event.count * event.width * event.height * event.channels
            judged = {len(event.classes), len(event.answers)} <= {0, 4 * event.count}
            placed = len(event.points) % 8 == 0 and 2 * len(event.point_classes) == len(event.points)
            return known and whole and judged and placed
        case Histogram():
            counts = len(event.counts) > 0 and len(event.edges) == len(event.counts) + 8 and len(event.counts) % 8 == 0
            values = len(event.values) % 4 == 0 and len(event.classes) in (0, len(event.values))
            return counts and values and _ascend(np.frombuffer(event.edges, "<f8"))
        case _:
            named = {len(event.row_labels)} <= {0, event.rows} and {len(event.column_labels)} <= {0, event.columns}
            sized = len(event.data) == 8 * event.rows * event.columns and len(event.points) % 8 == 0
            return named and min(event.rows, event.columns) >= 0 and sized


def _ascend(edges: NDArray[np.float64]) -> bool:
    """Whether each edge is above the one before it, and an axis can show their range."""
    if not np.isfinite(edges).all() or np.abs(edges).max() > _LARGEST:
        return False
    return bool((np.diff(edges) > 0).all() and edges[-1] - edges[0] > 1 / _LARGEST)


def nonfinite_word(value: str | float) -> str:
    """Returns the word for such a value in the log, in plots and in tables: NaN or infinite."""
    return "NaN" if value == "NaN" or value != value else "infinite"


def divergence(label: str, value: str, step: int) -> str:
    """The sentence for a metric that became NaN or infinite."""
    return f"{label} became {nonfinite_word(value)} at step {step:,}. A smaller learning rate may help."


# --- History ----------------------------------------------------------------------------------------------------------
# A run as curves: folds the events of its attempts into columns that can be drawn, judged and exported.


__all__ = ["Best", "Column", "Figure", "History", "Measured", "Note", "StepBlock"]


Figure = Image | Histogram | Matrix
_NEWS = 500
"""Number of sentences about processes that are kept."""


class _Joined(NamedTuple):
    """A curve in several columns, put together; ``version`` is the size of each, and how often it was cut."""

    version: list[tuple[int, int]]
    column: Column
    pyramid: Pyramid


class StepBlock(NamedTuple):
    """``size`` steps from step ``first`` that were computed in one go, and the seconds they took."""

    first: int
    size: int
    seconds: float


class Best(NamedTuple):
    """The best value of a curve, and the step where it was first reached."""

    step: int
    value: float


class Note(NamedTuple):
    """Something in an attempt's journal that could not be read."""

    attempt: int
    text: str


class History:
    """Everything a run's journals say, built incrementally; feeding a block costs what the block holds.

    A step is shown once: a later attempt wins from its start step on (evaluations and checkpoints, which come *after*
    as many updates as their step says, from the next one). What lost stays reachable by ``column(metric, attempt=n)``.
    What an attempt wrote after the length at which a later one found it changes nothing. The training clock runs on
    over attempts.

    ``fold`` holds state and progress, ``metrics`` the known metrics by name, ``schema`` the latest ``Schema``,
    ``begun`` how the latest attempt began, ``live`` the hyperparameter changes that acted, ``logs`` the sentences,
    ``checkpoints`` the complete ones by step, ``series`` and ``figures`` what was measured or pictured by name (of
    all of them, by step), ``damages`` what could not be read, ``first_nonfinite`` the first step of each curve that is
    not a finite number. ``peers`` holds the last news of each process of the latest attempt, ``peer_news`` the latest
    of all attempts, ``updates`` the gradients that parameter servers took (``updates_kept`` as for ``UpdateTable``).
    ``prediction`` is the curve that a person expected, ``pulse`` what the machines did, ``trace`` what the steps that
    were traced last did.
    """

    def __init__(self, updates_kept: int | None = KEPT) -> None:
        self.fold = RunFold()
        self.metrics: dict[str, MetricSpec] = {}
        self.schema: Schema | None = None
        self.begun: Attempt | None = None
        self.prediction: Predicted | None = None
        self.live: list[Live] = []
        self.checkpoints: dict[int, Checkpoint] = {}
        self.series: dict[str, Measured] = {}
        self.figures: dict[str, list[Figure]] = {}
        self.damages: list[Note] = []
        self.peers: dict[tuple[str, int], Peer] = {}
        self.peer_news: deque[Peer] = deque(maxlen=_NEWS)
        self.updates = UpdateTable(updates_kept)
        self.pulse = PulseTable()
        self.trace: Trace | None = None
        self.first_nonfinite: dict[str, int] = {}
        self._tracks: dict[tuple[str, ...], Track] = {}
        self._by_metric: dict[str, list[Track]] = {}
        self._joined: dict[str, _Joined] = {}
        self._lost: list[tuple[Track, CurvePiece]] = []
        self._layouts: dict[tuple[int, int], PointsLayout] = {}
        self._starts: dict[int, int] = {}
        self._specs: dict[int, str] = {}
        self._cuts: dict[int, int] = {}
        self._sealed: set[int] = set()
        self._sayings = LogEntries()
        self._relations: dict[str, Relation] = {}
        self._reached: dict[int, int] = {}
        self._unfit: set[int] = set()
        self._offsets: dict[int, float] = {}
        self._steps_timed = 0
        self._seconds_timed = 0.0
        self._first_point = 0.0
        self.trained_since = 0.0
        """When the first block of the latest attempt began (seconds since 1970); 0 before."""

    # --- Feeding ------------------------------------------------------------------------------------------------------

    @property
    def logs(self) -> list[Log]:
        """The sentences, and what is said here of damage and of metrics that became NaN or infinite."""
        return self._sayings.logs

    @property
    def specs(self) -> tuple[str, ...]:
        """The texts of the specs with which the steps that count were made, oldest first; empty where an attempt's
        journal does not hold it."""
        first = max((attempt for attempt, start in self._starts.items() if start == 0), default=0)
        return tuple(dict.fromkeys(spec for attempt, spec in sorted(self._specs.items()) if attempt >= first))

    def logs_since(self, attempt: int) -> list[Log]:
        """Returns those of ``logs`` that are about ``attempt`` or a later one."""
        return self._sayings.since(attempt) if attempt > 1 else self.logs

    def feed(self, attempt: int, event: Event | None, offset: int = -1) -> None:
        """Take the next event of ``attempt`` (from 1). Attempts may arrive interleaved; each in its own order.

        ``offset`` is the place of its frame in the attempt's journal (-1: unknown). What comes after an attempt's
        seal, or after the length at which a later attempt found it, changes nothing.
        """
        if attempt in self._sealed or self._is_cut(attempt, offset):
            return
        if attempt > self.fold.attempt:
            self._first_point = 0.0
        self.fold.feed(attempt, event)
        self._take(attempt, event, offset)

    def note(self, attempt: int, damage: Damage) -> None:
        """Remember a damaged stretch of an attempt's journal, and say it among the sentences."""
        if not self._is_cut(attempt, damage.offset):
            self._damaged(attempt, damage.text, damage.offset)

    def _damaged(self, attempt: int, text: str, offset: int) -> None:
        self.damages.append(Note(attempt, text))
        words = f"The journal of attempt {attempt} is damaged, and the damaged part is left out: {text}."
        self._sayings.add(attempt, offset, Log(text=words, level="warning"))

    def _is_cut(self, attempt: int, offset: int) -> bool:
        return attempt in self._cuts and offset >= self._cuts[attempt]

    def _take(self, attempt: int, event: Event | None, offset: int) -> None:
        match event:
            case Points():
                self._points(attempt, event, offset)
            case Updates():
                self._updated(attempt, event, offset)
            case Evaluation():
                self._evaluation(attempt, event)
            case Schema():
                self.schema = event
                columns = [metric for metric in event.metrics if metric.per_step]
                self._layouts[attempt, event.id] = PointsLayout(columns)
                self.metrics |= {metric.name: metric for metric in event.metrics}
            case Attempt():
                self._begin(attempt, event)
            case Log() | Peer() | Predicted() | Pulse() | Trace():
                self._said(attempt, event, offset)
            case Series():
                self._measured(attempt, event, offset)
            case Seal():
                self._sealed.add(attempt)
            case Diverged() | Live() | Checkpoint() | Image() | Histogram() | Matrix():
                self._stepped(attempt, event, offset)

    def _said(self, attempt: int, event: Log | Peer | Predicted | Pulse | Trace, offset: int) -> None:
        """Folds in a sentence, what a person expected, what machines and steps did, or what happens to the run's other
        processes: the loss of one is a sentence as well."""
        match event:
            case Log():
                self._sayings.add(attempt, offset, event)
            case Peer():
                self._peer(attempt, event, offset)
            case Predicted() if is_curve(event.steps, event.values):
                self.prediction = event
            case Predicted():
                self._damaged(attempt, f"the prediction of {event.metric} is no curve", offset)
            case Pulse():
                if not self.pulse.append(event):
                    self._damaged(attempt, f"the samples of the {event.process} do not fit together", offset)
            case Trace() if read_spans(event) is not None:
                self.trace = event
            case Trace():
                self._damaged(attempt, f"the trace of step {event.step} and on does not fit together", offset)

    def _peer(self, attempt: int, event: Peer, offset: int) -> None:
        self.peers[event.role, event.index] = event
        self.peer_news.append(event)
        lost = f"Lost {peer_words(event, self.has_servers)}."
        text = lost if event.status == "lost" else disturbed_words(event)
        if text:
            calm = event.status in ("slowed", "replaced")
            self._sayings.add(attempt, offset, Log(time=event.time, text=text, level="info" if calm else "warning"))

    @property
    def has_servers(self) -> bool:
        """Whether the run has parameter servers."""
        return any(role == "ps" for role, _ in self.peers)

    def _stepped(self, attempt: int, event: Diverged | Live | Checkpoint | Figure, offset: int) -> None:
        """Folds an event that is about one step, unless a later attempt does that step again."""
        limit = self._limit(attempt, self._evaluates(event.metric) if isinstance(event, Diverged) else True)
        if limit is not None and event.step >= limit:
            return
        match event:
            case Diverged():
                self._diverged(attempt, event, offset)
            case Live():
                self._change(event)
            case Checkpoint():
                self.checkpoints[event.step] = event
            case _:
                self._pictured(attempt, event, offset)

    def _pictured(self, attempt: int, event: Figure, offset: int) -> None:
        """Keep a picture in the order of steps; of two at the same step the later one. One that does not fit itself is
        damage."""
        if not fits(event):
            self._damaged(attempt, f"the picture {event.name} of step {event.step} has not the size it names", offset)
            return
        known = self.figures.setdefault(event.name, [])
        at = bisect_left(known, event.step, key=lambda one: one.step)
        known[at : at + (at < len(known) and known[at].step == event.step)] = [event]

    def _diverged(self, attempt: int, event: Diverged, offset: int) -> None:
        spec = self.metrics.get(event.metric)
        self.first_nonfinite[event.metric] = min(event.step, self.first_nonfinite.get(event.metric, event.step))
        text = divergence(spec.label if spec else event.metric, event.value, event.step)
        about = event.step - self._evaluates(event.metric)
        self._sayings.add(attempt, offset, Log(time=event.time, text=text, level="warning", step=event.step), about)

    def _change(self, event: Live) -> None:
        """Folds in a change. A resumed attempt repeats the changes that act on steps which it does again; each is shown
        once."""
        latest = next((change for change in reversed(self.live) if change.name == event.name), None)
        if latest is None or (latest.step, latest.value) != (event.step, event.value):
            self.live.append(event)

    def _begin(self, attempt: int, event: Attempt) -> None:
        """Cut every curve where the attempt begins, unless an even later one is known already."""
        if attempt > 1 and not event.resumes:
            return  # a guard wrote it for a trainer that died before it could say where it begins
        if attempt >= max(self._starts, default=0):
            self.begun = event
        self._specs[attempt] = event.spec
        self._cut_journal(event)
        self._starts[attempt] = start = event.start_step
        if attempt == 1 or attempt < max(self._starts):
            return
        for key, track in self._tracks.items():
            self._lose(track, track.cut(start + 1 if key[0] == EVALUATED else start))
        self.checkpoints = {step: found for step, found in self.checkpoints.items() if step <= start}
        self.live = [change for change in self.live if change.step <= start]
        self.peers.clear()
        for name, known in list(self.figures.items()):
            self.figures[name] = [figure for figure in known if figure.step <= start]
        self.figures = {name: known for name, known in self.figures.items() if known}
        bad = self.first_nonfinite.items()
        self.first_nonfinite = {name: step for name, step in bad if step < start + self._evaluates(name)}
        self._sayings.cut_steps(start)
        self.updates.cut(start)
        for relation in self._relations.values():
            relation.cut(start)
        self._show_relations()

    def _cut_journal(self, event: Attempt) -> None:
        """Drops what the attempt from which ``event`` continues wrote after the length that ``event`` names: it is
        void."""
        if event.earlier_size:
            earlier = event.resumes
            self._cuts[earlier] = min(event.earlier_size, self._cuts.get(earlier, event.earlier_size))
            self._sayings.cut_journal(earlier, self._cuts[earlier])

    def _evaluates(self, metric: str) -> bool:
        """Whether it is measured after updates instead of in each step."""
        return metric in self.metrics and not self.metrics[metric].per_step

    def _points(self, attempt: int, event: Points, offset: int) -> None:
        layout = self._layouts.get((attempt, event.schema))
        values = layout.values(event) if layout is not None else {}
        self._reached[attempt] = event.first + event.count
        if layout is None or not values:
            if attempt not in self._unfit:  # once: without its schema an attempt has none that fit
                self._unfit.add(attempt)
                self._damaged(attempt, f"the values of step {event.first} and on fit no schema", offset)
            return
        self._time(attempt, event)
        clock = self._offset(attempt, event.clock - event.seconds) + event.clock
        times = layout.clock(event, clock)
        block = CurveBlock(event.count, attempt, event.time, event.seconds)
        track = self._tracks.get(layout.key)
        if track is not None and event.first > track.last_step and self._limit(attempt, evaluated=False) is None:
            self._look_for_nonfinite(event.first, values)
            track.extend_run(event.first, times, values, block)
            return
        piece = CurvePiece(np.arange(event.first, event.first + event.count), times, values, [block])
        self._add(attempt, layout.key, layout.dtypes, piece)

    def _updated(self, attempt: int, event: Updates, offset: int) -> None:
        """Folds in gradients, unless a later attempt makes their steps again."""
        found = read_updates(event)
        if found is None:
            self._damaged(attempt, "the values of some updates do not fit together", offset)
        elif len(found.steps):
            begun = self._offset(attempt, float(found.ended[0] - found.seconds[0]))
            limit = self._limit(attempt, evaluated=False)
            found = found._replace(ended=found.ended + begun)
            if limit is not None:
                found = found.take(found.steps < limit)
            self.updates.append(found, event.time, event.moved, late=limit is not None)

    def _evaluation(self, attempt: int, event: Evaluation) -> None:
        names = sorted(event.values)
        for name in names:
            self.metrics.setdefault(name, MetricSpec(name=name, label=name, per_step=False))
        clock = self._offset(attempt, event.clock) + event.clock
        values: dict[str, NDArray[np.floating]] = {name: np.array([event.values[name]]) for name in names}
        piece = CurvePiece(np.array([event.step]), np.array([clock]), values, [CurveBlock(1, attempt, event.time, 0.0)])
        self._add(attempt, (EVALUATED, *names), dict.fromkeys(names, "float64"), piece)

    def _add(self, attempt: int, key: tuple[str, ...], dtypes: Mapping[str, str], piece: CurvePiece) -> None:
        track = self._tracks.get(key)  # once: the hash of a tuple of names is computed each time
        if track is None:
            track = self._tracks[key] = Track(dtypes)
            for name in dtypes:
                self._by_metric.setdefault(name, []).append(track)
        limit = self._limit(attempt, key[0] == EVALUATED)
        if limit is not None and int(piece.steps[-1]) >= limit:
            piece, lost = piece.until(limit)
            self._lose(track, lost)
        if not len(piece.steps):
            return
        first = int(piece.steps[0])
        self._look_for_nonfinite(first, piece.values)
        if first > track.last_step:
            track.extend(piece)
        elif limit is None:
            self._lose(track, track.cut(first))
            track.extend(piece)
        else:
            track.insert(piece)

    def _limit(self, attempt: int, evaluated: bool) -> int | None:
        """The step from which a later attempt counts instead; None when there is no later one."""
        starts = [start for later, start in self._starts.items() if later > attempt]
        return min(starts) + evaluated if starts else None

    def _lose(self, track: Track, piece: CurvePiece) -> None:
        if len(piece.steps):
            self._lost.append((track, piece))

    def _look_for_nonfinite(self, first: int, values: Mapping[str, Floats]) -> None:
        for name, column in values.items():
            finite = np.isfinite(column)
            if not finite.all():
                step = first + int(np.argmin(finite))
                self.first_nonfinite[name] = min(step, self.first_nonfinite.get(name, step))

    def _offset(self, attempt: int, clock: float) -> float:
        """Returns the seconds to add to an attempt's clock so that it runs on from where the earlier attempt was
        cut."""
        if attempt not in self._offsets:
            reached = max((track.last_clock for track in self._tracks.values()), default=0.0)
            self._offsets[attempt] = reached - clock if attempt > 1 else 0.0
        return self._offsets[attempt]

    def _time(self, attempt: int, event: Points) -> None:
        if attempt < self.fold.attempt:
            return  # of a process that was thought dead
        self._steps_timed += event.count
        self._seconds_timed += event.seconds
        if not self._first_point:
            self._first_point, self.trained_since = event.time, event.time - event.seconds

    def _measured(self, attempt: int, event: Series, offset: int) -> None:
        if len(event.x) != len(event.y) or len(event.x) % 8:
            self._damaged(attempt, f"the values of series {event.name} are not pairs of numbers", offset)
            return
        reached = self._reached.get(attempt, self._starts.get(attempt, 0))
        limit = self._limit(attempt, evaluated=True)
        if limit is None or 1 < limit > reached:
            self._relations.setdefault(event.name, Relation()).append(event, reached)
            self._show_relations()

    def _show_relations(self) -> None:
        found = ((name, relation.measured) for name, relation in self._relations.items())
        self.series = {name: measured for name, measured in found if measured is not None}

    # --- Reading ------------------------------------------------------------------------------------------------------

    def column(self, metric: str, attempt: int | None = None) -> Column:
        """The clean curve of ``metric`` across attempts, or all that one attempt recorded; empty when unknown.

        Steps of per-step metrics count from 0; an evaluation's step is the number of updates done.
        """
        tracks = self._by_metric.get(metric, [])
        if attempt is None:
            there = [track for track in tracks if track.steps.size]
            return self._join(metric, there).column if len(there) > 1 else join(track.column(metric) for track in there)
        parts = [part for track in tracks for part in track.part(metric, attempt)]
        for track, piece in self._lost:
            if metric in track.values:
                parts += stretches(Column(piece.steps, piece.values[metric], piece.clock), piece.blocks, attempt)
        return join(parts)

    def pyramid(self, metric: str) -> Pyramid | None:
        """The curve that ``column(metric)`` returns, with least and greatest values at all scales; None when empty."""
        tracks = [track for track in self._by_metric.get(metric, []) if track.steps.size]
        if len(tracks) > 1:
            return self._join(metric, tracks).pyramid
        return tracks[0].pyramid(metric) if tracks else None

    def _join(self, metric: str, tracks: Sequence[Track]) -> _Joined:
        """The curve in several columns, because the schema changed; put together again when one of them changes."""
        version = [(len(part), part.cuts) for part in (track.pyramid(metric) for track in tracks)]
        known = self._joined.get(metric)
        if known is None or known.version != version:
            column = join(track.column(metric) for track in tracks)
            steps, values = Buffer(np.int64), Buffer[np.floating[Any]](column.values.dtype)
            steps.extend(column.steps)
            values.extend(column.values)
            known = self._joined[metric] = _Joined(version, column, Pyramid(steps, values))
        return known

    def timeline(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The steps of the longest curve, and the training clock at the end of each. Views, as those of ``Column``."""

        def points(metric: str) -> int:
            return sum(track.steps.size for track in self._by_metric[metric])

        longest = self.column(max(self._by_metric, key=points, default=""))
        return longest.steps, longest.clock

    @property
    def last_step(self) -> int:
        """The last step at which anything was recorded; -1 without one."""
        return max((track.last_step for track in self._tracks.values()), default=-1)

    def wall(self, metric: str) -> NDArray[np.float64]:
        """Wall-clock seconds since 1970 of each point of ``column(metric)``, interpolated inside blocks."""
        tracks = [track for track in self._by_metric.get(metric, []) if track.steps.size]
        if not tracks:
            return np.empty(0)
        steps = np.concatenate([track.steps.view for track in tracks])
        return np.concatenate([track.wall() for track in tracks])[np.argsort(steps, kind="stable")]

    def recorded(self) -> tuple[str, ...]:
        """Names of the metrics that have points, in the order of the schema; others after."""
        names = [*self.metrics, *(name for name in self._by_metric if name not in self.metrics)]
        return tuple(name for name in names if any(track.steps.size for track in self._by_metric.get(name, [])))

    def last(self, metric: str) -> float | None:
        """The latest value of a curve; None when it has no point."""
        values = self.column(metric).values
        return float(values[-1]) if len(values) else None

    def best(self, metric: str) -> Best | None:
        """The best finite value, by the metric's ``better``; None without one, or where neither way is better."""
        spec, curve = self.metrics.get(metric), self.pyramid(metric)
        if spec is None or spec.better == "none" or curve is None:
            return None
        found = curve.lowest if spec.better == "lower" else curve.highest
        return Best(int(found.step), found.value) if found is not None else None

    def blocks(self) -> list[StepBlock]:
        """The blocks in which the steps that count were computed, in the order of their steps."""
        found = []
        for key, track in self._tracks.items():
            start = 0
            for block in track.blocks if key[0] == STEPPED else ():
                found.append(StepBlock(int(track.steps.view[start]), block.size, block.seconds))
                start += block.size
        return sorted(found)

    def steps_per_second(self) -> float | None:
        """Steps over the seconds of their training blocks: no compile, evaluation or checkpoint in it."""
        return self._steps_timed / self._seconds_timed if self._seconds_timed > 0 else None

    def pulse_summary(self) -> PulseSummary:
        """Sums up what the machines did; means are over the time from the first block of the latest attempt on."""
        return self.pulse.summary(self.trained_since)

    @property
    def first_point_seconds(self) -> float | None:
        """Returns the seconds from the start of the latest attempt to the end of its first block; None before."""
        return self._first_point - self.fold.started if self._first_point else None
