"""The Cluster tab: roles, the timeline of updates, staleness, images/s and events of a run, and their charts."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_gui.base.tokens import Theme
from clew_gui.charts.kit.axes import FOOT, draw_foot, draw_grid, draw_level, value_room
from clew_gui.charts.kit.drawing import Chart, Drawing, Stroke, TextSizes, widest
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.lines import LinesChart, LinesPlot, PlotAxis, PlotLine
from clew_gui.charts.kit.svg import ChartPage
from clew_gui.charts.kit.ticks import Span, Tick, XUnit, linear_ticks, nice_step, x_ticks
from clew_gui.study.scaling import figures
from clew_gui.study.usage import process_now
from clew_shared.base.number_words import counted
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import known_strategies
from clew_shared.journal.events import Peer
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.pulse import PulseTable
from clew_shared.journal.updates import UpdateColumns, UpdateCounts
from clew_shared.spec import RunSpec

THREADS = "lock-free"
Tone = Literal["text2", "ok", "warn", "bad"]
_NUMBERS = ("staleness", "workers", "servers")
_LATEST = 500
"""The staleness of so many of the latest gradients is drawn over that of all."""
_FOLLOWED = 20_000
"""A timeline that follows a run reads so many of the latest gradients."""
_IN_SIGHT = 24
"""A timeline that follows a run shows about so many updates of each worker."""
_SINGLE = 160
"""The number of bars in a row from which on they are drawn as stretches without a pause."""
_FINE = 1 / 1500
"""Part of the timeline below which a pause is not drawn then."""
_PAUSE = 0.12
"""A pause that takes this part of the timeline or more gets a label."""
_BINS = 80
"""Stretches of time in which images/s are measured."""
_RATED = 100_000
"""The largest number of latest gradients that count."""
_BARS = 26
"""Bars of the histogram, at most."""


class ClusterSetup(NamedTuple):
    """The settings of a run's strategy with parameter servers."""

    mode: str
    staleness: int
    late: str
    workers: int
    servers: int

    @property
    def words(self) -> str:
        """``asynchronous``; with the bound where there is one."""
        words = {"async": "asynchronous", "sync": "synchronous"}.get(self.mode, self.mode)
        if self.mode == "bounded":
            words = f"staleness at most {self.staleness} by {'waiting' if self.late == 'wait' else 'dropping'}"
        return words


def setup_of(spec: RunSpec, card: ExerciseCard | None) -> ClusterSetup:
    """The strategy's settings of a run, with its card's defaults."""
    known = (*known_strategies().values(), *(card.strategies if card is not None else ()))
    params = (param for one in known if one.id == spec.strategy for param in one.params)
    values = {param.name: param.default for param in params} | spec.options
    numbers = {name: found if isinstance(found := values.get(name), int) else 0 for name in _NUMBERS}
    mode, late = str(values.get("mode", "")), str(values.get("late", ""))
    servers = 0 if mode == THREADS else numbers["servers"]
    return ClusterSetup(mode, numbers["staleness"], late, numbers["workers"], servers)


class Role(NamedTuple):
    """A process: what it is, where, its state (``shown_as`` is the run state whose icon and colour it gets), and what
    it does, in words."""

    role: Literal["chief", "ps", "worker"]
    number: int
    host: str
    shown_as: str
    state: str
    doing: str
    alive: bool
    factor: float = 1.0

    @property
    def name(self) -> str:
        """``Worker 1``."""
        if self.role == "chief":
            return "Coordinator"
        return f"{'Server' if self.role == 'ps' else 'Worker'} {self.number}"


class ClusterEvent(NamedTuple):
    """Something that happened to a process, at a time of the training clock; ``wall`` since 1970."""

    clock: float
    wall: float
    text: str
    tone: Tone


class WorkerLane(NamedTuple):
    """A worker's row of the timeline: bars from ``starts`` to ``ends``. ``arrived`` and ``dropped`` are when single
    updates reached the server (empty where there are too many), ``pauses`` stretches without any."""

    worker: int
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    arrived: NDArray[np.float64]
    dropped: NDArray[np.float64]
    pauses: tuple[tuple[float, float, str], ...]


class UpdateTimeline(NamedTuple):
    """The work of the workers, in seconds of the training clock. ``whole`` is all of the training time."""

    x: Span
    whole: Span
    ticks: tuple[Tick, ...]
    lanes: tuple[WorkerLane, ...]
    events: tuple[ClusterEvent, ...]


class StalenessBar(NamedTuple):
    """Parts of all gradients with a staleness from ``low`` to ``high``: applied, dropped, and applied lately."""

    low: int
    high: int
    applied: float
    dropped: float
    lately: float

    @property
    def words(self) -> str:
        """Describes the bar."""
        name = f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"
        dropped = f", {100 * self.dropped:.1f} % dropped" if self.dropped else ""
        return f"Staleness {name}: {100 * self.applied:.1f} % applied{dropped}, lately {100 * self.lately:.1f} %"


class Staleness(NamedTuple):
    """The histogram, whose bars are ``width`` wide; the last one has all above it as well. ``median`` and ``bound`` are
    places on its axis, ``latest`` is how many the outline is made of."""

    bars: tuple[StalenessBar, ...]
    width: int
    median: int
    mean: float
    bound: int | None
    latest: int
    y: Span
    ticks: tuple[Tick, ...]

    def place(self, staleness: float) -> float:
        """Returns where a staleness is on an axis on which each bar is 1 wide, the first from 0 to 1."""
        return min((staleness + 0.5) / self.width, float(len(self.bars)))


class ClusterScene(NamedTuple):
    """Everything that the tab shows of one run. ``threads``: its workers are no processes."""

    caption: str
    sentence: str
    threads: bool
    roles: tuple[Role, ...]
    timeline: UpdateTimeline
    staleness: Staleness | None
    rates: LinesPlot | None
    events: tuple[ClusterEvent, ...]


def cluster_scene(
    history: History, spec: RunSpec, card: ExerciseCard | None, state: RunState, seen: Span | None = None
) -> ClusterScene:
    """The scene of a run; ``seen`` is the part of the training time that the timeline shows (None: the latest)."""
    setup, columns = setup_of(spec, card), history.updates.columns
    workers = _workers(history, setup)
    events = tuple(_events(history))
    rates = rates_of(columns, workers, images_each(history))
    return ClusterScene(
        _caption(history, setup, workers),
        sentence_of(history.updates.counts, setup),
        setup.mode == THREADS,
        tuple(_roles(history, setup, workers, state, rates)),
        timeline_of(columns, workers, events, seen),
        staleness_of(history.updates.counts, columns, setup) if len(columns.steps) else None,
        rates,
        events,
    )


def as_it_was(history: History, step: int) -> History:
    """The history of a run at a step, as far as its scene needs it."""
    past = copy(history)
    past.updates, past.pulse = history.updates.until(step), PulseTable()
    end = past.updates.columns.ended.max(initial=0.0)
    past.peer_news = deque(peer for peer in history.peer_news if history.updates.clock_at(peer.time) <= end)
    past.peers = {(peer.role, peer.index): peer for peer in past.peer_news}
    return past


def _workers(history: History, setup: ClusterSetup) -> list[int]:
    """Returns all known workers: those that joined, those that sent something, those that were asked for."""
    joined = {index for role, index in history.peers if role == "worker"}
    asked = range(setup.workers) if not joined or setup.mode == THREADS else ()
    return sorted(joined | set(history.updates.counts.shares()) | set(asked))


def _caption(history: History, setup: ClusterSetup, workers: Sequence[int]) -> str:
    """``asynchronous: 1 coordinator, 1 server, 4 workers on 5 nodes``."""
    servers = len([1 for role, _ in history.peers if role == "ps"]) or setup.servers
    hosts = {peer.host for peer in history.peers.values()} | {history.fold.host} - {""}
    if setup.mode == THREADS:
        return f"{setup.words}: {counted(len(workers), 'thread')} of one process"
    parts = ["1 coordinator", counted(servers, "server"), counted(len(workers), "worker")]
    return f"{setup.words}: {', '.join(parts)} on {counted(max(len(hosts), 1), 'node')}"


# --- Roles ------------------------------------------------------------------------------------------------------------


_WORKING = ("joined", "replaced", "slowed")
_GONE = {"killed": ("Failed", "Killed"), "lost": ("Lost", "Lost"), "ended": ("Finished", "Ended")}


def _roles(
    history: History, setup: ClusterSetup, workers: Sequence[int], state: RunState, rates: LinesPlot | None
) -> Iterable[Role]:
    """The coordinator, the servers and the workers; of those that work what they use of their nodes."""
    for role in _doing(history, setup, workers, state, rates):
        process = "trainer" if role.role == "chief" else f"{role.role} {role.number}"
        use = process_now(history.pulse, process) if role.alive else ""
        yield role._replace(doing=", ".join(filter(None, (role.doing, use))))


def _doing(
    history: History, setup: ClusterSetup, workers: Sequence[int], state: RunState, rates: LinesPlot | None
) -> Iterator[Role]:
    over = state in TERMINAL
    started = ("Running", "Working") if history.fold.attempt else ("Starting", "Starts")
    shown_as, word = ("Finished", "Ended") if over else started
    doing = "starts the threads" if setup.mode == THREADS else "hands out batches, saves checkpoints"
    yield Role("chief", 0, history.fold.host, shown_as, word, doing, not over)
    counts = history.updates.counts
    slow = {peer.index: peer.factor for peer in history.peer_news if peer.role == "worker"}
    servers = sorted({index for role, index in history.peers if role == "ps"} or range(setup.servers))
    for index in servers:
        taken = f"took {counts.applied:,} gradients" if counts.applied else "holds the variables"
        yield _role("ps", index, history, state, taken, 1.0)
    speeds = {line.index: f"{line.value} {rates.title.lower()}" for line in rates.lines} if rates is not None else {}
    shares = counts.shares()
    for index in workers:
        sentences = [speeds[index]] if index in speeds and not over else []
        if index in shares:
            sentences += [f"{100 * shares[index]:.0f} %", f"{int(counts.workers[:, index].sum()):,} updates"]
        role = _role("worker", index, history, state, ", ".join(sentences), slow.get(index, 1.0))
        yield role._replace(host=history.fold.host) if setup.mode == THREADS else role


def _role(
    kind: Literal["ps", "worker"], index: int, history: History, state: RunState, doing: str, factor: float
) -> Role:
    peer = history.peers.get((kind, index))
    shown_as, word, alive = "Starting", "Starts", peer is not None and peer.status in _WORKING
    if peer is not None:
        shown_as, word = _GONE.get(peer.status, ("Running", "Working" if alive else peer.status.capitalize()))
    if factor > 1 and alive:
        shown_as, word = "Paused", f"Slowed ×{factor:g}"
    if peer is None and index in history.updates.counts.shares():
        shown_as, word, alive = "Running", "Working", True
    if state is RunState.PAUSED and alive:
        shown_as, word = "Paused", "Paused"
    if state in TERMINAL and (alive or peer is None):
        shown_as, word, alive = "Finished", "Ended", False
    return Role(kind, index, peer.host if peer else history.fold.host, shown_as, word, doing, alive, factor)


# --- Events -----------------------------------------------------------------------------------------------------------


def _events(history: History) -> Iterable[ClusterEvent]:
    """Yields what happened to processes, without those that ended with their run."""
    for peer in history.peer_news:
        text, tone = _event_words(peer)
        if text:
            yield ClusterEvent(history.updates.clock_at(peer.time), peer.time, text, tone)


def _event_words(peer: Peer) -> tuple[str, Tone]:
    who = f"{'server' if peer.role == 'ps' else 'worker'} {peer.index}"
    match peer.status:
        case "slowed":
            return (f"{who} slowed ×{peer.factor:g}", "warn") if peer.factor > 1 else (f"{who} at full speed", "ok")
        case "killed":
            return f"{who} killed", "bad"
        case "lost":
            return f"{who} lost", "bad"
        case "replaced":
            return f"{who} started again", "ok"
        case "joined":
            return f"{who} joined", "text2"
    return "", "text2"


# --- The timeline of updates ------------------------------------------------------------------------------------------


def timeline_of(
    columns: UpdateColumns, workers: Sequence[int], events: Sequence[ClusterEvent], seen: Span | None
) -> UpdateTimeline:
    """Returns the workers' work in the part ``seen`` (None: in the latest part, wide enough to tell updates apart)."""
    end = float(columns.ended[-_LATEST:].max()) if len(columns.ended) else 0.0
    whole = Span(0.0, max(end, 1e-3) * 1.02)
    x = seen if seen is not None else latest(columns, end)
    columns = columns.take(slice(-_FOLLOWED, None)) if seen is None else columns
    first = x.low - (float(columns.seconds.max()) if len(columns.seconds) else 0.0)
    inside = columns.take((columns.ended >= first) & (columns.ended - columns.seconds <= x.high))
    lanes = tuple(_lane(inside.take(inside.workers == worker), worker, x, end) for worker in workers)
    shown = tuple(event for event in events if x.low <= event.clock <= x.high and event.clock > 0)
    return UpdateTimeline(x, whole, x_ticks(x, 8, XUnit.SECONDS, log=False), lanes, shown)


def latest(columns: UpdateColumns, end: float) -> Span:
    """The end of the training time so far, as wide as some two dozen updates."""
    if not len(columns.seconds):
        return Span(0.0, 10.0)
    wide = nice_step(max(_IN_SIGHT * float(np.median(columns.seconds[-_LATEST:])), 1e-3), 1)
    return Span(max(0.0, end - wide), max(end, wide)).padded(0.01) if end > wide else Span(0.0, wide * 1.01)


def _lane(found: UpdateColumns, worker: int, x: Span, end: float) -> WorkerLane:
    ends = found.ended.astype(np.float64)
    starts = ends - found.seconds
    order = np.argsort(starts, kind="stable")
    starts, ends, accepted = starts[order], ends[order], found.accepted[order]
    single = len(ends) <= _SINGLE
    pauses = tuple(_pauses(starts, ends, x, end))
    nothing = np.empty(0)
    reached = np.maximum.accumulate(ends)
    if single:  # a worker may have the next batch before its update is taken: bars that overlap are drawn once
        clipped = np.minimum(np.maximum(starts, np.concatenate(([-np.inf], reached[:-1]))), ends)
        return WorkerLane(worker, clipped, ends, ends[accepted], ends[~accepted], pauses)
    new = np.flatnonzero(starts[1:] > reached[:-1] + _FINE * x.size) + 1
    edges = np.concatenate(([0], new, [len(ends)]))
    return WorkerLane(worker, starts[edges[:-1]], reached[edges[1:] - 1], nothing, nothing, pauses)


def _pauses(
    starts: NDArray[np.float64], ends: NDArray[np.float64], x: Span, end: float
) -> Iterable[tuple[float, float, str]]:
    """Stretches without updates that are long enough for a label."""
    reached = np.maximum.accumulate(np.concatenate(([x.low], ends))) if len(ends) else np.array([x.low])
    following = np.concatenate((starts, [min(end, x.high)]))
    for begin, until in zip(reached.tolist(), following.tolist(), strict=True):
        if until - begin >= _PAUSE * x.size:
            yield begin, until, f"no updates for {figures(until - begin)} s"


# --- Staleness --------------------------------------------------------------------------------------------------------


def staleness_of(counts: UpdateCounts, columns: UpdateColumns, setup: ClusterSetup) -> Staleness:
    """The histogram of all gradients, and of the latest ones over it."""
    recent = columns.take(slice(-_LATEST, None))
    lately = np.bincount(recent.staleness[recent.accepted], minlength=counts.staleness.shape[1])
    rows = np.stack((counts.staleness[1], counts.staleness[0], lately))
    size = max(int(_quantile(rows[0] + rows[1])), int(_quantile(lately)), 3) + 1
    width = -(-size // _BARS)
    edges = np.arange(0, size, width)
    sums = np.add.reduceat(np.pad(rows, ((0, 0), (0, size))), edges, axis=1)
    shares = sums / np.maximum([[rows[:2].sum()], [rows[:2].sum()], [lately.sum()]], 1)
    most = max(rows.shape[1] - 1, size - 1)
    bars = tuple(
        StalenessBar(low, min(low + width - 1, most) if low + width < size else most, *share)
        for low, share in zip(edges.tolist(), shares.T.tolist(), strict=True)
    )
    top = max(max(bar.applied + bar.dropped, bar.lately) for bar in bars)
    y = Span(0.0, max(top, 0.05) * 1.12)
    bound = setup.staleness if setup.mode == "bounded" else None
    ticks = linear_ticks(y, 4, "percent")
    mean, median = counts.mean_staleness, counts.median_staleness()
    return Staleness(bars, width, median, mean, bound, len(recent.steps), y, ticks)


def _quantile(counts: NDArray[np.int64]) -> float:
    """The staleness that all but one in two hundred gradients do not exceed."""
    return float(np.searchsorted(np.cumsum(counts), 0.995 * counts.sum()))


def sentence_of(counts: UpdateCounts, setup: ClusterSetup) -> str:
    """Explains the numbers in one or two sentences."""
    if not counts.workers.any():
        return "No update has arrived yet."
    shares = counts.shares()
    sentences = [_stale_words(counts, setup)]
    if counts.dropped:
        part = counts.dropped / (counts.dropped + counts.applied)
        sentences.append(f"{100 * part:.1f} % of the gradients came too late and were dropped.")
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if setup.mode != "sync" and shares[least] < 0.6 * shares[most]:
        sentences.append(
            f"Worker {least} made {100 * shares[least]:.0f} % of the updates, worker {most} {100 * shares[most]:.0f} %."
        )
    return " ".join(sentences)


def _stale_words(counts: UpdateCounts, setup: ClusterSetup) -> str:
    mean, most = counts.mean_staleness, counts.largest_staleness
    if most == 0:
        again = "all workers wait for each other" if setup.mode == "sync" else "no other update came in between"
        return f"Every gradient was computed with the newest weights: {again}."
    text = f"A gradient was computed with weights that were {mean:.1f} updates old on average, at most {most}"
    bound = f"; the bound is {setup.staleness}" if setup.mode == "bounded" else ""
    return f"{text}{bound}."


# --- Images per second ------------------------------------------------------------------------------------------------


def images_each(history: History) -> float:
    """Images of one gradient: a step's, shared by the gradients that make the step. 0 where that is not known."""
    batch = history.schema.batch_size if history.schema is not None else 0
    recent = history.updates.columns.take(slice(-5_000, None))
    steps = recent.steps[recent.accepted]
    return batch * len(np.unique(steps)) / len(steps) if len(steps) else float(batch)


def rates_of(columns: UpdateColumns, workers: Sequence[int], images: float) -> LinesPlot | None:
    """Images/s of each worker (updates/s where images are not known); None before there are some updates."""
    columns = columns.take(slice(-_RATED, None))
    end = float(columns.ended.max()) if len(columns.ended) else 0.0
    if end <= 0 or len(columns.ended) < 2:
        return None
    begin = float(columns.ended[0] - columns.seconds[0])
    typical = float(np.median(columns.seconds[-_LATEST:])) * 4
    bins = int(min(_BINS, max(2, (end - begin) // max(typical, 1e-3))))
    edges = np.linspace(begin, end, bins + 1)
    per = (images or 1.0) / max((end - begin) / bins, 1e-6)
    times, unit = 0.5 * (edges[1:] + edges[:-1]), "Images/s" if images else "Updates/s"
    lines = tuple(
        _rate_line(worker, times, per * np.diff(_done(columns.take(columns.workers == worker), edges)), unit)
        for worker in workers
    )
    x = Span(begin if len(columns.ended) == _RATED else 0.0, end * 1.02)
    y = Span(0.0, max(1e-3, *(float(line.y.max()) for line in lines)) * 1.1)
    return LinesPlot(unit, PlotAxis(x, x_ticks(x, 6, XUnit.SECONDS, log=False)), PlotAxis(y, linear_ticks(y, 4)), lines)


def _rate_line(worker: int, times: FloatArray, values: FloatArray, unit: str) -> PlotLine:
    """The line of a worker. The mean of its latest stretches is its value: one alone may lie between two updates."""
    now = figures(float(values[-max(1, len(values) // 10) :].mean()))
    said = partial(_rate_words, times, values, unit.lower())
    return PlotLine(f"Worker {worker}", times, values, now, said, index=worker)


def _rate_words(times: FloatArray, values: FloatArray, unit: str, number: int) -> str:
    return f"{figures(float(values[number]))} {unit} at {figures(float(times[number]))} s"


def _done(found: UpdateColumns, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns how many gradients were computed until each of these times; one under way counts in proportion."""
    if not len(found.ended):
        return np.zeros(len(edges))
    ends = np.maximum.accumulate(found.ended)
    starts = np.maximum(found.ended - found.seconds, np.concatenate(([-np.inf], ends[:-1])))
    times = np.stack((np.minimum(starts, ends), ends), axis=1).ravel()
    number = np.arange(len(ends), dtype=np.float64)
    done: NDArray[np.float64] = np.interp(edges, times, np.stack((number, number + 1), axis=1).ravel())
    return done


# --- ClusterSpec and TF_CONFIG ----------------------------------------------------------------------------------------


class ConfigPart(NamedTuple):
    """A text that was built for the cluster: what it is, what it corresponds to on the slides, and the text."""

    title: str
    slide: str
    text: str


def config_parts(history: History) -> tuple[ConfigPart, ...]:
    """The ClusterSpec and each process's TF_CONFIG, from the addresses that the processes said; none for threads."""
    peers = sorted((peer for peer in history.peers.values() if peer.port), key=lambda one: (one.role, one.index))
    if not peers:
        return ()
    cluster: dict[str, list[str]] = {}
    for peer in peers:
        cluster.setdefault(peer.role, []).append(f"{peer.address}:{peer.port}")
    lists = "\n".join(f"{role + '_hosts':<13}= {json.dumps(','.join(hosts))}" for role, hosts in cluster.items())
    hosts = "\n".join(
        f"{peer.host:<16} {'/job:' + peer.role + '/task:' + str(peer.index):<18} {peer.address}:{peer.port}"
        for peer in peers
    )
    return (
        ConfigPart("Hosts and roles", "ps_hosts and worker_hosts, built from the job's hosts", f"{hosts}\n\n{lists}"),
        ConfigPart(
            "ClusterSpec",
            'cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})',
            f"tf.train.ClusterSpec({json.dumps(cluster, indent=4)})",
        ),
        ConfigPart(
            "TF_CONFIG of each process",
            "server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)",
            "\n\n".join(
                f"# {'server' if peer.role == 'ps' else peer.role} {peer.index} on {peer.host}\n"
                + json.dumps({"cluster": cluster, "task": {"type": peer.role, "index": peer.index}})
                for peer in peers
            ),
        ),
        ConfigPart(
            "In the coordinator",
            "with tf.device(tf.train.replica_device_setter(cluster=cluster)):",
            '# The cluster has a third job, "chief": this process, which is the trainer.\n'
            "resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster_spec)\n"
            "strategy = tf.distribute.ParameterServerStrategy(resolver)\n"
            "coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)",
        ),
    )


_TOP: Final = 18.0
"""The space above the rows of the timeline, for what happened."""
LANE: Final = 22
"""Height of a worker's row."""
_NAMED_BARS: Final = 14
_WIDTH: Final = 1000
_EDGE: Final = 16.0


# --- The timeline of updates ------------------------------------------------------------------------------------------


def timeline_height(timeline: UpdateTimeline) -> int:
    """Returns the height that the rows of a timeline need."""
    return round(_TOP + LANE * max(len(timeline.lanes), 1) + FOOT)


class TimelineChart(Chart):
    """A row for each worker: bars while it computes, dots where an update reaches the servers."""

    def __init__(self, timeline: UpdateTimeline, box: Box, sizes: TextSizes) -> None:
        self._timeline = timeline
        left = widest(sizes, [f"Worker {lane.worker}" for lane in timeline.lanes]) + 12
        rows = Span(0.0, max(len(timeline.lanes), 1))
        self.frame = Frame(box.inset(left, _TOP, 14, FOOT), timeline.x, rows)
        self.along, self.whole = (self.frame, timeline.whole), replace(self.frame, x=timeline.whole)

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""
        draw_foot(drawing, self.frame, self._timeline.ticks)
        area = self.frame.box
        for place, lane in enumerate(self._timeline.lanes):
            middle = area.y + LANE * (place + 0.5)
            drawing.text(area.x - 8, middle, f"Worker {lane.worker}", drawing.theme.text2, across="right")
            with drawing.clipped(area):
                self._draw_lane(drawing, lane, middle)
        self._draw_events(drawing, self._timeline.events)

    def _draw_lane(self, drawing: Drawing, lane: WorkerLane, middle: float) -> None:
        theme = drawing.theme
        gap = 1.5 if len(lane.arrived) or len(lane.dropped) else 0.0
        for left, right in zip(self.frame.px(lane.starts).tolist(), self.frame.px(lane.ends).tolist(), strict=True):
            wide = max(right - left - (gap if right - left > 5 else 0), 0.5)
            drawing.rect(Box(left, middle - 6, wide, 12), theme.accent, 0.42 if theme.dark else 0.34)
        if len(lane.starts) < self.frame.box.width / 7:
            at = self.frame.px(lane.arrived) - 1
            drawing.marks(at, np.full(at.size, middle), theme.accent, 6.4, edge=Stroke(theme.surface, 1.4))
        at = self.frame.px(lane.dropped) - 1
        drawing.marks(at, np.full(at.size, middle), theme.surface, 6.4, edge=Stroke(theme.bad, 1.4))
        for begin, until, text in lane.pauses:
            left, right = self.frame.column(begin), self.frame.column(until)
            if right - left > drawing.width(text) + 8:
                drawing.text(0.5 * (left + right), middle, text, across="middle")

    def _draw_events(self, drawing: Drawing, events: Sequence[ClusterEvent]) -> None:
        """A dotted line where something happened, with words as far as there is room."""
        area = self.frame.box
        free = area.x
        for event in events:
            x, colour = self.frame.column(event.clock), drawing.theme.colour(event.tone)
            drawing.line(x, area.y - 4, x, area.bottom, Stroke(colour, 1.2, (2.4, 3.6)))
            wide = drawing.width(event.text)
            start = min(x + 4, area.right - wide)
            if start >= free:
                drawing.text(start, area.y - 10, event.text, colour)
                free = start + wide + 10

    def read(self, x: float, y: float) -> str:
        """Says what the worker at a pixel did then."""
        area = self.frame.box
        number = int((y - area.y) // LANE)
        if not (area.holds(x, y) and 0 <= number < len(self._timeline.lanes)):
            return ""
        lane, time = self._timeline.lanes[number], self.frame.x_at(x)
        inside = [(s, e) for s, e in zip(lane.starts.tolist(), lane.ends.tolist(), strict=True) if s <= time <= e]
        if not inside:
            return f"Worker {lane.worker}: nothing at {figures(time, 4)} s"
        start, end = inside[-1]
        if not (len(lane.arrived) or len(lane.dropped)):
            return f"Worker {lane.worker}: updates from {figures(start, 4)} to {figures(end, 4)} s"
        how = "dropped" if end in lane.dropped else "applied"
        return f"Worker {lane.worker}: {figures(1000 * (end - start))} ms, {how} at {figures(end, 4)} s"

    def description(self) -> str:
        """The number of bars of each worker, and what happened."""
        bars = [f"{counted(len(lane.starts), 'bar')} of worker {lane.worker}" for lane in self._timeline.lanes]
        return "; ".join([*bars, *(event.text for event in self._timeline.events)])


# --- Staleness --------------------------------------------------------------------------------------------------------


class StalenessChart(Chart):
    """Bars of all gradients, dropped ones on top; a line over them for the latest."""

    title = "Staleness (updates by others)"

    def __init__(self, plot: Staleness, box: Box, sizes: TextSizes, *, titled: bool = False) -> None:
        self._plot, self._titled = plot, titled
        below = FOOT + (sizes.height("captionStrong") if titled else 0)
        area = box.inset(value_room(sizes, plot.ticks), 16, 6, below)
        self.frame = Frame(area, Span(0.0, float(max(len(plot.bars), 4))), plot.y)

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""
        plot, frame, theme = self._plot, self.frame, drawing.theme
        draw_grid(drawing, frame, plot.ticks)
        draw_foot(drawing, frame, self._names(), self.title if self._titled else "")
        for place, bar in enumerate(plot.bars):
            left, right = frame.column(place + 0.12), frame.column(place + 0.88)
            rows = [frame.row(share) for share in (0.0, bar.applied, bar.applied + bar.dropped)]
            drawing.rect(Box(left, rows[1], right - left, rows[0] - rows[1]), theme.accent, 0.75)
            if bar.dropped:
                drawing.rect(Box(left, rows[2], right - left, rows[1] - rows[2]), theme.bad, 0.75)
        self._draw_lately(drawing)
        top = frame.box.y - 14
        draw_level(drawing, frame, plot.place(plot.median), f"median {plot.median:,}", theme.text2, top)
        if plot.bound is not None:
            draw_level(drawing, frame, plot.place(plot.bound + 0.5), f"bound {plot.bound:,}", theme.ok, top + 14)

    def _names(self) -> list[Tick]:
        """The numbers below the bars; for a bar of several values the first and the last, for the last "and more"."""
        bars, every = self._plot.bars, -(-len(self._plot.bars) // _NAMED_BARS)
        names = [
            Tick(place + 0.5, f"{bar.low}" if bar.low == bar.high else f"{bar.low}–{bar.high}")
            for place, bar in enumerate(bars[:-1])
            if place % every == 0
        ]
        last, text = bars[-1], f"{bars[-1].low}"
        if last.high >= last.low + self._plot.width:
            text += "+"
        elif last.high > last.low:
            text = f"{last.low}–{last.high}"
        return [Tick(len(bars) - 0.5, text), *names] if text.endswith("+") or every == 1 else names

    def _draw_lately(self, drawing: Drawing) -> None:
        """Heights of the latest gradients as steps."""
        heights = np.array([bar.lately for bar in self._plot.bars])
        edges = np.arange(len(heights) + 1, dtype=np.float64)
        x = np.repeat(edges, 2)
        y = np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])
        drawing.path(self.frame.px(x), self.frame.py(y), Stroke(drawing.theme.curve(1).colour, 1.6))

    def read(self, x: float, y: float) -> str:
        """Describes the bar at a pixel."""
        number = int(self.frame.x_at(x)) if self.frame.box.holds(x, y) else -1
        return self._plot.bars[number].words if 0 <= number < len(self._plot.bars) else ""

    def description(self) -> str:
        """All bars."""
        return "; ".join(bar.words for bar in self._plot.bars)


# --- The whole tab ----------------------------------------------------------------------------------------------------


def cluster_page(scene: ClusterScene, title: str, theme: Theme, sizes: TextSizes) -> ChartPage:
    """The sentence, the timeline, and below it staleness and images/s beside each other."""
    drawing, wide, half = Drawing(theme, sizes), _WIDTH - 2 * _EDGE, _WIDTH * 0.42
    drawing.paragraph(Box(_EDGE, 10, wide, 26), title, theme.text, "subtitle")
    drawing.paragraph(Box(_EDGE, 34, wide, 20), f"{scene.caption}.", theme.text2)
    drawing.paragraph(Box(_EDGE, 54, wide, 36), scene.sentence, theme.text2)
    high = timeline_height(scene.timeline)
    TimelineChart(scene.timeline, Box(_EDGE, 92, wide, high), sizes).draw(drawing)
    top = 92 + high + 10
    if scene.staleness is not None:
        head = f"Staleness, line: latest {scene.staleness.latest}"
        drawing.text(_EDGE, top, head, theme.text, "strong", down="top")
        StalenessChart(scene.staleness, Box(_EDGE, top + 24, half - _EDGE, 240), sizes).draw(drawing)
    if scene.rates is not None:
        head = f"{scene.rates.title} of each worker"
        drawing.text(half + 24, top, head, theme.text, "strong", down="top")
        LinesChart(scene.rates, Box(half + 24, top + 24, _WIDTH - half - 40, 240), sizes).draw(drawing)
    return ChartPage(_WIDTH, top + 280, drawing.items, title, scene.sentence, theme.surface)
