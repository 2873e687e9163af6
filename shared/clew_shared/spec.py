"""Run specs: what is to run, as TOML that a person can read, keep and hand on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec

from clew_shared.base.foreign import from_toml as parse_toml
from clew_shared.base.foreign import read_file
from clew_shared.base.problem import Problem, did_you_mean, problem, raise_all
from clew_shared.cards import MAX_PREDICTED, MAX_PREDICTED_VALUE, ExerciseCard, StrategyCard, is_curve
from clew_shared.params import LEARNING_RATE, Value, check, format_value

SPEC_FORMAT = 1
MAX_NAME = 60
RATES = 100
"""Number of learning rates that a range test tries."""
MAX_STEP = 2**53
"""The largest number of steps: they are counted as whole numbers that every reader of a journal can hold."""
MOST_TRACED = 200
"""Steps of one trace: each has hundreds of operations, and a few steps show the same as many."""
MAX_BYTES = 1 << 20
"""A file of a spec or a study has a few thousand."""
_TABLES = ("params", "options")
SINGLE = StrategyCard(id="single", title="One device")
"""The strategy of an exercise whose card names none."""
USUAL_PRECISION = "float32"
PRECISIONS = {USUAL_PRECISION: "32 bits", "bfloat16": "16 bits (bfloat16)", "float16": "16 bits (float16)"}
"""The precisions, and their names for people."""
SPREAD = ("strategy", "devices", "nodes")
"""The fields in which a further attempt of a run may differ from the one before."""
SITE_PATH = "site:"
"""The beginning of a path on the site, where a path on this computer would be possible too."""


class Pruning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rule by which a run ends early: when it does worse in ``metric`` than the other runs of its study did at the
    same step, that is worse than their ``median``, or not among the best third (successive ``halving``)."""

    pruner: Literal["median", "halving"]
    metric: str


class RateRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learning-rate range test: the rate grows from ``low`` to ``high`` by equal factors (L. N. Smith, Cyclical
    Learning Rates for Training Neural Networks, 2017)."""

    low: float
    high: float

    @property
    def words(self) -> str:
        """Returns the range in words: ``0.00001 to 10``."""
        return f"{format_value(self.low)} to {format_value(self.high)}"

    def rate(self, step: int, steps: int) -> float:
        """The rate at a step of a run of ``steps``: 100 rates, each for the same number of steps."""
        levels = max(1, min(RATES, steps) - 1)
        level = min(levels, step * (levels + 1) // max(1, steps))
        return float(f"{self.low * (self.high / self.low) ** (level / levels):.6g}")

    def next_change(self, step: int, steps: int) -> int:
        """The first step after ``step`` at which the rate is another one; ``steps`` when there is none."""
        now = self.rate(step, steps)
        return next((one for one in range(step + 1, steps) if self.rate(one, steps) != now), steps)


class Prediction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The curve of ``metric`` that a person expected: straight lines between ``values`` at rising ``steps``."""

    metric: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


_NO_LOCAL_STEPS = {"local_steps": 1}
"""An option of parameter servers in earlier versions, with the value at which it did nothing."""
_LATER = ("nodes", "precision", "pruning", "rate_range", "prediction", "trace")
"""Fields that are left out of a file where they say nothing, so that an earlier version reads what it can run: it
refuses a field that it does not know."""
_GONE = ("per_core",)
"""Fields of earlier versions that changed nothing in what a run computes."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The settings of one run: the exercise, its hyperparameters, the seed, the data and where it spreads.

    ``source_hash`` is that of the exercise file that was chosen from; the agent refuses another one, unless the run's
    journal names the revision that is here (``revisions``). Defaults are not sent, so that an earlier version takes the
    rest. ``data`` is a data set's name or a path, empty for the exercise's own default. ``run`` is a UUID that the
    client makes. ``study`` names the race or sweep that the run belongs to (``study.study``), empty for none.
    ``devices`` are those of each of its ``nodes``; ``options`` are the strategy's own hyperparameters, ``precision`` is
    the number format in which it computes. ``student`` is who started it, by the name that hand-ins carry, empty for
    nobody; ``course`` the course that was followed then, by its id, empty for none. ``pruning``, ``rate_range`` and
    ``prediction`` are there when they were asked for. ``trace`` is how many of its first steps TensorFlow's profiler
    watches; ``timed``: the run is one of a study over devices or nodes, so that whatever trains beside it would falsify
    it.
    """

    exercise: str
    format: int = SPEC_FORMAT
    run: str = ""
    name: str = ""
    study: str = ""
    student: str = ""
    course: str = ""
    preset: str = ""
    seed: int = 1
    data: str = ""
    strategy: str = "single"
    devices: int = 1
    nodes: int = 1
    precision: str = "float32"
    source_hash: str = ""
    params: dict[str, Value] = {}
    options: dict[str, Value] = {}
    pruning: Pruning | None = None
    rate_range: RateRange | None = None
    prediction: Prediction | None = None
    trace: int = 0
    timed: bool = False

    def __post_init__(self) -> None:
        """Drop an option of earlier versions that says nothing."""
        if _NO_LOCAL_STEPS.items() <= self.options.items():
            left = {name: value for name, value in self.options.items() if name not in _NO_LOCAL_STEPS}
            msgspec.structs.force_setattr(self, "options", left)

    @property
    def is_named_as_timed(self) -> bool:
        """Whether its study and its name (``2 devices, 1 of 3``) say that it is timed, as earlier versions said it."""
        places = ((self.devices, "device"), (self.nodes, "node"))
        names = [f"{count} {place}{'s' * (count != 1)}" for count, place in places]
        return bool(self.study) and self.name.split(",")[0] in names


def without_study(spec: RunSpec, **changes: Any) -> RunSpec:
    """``spec`` with ``changes``, as that of a run of no study: it need not train alone."""
    return msgspec.structs.replace(spec, study="", timed=False, **changes)


def to_toml(spec: RunSpec) -> str:
    """The spec as TOML text that ``from_toml`` reads back; empty fields are left out."""
    import tomli_w

    return tomli_w.dumps(to_table(spec))


def to_table(spec: RunSpec) -> dict[str, Any]:
    """Returns the content of the TOML text as a table.

    TOML has no null: a hyperparameter without value is written as "none", which ``params`` reads as no value.
    """
    table = msgspec.to_builtins(msgspec.structs.asdict(spec))
    known = msgspec.structs.fields(spec)
    usual = {field.name: field.default for field in known if field.default == "" or field.name in _LATER}
    usual |= {key: {} for key in _TABLES} | {"timed": spec.is_named_as_timed}
    table = {key: value for key, value in table.items() if key not in usual or value != usual[key]}
    return table | {key: without_null(table[key]) for key in _TABLES if key in table}


def without_null(values: Mapping[str, Value]) -> dict[str, Value]:
    """Values for TOML: "none" for those that have none."""
    return {key: "none" if value is None else value for key, value in values.items()}


def from_toml(text: str, origin: str = "the run spec") -> RunSpec:
    """The spec in ``text``. Raises ``ProblemError`` for broken TOML, and for wrong fields with *all* of them."""
    try:
        table = parse_toml(text)
    except ValueError as error:  # TOMLDecodeError, a number of 5000 digits, endless brackets
        raise problem("spec.toml", f"{origin} is not valid TOML: {error}.", "Fix that line.", origin) from None
    values, found = _fields(table, origin)
    spec = RunSpec(**{"exercise": "", **values})
    spec = spec if "timed" in values else msgspec.structs.replace(spec, timed=spec.is_named_as_timed)
    raise_all([*found, *check_spec(spec, origin)])
    return spec


@cache  # lists of runs read thousands of specs
def _known_fields() -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a spec by name, and their types."""
    return {field.name: field for field in msgspec.structs.fields(RunSpec)}, get_type_hints(RunSpec)


def _fields(table: Mapping[str, object], origin: str) -> tuple[dict[str, Any], list[Problem]]:
    """The table's values by field, typed, and everything that is wrong with them."""
    fields, kinds = _known_fields()
    values: dict[str, Any] = {}
    found = [_wrong(origin, name, "is needed") for name in fields if fields[name].required and name not in table]
    for name, value in table.items():
        if name in _GONE:
            continue
        if name not in fields:
            hint = did_you_mean(name, fields) or f"Known fields: {', '.join(fields)}."
            found.append(Problem("spec.fields", f"{origin} has an unknown field {name!r}.", hint, name))
            continue
        try:
            values[name] = msgspec.convert(value, kinds[name])
        except msgspec.ValidationError:
            found += _mistyped(origin, name, value, kinds[name])
    return values, found


def _mistyped(origin: str, name: str, value: object, kind: Any) -> list[Problem]:
    if name in _TABLES and isinstance(value, dict):
        wrong = {key: inner for key, inner in value.items() if not isinstance(inner, bool | int | float | str)}
        words = "must be a number, a text, true or false"
        return [_wrong(origin, f"{name}.{key}", f"{words}, got {inner!r}") for key, inner in wrong.items()]
    word = {int: "a whole number", str: "a text"}.get(kind, "a table")
    return [_wrong(origin, name, f"must be {word}, got {value!r}")]


def _wrong(origin: str, name: str, words: str) -> Problem:
    return Problem("spec.fields", f"{origin}: {name} {words}.", where=name)


def read_spec(path: Path) -> RunSpec:
    """The spec in the file ``path``. Raises ``ProblemError`` when it cannot be read or is no spec."""
    return from_toml(read_text(path), str(path))


def read_text(path: Path, code: str = "spec.read") -> str:
    """The text of a spec's or a study's file. Raises ``ProblemError``, with ``code``, when it cannot be one."""
    try:
        return read_file(path, MAX_BYTES).decode()
    except ValueError as error:
        raise problem(code, f"Cannot read {path}: {error}.", "Check the path.", str(path)) from None


def check_spec(spec: RunSpec, origin: str = "the run spec") -> list[Problem]:
    """Returns everything that is wrong with the spec by itself; its hyperparameters are checked against the
    exercise's."""
    found = []
    if spec.format != SPEC_FORMAT:
        text = f"{origin} has format {spec.format}; this version reads format {SPEC_FORMAT}."
        found.append(Problem("spec.format", text, where="format"))
    if not 0 <= spec.seed < 2**31:
        found.append(Problem("spec.seed", f"The seed must be from 0 to 2147483647, got {spec.seed}.", where="seed"))
    if len(spec.name) > MAX_NAME:
        text = f"A run's name may have {MAX_NAME} characters, this one has {len(spec.name)}."
        found.append(Problem("spec.name", text, "Shorten it.", where="name"))
    if len(spec.study) > MAX_NAME:
        text = f"The name of a study may have {MAX_NAME} characters, this one has {len(spec.study)}."
        found.append(Problem("spec.study", text, "Shorten it.", where="study"))
    if len(spec.course) > MAX_NAME:
        text = f"The id of a course may have {MAX_NAME} characters, this one has {len(spec.course)}."
        found.append(Problem("spec.course", text, "Leave it out.", where="course"))
    if len(spec.student) > MAX_NAME:
        text = f"The name of a student may have {MAX_NAME} characters, this one has {len(spec.student)}."
        found.append(Problem("spec.student", text, "Shorten it.", where="student"))
    if spec.devices < 1:
        found.append(Problem("spec.devices", f"At least 1 device is needed, got {spec.devices}.", where="devices"))
    if spec.nodes < 1:
        found.append(Problem("spec.nodes", f"At least 1 node is needed, got {spec.nodes}.", where="nodes"))
    if spec.precision not in PRECISIONS:
        text = f"The precision must be one of {', '.join(PRECISIONS)}, got {spec.precision!r}."
        found.append(Problem("spec.precision", text, where="precision"))
    return [*found, *_check_rates(spec), *_check_prediction(spec), *check_trace(spec.trace)]


def check_trace(steps: int) -> list[Problem]:
    """Returns what is wrong with a trace of so many steps; 0 is none."""
    if 0 <= steps <= MOST_TRACED:
        return []
    text = f"A trace is of 1 to {MOST_TRACED} steps, got {steps:,}."
    return [Problem("spec.trace", text, "20 steps, for example.", "trace")]


def _check_rates(spec: RunSpec) -> list[Problem]:
    test = spec.rate_range
    if test is None or 0 < test.low < test.high < math.inf:
        return []
    text = f"A range test needs a lowest rate above 0 and a higher highest one, got {test.low:g} and {test.high:g}."
    return [Problem("spec.rate_range", text, "From 0.000001 to 10, for example.", "rate_range")]


def _check_prediction(spec: RunSpec) -> list[Problem]:
    drawn = spec.prediction
    if drawn is None:
        return []
    curve = is_curve(drawn.steps, drawn.values)
    if curve and drawn.steps[-1] > MAX_STEP:
        text = f"A prediction cannot reach step {drawn.steps[-1]:,}: no run has more than {MAX_STEP:,}."
        return [Problem("spec.prediction", text, "Check its steps.", "prediction")]
    if curve and max(map(abs, drawn.values)) > MAX_PREDICTED_VALUE:
        text = f"A prediction cannot have values beyond {MAX_PREDICTED_VALUE:g}, which no axis shows."
        return [Problem("spec.prediction", text, "Check its values.", "prediction")]
    if curve:
        return []
    text = f"A prediction needs 2 to {MAX_PREDICTED:,} points with rising steps and finite values."
    return [Problem("spec.prediction", text, "Check its steps and values.", "prediction")]


def misfits(spec: RunSpec, card: ExerciseCard) -> list[Problem]:
    """Returns everything in ``spec`` that does not fit the exercise, whatever computer trains it."""
    return [*check(card.params, spec.params)[1], *check_strategy(spec, card), *check_extras(spec, card)]


def check_strategy(spec: RunSpec, card: ExerciseCard) -> list[Problem]:
    """Returns everything that does not fit the exercise in how ``spec`` spreads: strategy, devices, nodes, options."""
    known = {one.id: one for one in card.strategies} or {SINGLE.id: SINGLE}
    chosen = known.get(spec.strategy)
    if chosen is None:
        text = f"The exercise {card.id!r} cannot be run with the strategy {spec.strategy!r}."
        return [Problem("spec.strategy", text, f"Possible: {', '.join(known)}.", "strategy")]
    known_options = {one.name for one in chosen.params}
    found = [_unknown_option(chosen, name) for name in spec.options if name not in known_options]
    given = {name: value for name, value in spec.options.items() if name in known_options}
    wrong = check(chosen.params, given)[1]
    found += [msgspec.structs.replace(one, where=f"options.{one.where}") for one in wrong]
    if spec.devices not in chosen.devices:
        possible = ", ".join(map(str, chosen.devices))
        counts = "1 device" if chosen.devices == (1,) else f"{possible} devices"
        text = f"The strategy {spec.strategy!r} of {card.id!r} runs on {counts}, not on {spec.devices}."
        found.append(Problem("spec.devices", text, "Choose another number.", "devices"))
    if spec.nodes > 1 and not chosen.nodes:
        text = f"The strategy {spec.strategy!r} runs on one node, not on {spec.nodes}."
        able = ", ".join(one.id for one in card.strategies if one.nodes)
        hint = f"Take 1 node, or one of these strategies: {able}." if able else "Take 1 node."
        found.append(Problem("spec.nodes", text, hint, "nodes"))
    if card.kind != "training" and spec.precision != USUAL_PRECISION:
        found.append(
            Problem("spec.precision", f"The exercise {card.id!r} has no choice of precision.", where="precision")
        )
    return found


def _unknown_option(strategy: StrategyCard, name: str) -> Problem:
    if name in _NO_LOCAL_STEPS:
        hint = "Leave them out, or take the strategy local-sgd: devices train alone and average their weights."
        return Problem("spec.local_steps", "Parameter servers have no local steps any more.", hint, f"options.{name}")
    text = f"The strategy {strategy.id!r} has no setting {name!r}."
    return Problem("spec.options", text, "Leave it out.", f"options.{name}")


def check_extras(spec: RunSpec, card: ExerciseCard) -> list[Problem]:
    """Returns everything else asked of the run that does not fit the exercise: pruning, rates, prediction, trace."""
    found, metrics = [], [metric.name for metric in card.metrics]
    for request in (spec.pruning, spec.prediction):
        if request is not None and request.metric not in metrics:
            text = f"{card.id} has no metric {request.metric!r}."
            found.append(Problem("spec.metric", text, f"Known: {', '.join(metrics) or 'none'}.", "metric"))
    if spec.pruning is not None and card.kind != "training":
        what = "a training script" if card.kind == "script" else "a measurement"
        text = f"{card.id} is {what}: Clew cannot end its run early because others do better."
        found.append(Problem("spec.pruning", text, "Leave the pruner out.", "pruner"))
    live = any(param.name == LEARNING_RATE and param.live for param in card.params)
    if spec.rate_range is not None and (not live or card.kind != "training"):
        text = f"{card.id} has no learning rate that can change while it trains."
        found.append(Problem("spec.rate_range", text, "Choose another exercise.", "rate_range"))
    return [*found, *([wrong] if spec.trace and (wrong := untraceable(spec, card)) is not None else [])]


def untraceable(spec: RunSpec, card: ExerciseCard) -> Problem | None:
    """Says why the steps of a run cannot be traced; None if they can."""
    if card.kind != "training":
        what = "a training script" if card.kind == "script" else "a measurement"
        text = f"{card.id} is {what}: it has no steps that Clew could trace."
        return Problem("spec.trace", text, "Choose another exercise.", "trace")
    if any(one.id == spec.strategy and one.roles for one in card.strategies):
        text = "The steps of a run with parameter servers are computed by its workers, which are not traced."
        return Problem("spec.trace", text, "Trace it with another strategy.", "trace")
    return None


def strategy_for(card: ExerciseCard, devices: int, nodes: int = 1) -> str:
    """The first strategy of ``card`` that runs on so many devices and nodes; "single" when none does."""
    fits = (one.id for one in card.strategies if devices in one.devices and (nodes == 1 or one.nodes))
    return next(fits, SINGLE.id)


def spread_again(spec: RunSpec, card: ExerciseCard, changes: Mapping[str, Any]) -> RunSpec:
    """Returns ``spec`` with another ``strategy``, ``devices`` or ``nodes``; the rest follows from these."""
    spread = msgspec.structs.replace(spec, **changes)
    if "strategy" not in changes and check_strategy(spread, card):
        spread = msgspec.structs.replace(spread, strategy=strategy_for(card, spread.devices, spread.nodes))
    if spread.strategy == SINGLE.id:
        spread = msgspec.structs.replace(spread, **{"devices": 1, "nodes": 1, **changes})
    if spread.strategy != spec.strategy:
        spread = msgspec.structs.replace(spread, options={})
    return spread
