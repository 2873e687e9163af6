"""Scaling: how fast runs on several devices train, what that makes of speed-up and efficiency, and how sure it is.

Everything is read from the runs' histories. Pure Python; the law behind each fit is named where it is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, variance
from typing import Literal, NamedTuple

from clew_shared.base.number_words import in_bytes
from clew_shared.cards import ExerciseCard
from clew_shared.journal.history import History
from clew_shared.params import BATCH_SIZE

# fmt: off
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on
"""Quantiles of Student's t distribution for two-sided 95 %, by degrees of freedom from 1."""
_Z95 = 1.959964
"""The same for the normal distribution."""
_DISAGREES = 0.1
"""A forecast is not believed where a measured rate is farther from it than this share."""
_WIDEST = 10.0
"""An interval of a speed-up whose ends differ by more than this factor says nothing."""


class Interval(NamedTuple):
    """The 95 % interval of a mean or a ratio."""

    low: float
    high: float


class RunTiming(NamedTuple):
    """The times of one run after its warm-up: ``images`` and ``seconds`` of each of its blocks of steps.

    ``replicas`` are the devices that computed each step together, ``batch_size`` the images of one step over all.
    """

    replicas: int
    batch_size: int
    images: tuple[float, ...]
    seconds: tuple[float, ...]
    reduced_bytes: int = 0
    """Bytes that each device sends in one step."""
    input_seconds: float = 0.0
    reduce_seconds: float = 0.0
    """Seconds that picking a batch takes, and one all-reduce of these bytes; 0: not measured."""

    @property
    def rate(self) -> float:
        """Images per second over all its blocks."""
        return math.fsum(self.images) / math.fsum(self.seconds)


class Estimate(NamedTuple):
    """A mean with its standard error and degrees of freedom; both 0 where there is one value only."""

    value: float
    error: float = 0.0
    freedom: float = 0.0

    @property
    def interval(self) -> Interval | None:
        """Returns the interval that holds the true mean with 95 %; None without a spread to judge from, and where
        ``noisy``."""
        if self.freedom < 1 or self.noisy:
            return None
        reach = t95(self.freedom) * self.error
        return Interval(self.value - reach, self.value + reach)

    @property
    def noisy(self) -> bool:
        """Whether the values differ so much that the true mean might be nothing: an interval would say nothing."""
        return self.freedom >= 1 and t95(self.freedom) * self.error >= self.value


class ScalingRow(NamedTuple):
    """The result of all runs on ``replicas`` devices together. ``speedup`` is against the row with the fewest devices.

    ``over`` says what the intervals are made of: "repeats", or "blocks" of a single run, which know nothing of how one
    run differs from the next.
    """

    replicas: int
    batch_size: int
    repeats: int
    rate: Estimate
    median: float
    over: Literal["repeats", "blocks"]
    speedup: float
    speedup_interval: Interval | None
    efficiency: float
    efficiency_interval: Interval | None
    reduced_bytes: int = 0
    input_seconds: float = 0.0
    reduce_seconds: float = 0.0
    noisy: bool = False
    """Whether the measurements differ too much for an interval of the speed-up: there is none for that reason."""

    @property
    def step_seconds(self) -> float:
        """Returns the seconds that one step of ``batch_size`` images takes."""
        return self.batch_size / self.rate.value


class Fit(NamedTuple):
    """A law fitted to speed-ups: ``serial`` is the share of the work that more devices do not make faster, 0 to 1.

    ``error`` is the largest relative distance of a measured speed-up from the law.
    """

    law: Literal["amdahl", "gustafson"]
    serial: float
    error: float

    def speedup(self, ratio: float) -> float:
        """Returns the speed-up by this law, on ``ratio`` times as many devices."""
        if self.law == "amdahl":
            return 1 / (self.serial + (1 - self.serial) / ratio)
        return ratio - self.serial * (ratio - 1)

    @property
    def limit(self) -> float:
        """The speed-up that no number of devices passes."""
        return 1 / self.serial if self.law == "amdahl" and self.serial > 0 else math.inf


class Scaling(NamedTuple):
    """A study over devices: its rows by number of devices, the fits (None without two rows), and how it was measured.

    Weak scaling gives each device the same batch, so that the global batch grows; strong scaling divides one batch.
    """

    rows: tuple[ScalingRow, ...]
    weak: bool = False
    warm_up: int = 0
    amdahl: Fit | None = None
    gustafson: Fit | None = None

    @property
    def fit(self) -> Fit | None:
        """The law that belongs to this kind of scaling."""
        return self.gustafson if self.weak else self.amdahl


# --- Measuring --------------------------------------------------------------------------------------------------------


def time_run(history: History, replicas: int, warm_up: int) -> RunTiming | None:
    """The blocks of a run without its first ``warm_up`` steps; None when nothing is left.

    The time of a block that the warm-up ends in is divided evenly over its steps.
    """
    size = history.schema.batch_size if history.schema is not None else 0
    images, seconds = [], []
    for block in history.blocks():
        kept = min(block.first + block.size - warm_up, block.size)
        if kept > 0 and block.seconds > 0:
            images.append(float(kept * max(size, 1)))
            seconds.append(block.seconds * kept / block.size)
    schema = history.schema
    parts = (schema.reduced_bytes, schema.input_seconds, schema.reduce_seconds) if schema is not None else ()
    return RunTiming(replicas, max(size, 1), tuple(images), tuple(seconds), *parts) if images else None


def shared_by(histories: Iterable[History]) -> int:
    """The cores that the devices of these runs share, as their journals say; 0 where they share none."""
    return max((one.schema.shared_cores for one in histories if one.schema is not None), default=0)


def on_gpus(histories: Iterable[History]) -> bool:
    """Whether these runs had GPUs, as far as it was written down what they were given."""
    given = [one.fold.devices for one in histories if one.fold.devices]
    return bool(given) and not any("CPU" in names for names in given)


def measure(timings: Iterable[RunTiming | None], *, weak: bool = False, warm_up: int = 0) -> Scaling:
    """The table of all runs of a study, and the fits. In weak scaling those runs are left out whose devices had
    another batch than those of the run on the fewest."""
    found = sorted((timing for timing in timings if timing is not None), key=lambda timing: timing.replicas)
    groups: dict[int, list[RunTiming]] = {}
    for timing in found:
        if not weak or timing.batch_size * found[0].replicas == found[0].batch_size * timing.replicas:
            groups.setdefault(timing.replicas, []).append(timing)
    counts = sorted(groups)
    if not counts:
        return Scaling((), weak, warm_up)
    base = _mean(groups[counts[0]])
    rows = tuple(_row(count, groups[count], counts[0], base) for count in counts)
    ratios = [(row.replicas / counts[0], row.speedup) for row in rows[1:]]
    return Scaling(rows, weak, warm_up, fit_amdahl(ratios), fit_gustafson(ratios))


def _row(replicas: int, timings: Sequence[RunTiming], fewest: int, base: Estimate) -> ScalingRow:
    rate = _mean(timings)
    share = fewest / replicas
    speedup = rate.value / base.value
    between = Interval(1.0, 1.0) if replicas == fewest else ratio_interval(rate, base)
    noisy = between is not None and between.high > _WIDEST * between.low
    between = None if noisy else between
    return ScalingRow(
        replicas=replicas,
        batch_size=timings[0].batch_size,
        repeats=len(timings),
        rate=rate,
        median=median(timing.rate for timing in timings),
        over="repeats" if len(timings) > 1 else "blocks",
        speedup=speedup,
        speedup_interval=between,
        efficiency=speedup * share,
        efficiency_interval=Interval(between.low * share, between.high * share) if between is not None else None,
        reduced_bytes=timings[0].reduced_bytes,
        input_seconds=median(timing.input_seconds for timing in timings),
        reduce_seconds=median(timing.reduce_seconds for timing in timings),
        noisy=noisy,
    )


def _mean(timings: Sequence[RunTiming]) -> Estimate:
    """Images per second: the mean over repeats, or the ratio of all images to all seconds of a single run's blocks."""
    if len(timings) == 1:
        return _ratio_of_blocks(timings[0])
    rates = [timing.rate for timing in timings]
    return Estimate(fmean(rates), math.sqrt(variance(rates) / len(rates)), len(rates) - 1)


def _ratio_of_blocks(timing: RunTiming) -> Estimate:
    """The ratio estimator (Cochran, Sampling Techniques, 1977, section 2.11): long blocks count for more."""
    rate, count = timing.rate, len(timing.images)
    if count < 2:
        return Estimate(rate)
    spread = math.fsum(
        (images - rate * seconds) ** 2 for images, seconds in zip(timing.images, timing.seconds, strict=True)
    )
    return Estimate(rate, math.sqrt(spread * count / (count - 1)) / math.fsum(timing.seconds), count - 1)


def t95(freedom: float) -> float:
    """The quantile of Student's t distribution for a two-sided interval of 95 %; ``freedom`` is rounded down.

    Beyond the table by the expansion around the normal distribution (Abramowitz and Stegun, 26.7.5), right to 0.001.
    """
    n, z = int(freedom), _Z95
    if n <= len(_T95):
        return _T95[n - 1]
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n * n)


def ratio_interval(above: Estimate, below: Estimate) -> Interval | None:
    """The 95 % interval of the ratio of two means: relative errors add up in squares, degrees of freedom as Welch and
    Satterthwaite combine them. None when either has no spread."""
    if above.freedom < 1 or below.freedom < 1:
        return None
    squares = [(one.error / one.value) ** 2 for one in (above, below)]
    ratio, total = above.value / below.value, math.fsum(squares)
    if not total:
        return Interval(ratio, ratio)
    freedom = total**2 / (squares[0] ** 2 / above.freedom + squares[1] ** 2 / below.freedom)
    reach = t95(max(freedom, 1.0)) * math.sqrt(total)
    return Interval(ratio * math.exp(-reach), ratio * math.exp(reach))


# --- Fits -------------------------------------------------------------------------------------------------------------


def fit_amdahl(points: Sequence[tuple[float, float]]) -> Fit | None:
    """Fits Amdahl's law, time = s + (1 - s) / n, by least squares over (n, speed-up) with n above 1; None without any.

    Amdahl, Validity of the single processor approach, AFIPS 1967.
    """
    return _fit("amdahl", [(1 - 1 / n, 1 / speedup - 1 / n) for n, speedup in points], points)


def fit_gustafson(points: Sequence[tuple[float, float]]) -> Fit | None:
    """Fits Gustafson's law for work that grows with the devices, speed-up = n - s (n - 1), by least squares.

    Gustafson, Reevaluating Amdahl's law, CACM 31 (5), 1988.
    """
    return _fit("gustafson", [(n - 1, n - speedup) for n, speedup in points], points)


def _fit(
    law: Literal["amdahl", "gustafson"], lines: Sequence[tuple[float, float]], points: Sequence[tuple[float, float]]
) -> Fit | None:
    """Fits the serial share: both laws are lines through 0 whose slope it is."""
    below = math.fsum(x * x for x, _ in lines)
    if not below:
        return None
    serial = min(max(math.fsum(x * y for x, y in lines) / below, 0.0), 1.0)
    fitted = Fit(law, serial, 0.0)
    return fitted._replace(error=max(abs(fitted.speedup(n) - speedup) / speedup for n, speedup in points))


# --- Forecast ---------------------------------------------------------------------------------------------------------


class NetworkSpeed(NamedTuple):
    """The measured cost of an all-reduce between two devices: bytes per second, and seconds for each message."""

    bandwidth: float
    latency: float = 0.0


class Forecast(NamedTuple):
    """A forecast for one number of devices: the seconds of a step, and those of them that pass with reducing
    gradients."""

    replicas: int
    step_seconds: float
    reduce_seconds: float
    rate: float
    speedup: float
    efficiency: float


def allreduce_seconds(replicas: int, size: float, network: NetworkSpeed) -> float:
    """A ring all-reduce of ``size`` bytes: each device sends 2 (n - 1) / n of them in 2 (n - 1) messages.

    Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, J. Parallel Distrib. Comput. 69, 2009.
    """
    messages = 2 * (replicas - 1)
    return messages / replicas * size / network.bandwidth + messages * network.latency


def forecast(
    step_seconds: float,
    batch_size: int,
    reduced_bytes: float,
    network: NetworkSpeed,
    counts: Sequence[int] = (2, 4, 8, 16),
    weak: bool = False,
) -> tuple[Forecast, ...]:
    """Predicts what more devices give, from one measured step of one device and a measured all-reduce.

    It takes for granted that a share of the batch takes its share of the time, and that nothing is computed while
    gradients travel. ``weak`` gives each device the whole ``batch_size``.
    """
    found = []
    for count in counts:
        reduce = allreduce_seconds(count, reduced_bytes, network)
        seconds = (step_seconds if weak else step_seconds / count) + reduce
        rate = batch_size * (count if weak else 1) / seconds
        speedup = rate * step_seconds / batch_size
        found.append(Forecast(count, seconds, reduce, rate, speedup, speedup / count))
    return tuple(found)


def network_between(one: ScalingRow, two: ScalingRow, weak: bool = False) -> NetworkSpeed | None:
    """The all-reduce between two devices as it shows in their steps: what these take longer than the work alone would.

    None where they take no longer, or where nothing was sent.
    """
    extra = two.step_seconds - one.step_seconds / (1 if weak else 2)
    return NetworkSpeed(two.reduced_bytes / extra) if extra > 0 and two.reduced_bytes else None


def network_of(row: ScalingRow) -> NetworkSpeed | None:
    """The network of a row whose all-reduce was measured by itself; None where it was not."""
    if row.replicas < 2 or not row.reduced_bytes or row.reduce_seconds <= 0:
        return None
    return NetworkSpeed(allreduce_seconds(row.replicas, row.reduced_bytes, NetworkSpeed(1.0)) / row.reduce_seconds)


def forecast_of(scaling: Scaling, counts: Sequence[int] = (2, 4, 8, 16)) -> tuple[Forecast, ...]:
    """Predicts what more devices give, from a measured step of one device and an all-reduce: that of the fewest devices
    for which it was measured, else as it shows in the steps of two. Empty without these, and where a measured row
    disagrees: gradients that travel while others are computed are one reason."""
    one, reduced = next((row for row in scaling.rows if row.replicas == 1), None), _reduction_of(scaling)
    if one is None or reduced is None:
        return ()
    row, network = reduced

    def for_counts(wanted: Sequence[int]) -> tuple[Forecast, ...]:
        return forecast(one.step_seconds, one.batch_size, row.reduced_bytes, network, wanted, scaling.weak)

    known = [other for other in scaling.rows if other.replicas > 1]
    pairs = zip(known, for_counts([other.replicas for other in known]), strict=True)
    if any(abs(other.rate.value / said.rate - 1) > _DISAGREES for other, said in pairs):
        return ()
    return for_counts(counts)


def _reduction_of(scaling: Scaling) -> tuple[ScalingRow, NetworkSpeed] | None:
    """The network and the row that says how much is reduced; None where neither was measured nor shows in the steps."""
    rows = {row.replicas: row for row in scaling.rows}
    measured = [(row, network) for row in scaling.rows if (network := network_of(row)) is not None]
    if measured or 1 not in rows or 2 not in rows:
        return measured[0] if measured else None
    network = network_between(rows[1], rows[2], scaling.weak)
    return (rows[2], network) if network is not None else None


def forecast_basis(scaling: Scaling) -> str:
    """Says what a forecast is made of: "the step of 1 device and the all-reduce of 2, if nothing overlaps"."""
    row = next((row for row in scaling.rows if network_of(row) is not None), None)
    if row is None:
        return "the steps of 1 and 2 devices, if nothing overlaps"
    return f"the step of 1 device and the all-reduce of {row.replicas}, if nothing overlaps"


# --- Reference --------------------------------------------------------------------------------------------------------


class Reference(NamedTuple):
    """Somebody else's measurement, images per second by number of devices, to compare with."""

    title: str
    rates: Mapping[int, float]

    def speedup(self, replicas: int) -> float | None:
        """Returns the speed-up against its own single device; None where it was not measured."""
        return self.rates[replicas] / self.rates[1] if replicas in self.rates else None


JURECA = Reference("JURECA, Simple Image Benchmark", {1: 55, 4: 178, 8: 357, 16: 689, 32: 1230, 64: 2276, 128: 5562})
"""The table on the slides of Jülich's course: images per second on JURECA's GPUs with Horovod, in a "Simple Image
Benchmark" whose network the slides do not name."""


# --- Words ------------------------------------------------------------------------------------------------------------


class Conclusion(NamedTuple):
    """The conclusion of a measurement: one sentence, and one or two more with the reasons.

    ``shared``: the devices share one processor's cores, so that it says nothing about other machines.
    """

    sentence: str
    detail: str = ""
    shared: bool = False


_HIDDEN = "The reduction is hidden behind the computing: gradients travel while others are computed."
_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")


def conclude(
    scaling: Scaling,
    *,
    gpus: bool = False,
    cores: int = 0,
    reference: Reference | None = None,
    unit: str = "images",
) -> Conclusion:
    """Says what a study shows. ``cores``: the devices are logical ones of a processor with so many cores (0: they are
    not, or nobody knows); ``gpus``: they are GPUs. ``unit`` is what a batch is made of."""
    rows = scaling.rows
    if not rows:
        text = "Train the same on 1, 2 and 4 devices, and compare the times. Each run is an ordinary run."
        return Conclusion("Nothing has been measured yet.", text)
    last = rows[-1]
    if len(rows) == 1:
        what = f"{_amount(last.replicas, gpus)} {'train' if last.replicas > 1 else 'trains'}"
        text = f"{what} {figures(last.rate.value)} {unit}/s{_between(last.rate.interval, noisy=last.rate.noisy)}."
        return Conclusion(text, "Measure at least two numbers of devices to see a speed-up.")
    measured = _measured(rows[0], last, gpus)
    shared = shared_cores(last.replicas, cores) if not gpus else ""
    goes = _where_time_goes(last, gpus) if not overlaps(scaling) else _HIDDEN
    if shared:
        return Conclusion(shared, f"{measured} {goes}".rstrip(), shared=True)
    details = (
        _superlinear(last, rows[0], gpus),
        _limit(scaling, gpus),
        goes or _reduction(scaling, gpus),
        _compared(last, reference),
    )
    return Conclusion(measured, " ".join(filter(None, details)))


def interval_words(rate: Estimate, none: str) -> str:
    """``309 to 316``; ``none`` where one run gave a single number, ``too noisy`` where an interval says nothing."""
    between = rate.interval
    if between is None:
        return "too noisy" if rate.noisy else none
    return f"{figures(between.low)} to {figures(between.high)}"


def unit_of(card: ExerciseCard) -> str:
    """Returns the unit that is counted in a second: the images of batches, where an exercise has batches."""
    return "images" if any(param.name == BATCH_SIZE for param in card.params) else "samples"


def shared_cores(replicas: int, cores: int) -> str:
    """The sentence for logical devices of a processor with ``cores`` cores; empty for one device or no such thing.

    TensorFlow spreads the work of a single device over all cores already, so that more devices can only share them.
    """
    if replicas < 2 or cores < 1:
        return ""
    has = f"{_number(replicas)} devices share {_number(cores).lower()} core{'s' if cores > 1 else ''} here"
    if replicas >= cores:
        return f"{has}: no speed-up is to be expected."
    return f"{has}, and one device can use them all: little speed-up is to be expected."


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def _amount(count: int, gpus: bool) -> str:
    word = "GPU" if gpus else "device"
    return f"{count if gpus else _number(count)} {word}{'s' if count != 1 else ''}"


def _amount_inside(count: int, gpus: bool) -> str:
    """Returns the same words inside a sentence: ``two devices``, ``2 GPUs``."""
    return _amount(count, gpus) if gpus else _amount(count, gpus).lower()


def _between(interval: Interval | None, digits: int = 0, noisy: bool = False) -> str:
    """``, between 5.9 and 6.3``; ``digits`` 0: three figures. ``noisy``: why there is no interval."""
    if interval is None:
        return "; the measurements differ too much to say how sure that is" if noisy else ""
    low, high = (f"{one:.{digits}f}" if digits else figures(one) for one in interval)
    return f", between {low} and {high}" if low != high else ""


def _measured(first: ScalingRow, last: ScalingRow, gpus: bool) -> str:
    """Says how much faster the most devices are than the fewest."""
    than = "one" if first.replicas == 1 else _amount_inside(first.replicas, gpus)
    who, between = f"{_amount(last.replicas, gpus)} train", last.speedup_interval
    factor = f"{last.speedup:.{_digits(last)}f} times as fast as {than}{_between(between, _digits(last), last.noisy)}"
    if _is_noise(last):
        return f"{who} no faster than {than}: the difference is smaller than the noise ({factor})."
    return f"{who} {factor}."


def _is_noise(row: ScalingRow) -> bool:
    """Whether a row may be as fast as the first one."""
    return row.speedup_interval is not None and row.speedup_interval.low <= 1 <= row.speedup_interval.high


def _digits(row: ScalingRow) -> int:
    """Returns the number of decimals that the interval is worth; small speed-ups need a second one."""
    return 2 if row.speedup < 2 else 1 if row.speedup < 100 else 0


def _limit(scaling: Scaling, gpus: bool) -> str:
    fit, last = scaling.fit, scaling.rows[-1]
    if fit is None or last.speedup < 1 or _is_noise(last):
        return ""
    things = "GPUs" if gpus else "devices"
    share = f"{figures(100 * fit.serial, 2)} %"
    off = f" The fit is off by up to {100 * fit.error:.0f} %." if fit.error > 0.1 else ""
    if fit.serial < 0.0005:
        return f"Every part of a step seems to get faster with more {things}."
    if scaling.weak:
        return f"About {share} of the work does not grow with the {things} (Gustafson's law)." + off
    ratio = scaling.rows[0].replicas
    most = f"{figures(fit.limit, 2)}×" + (f" the speed of {ratio}" if ratio > 1 else "")
    words = f"About {share} of each step does not get faster, so by this fit no number of {things} would exceed {most}."
    return words + off


def _superlinear(last: ScalingRow, first: ScalingRow, gpus: bool) -> str:
    """Says what to look at where more devices are surely more than so many times as fast."""
    if last.efficiency_interval is None or last.efficiency_interval.low <= 1 or last.replicas == first.replicas:
        return ""
    things = "GPUs" if gpus else "devices"
    ratio = f"{last.replicas / first.replicas:.3g}"
    return (
        f"More than {ratio} times as fast on {ratio} times as many {things} needs an explanation: the smaller share of"
        " each may fit into its cache, or the warm-up of the first row was too short."
    )


def overlaps(scaling: Scaling) -> bool:
    """Whether a step of several devices is surely shorter than its work and its reduction one after the other: then
    gradients travel while others are computed, and the parts of a step do not add up."""
    one = next((row for row in scaling.rows if row.replicas == 1), None)
    if one is None:
        return False
    return any(
        one.step_seconds / (1 if scaling.weak else row.replicas) + row.reduce_seconds
        > (1 + _DISAGREES) * row.step_seconds
        for row in scaling.rows
        if row.replicas > 1 and row.reduce_seconds
    )


class StepShares(NamedTuple):
    """The shares of a step's time, from 0 to 1, that add up to 1."""

    input: float
    compute: float
    reduce: float


def step_shares(row: ScalingRow) -> StepShares | None:
    """The shares of a row's step, from what was measured of input and reduction alone; None where that was not done."""
    if not row.input_seconds and not row.reduce_seconds:
        return None
    picked = min(row.input_seconds / row.step_seconds, 1.0)
    reduced = min(row.reduce_seconds / row.step_seconds, 1.0 - picked)
    return StepShares(picked, 1.0 - picked - reduced, reduced)


def _where_time_goes(last: ScalingRow, gpus: bool) -> str:
    """The shares of a step on the most devices, where they were measured."""
    shares = step_shares(last)
    if shares is None:
        return ""
    who = _amount_inside(last.replicas, gpus)
    words = f"On {who} a step is {_percent(shares.input)} input, {_percent(shares.compute)} computing"
    if not last.reduce_seconds:
        return f"{words}."
    return f"{words} and {_percent(shares.reduce)} reduction of {in_bytes(last.reduced_bytes)}, if nothing overlaps."


def _reduction(scaling: Scaling, gpus: bool) -> str:
    """The share of the reduction as the steps of several devices show it, where it was not measured by itself."""
    last = scaling.rows[-1]
    found = [one for one in forecast_of(scaling, (last.replicas,)) if last.replicas > 1]
    if not found:
        return ""
    share = _percent(min(found[0].reduce_seconds / last.step_seconds, 1.0))
    who = _amount_inside(last.replicas, gpus)
    return f"On {who} the reduction of {in_bytes(last.reduced_bytes)} takes about {share} of a step."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _compared(last: ScalingRow, reference: Reference | None) -> str:
    theirs = reference.speedup(last.replicas) if reference is not None else None
    if reference is None or theirs is None or last.speedup_interval is None:
        return ""
    inside = last.speedup_interval.low <= theirs <= last.speedup_interval.high
    noise = "no difference can be seen" if inside else "the difference is larger than the noise"
    return f"Jülich's table ({reference.title}) has {theirs:.1f}; {noise}."


def figures(value: float, count: int = 3) -> str:
    """A number with ``count`` significant figures and no power of ten: "312", "1,890", "0.0472"."""
    if not math.isfinite(value) or value == 0:
        return "∞" if value > 0 else "0"
    rounded = float(f"{value:.{count - 1}e}")
    digits = count - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(digits, 0)}f}"


def as_table(scaling: Scaling, steps: int) -> list[dict[str, object]]:
    """The rows for a program; ``seconds`` is the time for ``steps`` steps, or in weak scaling for as many images per
    device."""
    return [
        {
            "devices": row.replicas,
            "batch_size": row.batch_size,
            "reduced_bytes": row.reduced_bytes,
            "input_seconds": row.input_seconds,
            "reduce_seconds": row.reduce_seconds,
            "repeats": row.repeats,
            "interval_over": row.over,
            "seconds": row.step_seconds * steps,
            "step_seconds": row.step_seconds,
            "images_per_second": row.rate.value,
            "images_per_second_median": row.median,
            "images_per_second_interval": row.rate.interval,
            "speedup": row.speedup,
            "speedup_interval": row.speedup_interval,
            "efficiency": row.efficiency,
            "efficiency_interval": row.efficiency_interval,
        }
        for row in scaling.rows
    ]
