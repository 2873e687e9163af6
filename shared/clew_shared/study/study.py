"""Studies: one base run becomes several runs that can be compared, because nothing else differs.

Either each run is a lane with values of its own (a race is the study whose lanes are optimizers), or the runs have
different values on one axis: devices, nodes, or a hyperparameter; or they are the points of a sweep over several
settings (``clew_shared.study.sweep``). As TOML a study is a file that a person can keep and
hand on.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from clew_shared.base.foreign import from_toml as parse_toml
from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.base.remedies import run_exercise
from clew_shared.cards import ExerciseCard, Lane, RaceSpec
from clew_shared.params import BATCH_SIZE, HEADLINE, LEARNING_RATE, STEPS, Value, check, format_value
from clew_shared.spec import (
    MAX_NAME,
    Pruning,
    RunSpec,
    check_extras,
    check_spec,
    check_strategy,
    read_text,
    to_table,
    without_null,
    without_study,
)
from clew_shared.study.sweep import (
    FIELDS,
    MOST_DEVICES,
    PLACES,
    Point,
    Sweep,
    check_sweep,
    doubled,
    number_of_points,
    point_title,
    points,
    setting_words,
)

STUDY_FORMAT, AXIS_FORMAT, SWEEP_FORMAT = 1, 2, 3
"""File formats of studies with lanes, which earlier versions read as well, of studies over an axis, and of sweeps."""
MAX_LANES = 32
MAX_REPEATS = 100
SCALING = "scaling"
"""The beginning of the names of scaling studies."""
SWEEP = "sweep"
"""The beginning of the names of sweeps."""
EQUAL = (STEPS, BATCH_SIZE, "order")
"""Hyperparameters that no lane may set: with them lanes would see other batches, or more of them."""


class StudySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``base`` says what all runs share, ``study`` is the short name that all carry.

    ``lanes`` say in what each run differs, or ``axis`` and ``values`` do: one run for each value of ``devices``,
    ``nodes`` or a hyperparameter, all of them ``repeats`` times. ``metric`` and ``target`` decide the order of lanes
    and values, as in ``RaceSpec``. Over devices and nodes the runs are timed without their first ``warm_up`` steps;
    ``weak`` gives each device a whole batch instead of its share of one. A ``sweep`` is over several settings at once.
    """

    base: RunSpec
    lanes: tuple[Lane, ...] = ()
    axis: str = ""
    values: tuple[Value, ...] = ()
    sweep: Sweep | None = None
    repeats: int = 1
    warm_up: int = 0
    weak: bool = False
    study: str = ""
    format: int = STUDY_FORMAT
    title: str = ""
    metric: str = "loss"
    target: float | None = None

    @property
    def steps(self) -> int:
        """The budget of each run; 0 when the exercise's own default counts."""
        steps = self.base.params.get(STEPS)
        return steps if isinstance(steps, int) else 0

    @property
    def timed(self) -> bool:
        """Whether its question is how fast its runs are."""
        return self.axis in PLACES


class StudyRun(NamedTuple):
    """A run of a study: its name among the others, its value on the axis (None: it is a lane), and its spec."""

    title: str
    value: Value
    spec: RunSpec


def new_name(race: str) -> str:
    """A name for a study of this race that no other study has: ``optimizers-3fa2c1``."""
    return f"{race[: MAX_NAME - 7]}-{uuid.uuid4().hex[:6]}"


def race_study(
    race: RaceSpec, base: RunSpec, lanes: Sequence[Lane] | None = None, steps: int = 0, name: str = ""
) -> StudySpec:
    """The study of a race: ``base`` for what all lanes share, the race's ``lanes`` and ``steps`` unless given."""
    shared = {**base.params, "steps": steps or race.steps}
    return StudySpec(
        study=name or new_name(race.id),
        title=race.title,
        base=without_study(base, run="", name="", preset="", params=shared),
        lanes=race.lanes if lanes is None else tuple(lanes),
        metric=race.metric,
        target=race.target,
    )


def lane_specs(study: StudySpec) -> tuple[RunSpec, ...]:
    """Returns one run spec for each lane, without a run id: the same exercise, data, seed, order and budget.

    A run is called by its optimizer and rate everywhere; only a lane with more to it gives its name to its run.
    """
    return tuple(
        msgspec.structs.replace(
            study.base,
            name=lane.name[:MAX_NAME] if lane.values.keys() - HEADLINE else "",
            study=study.study,
            params={**study.base.params, **lane.values},
        )
        for lane in study.lanes
    )


def study_runs(study: StudySpec) -> tuple[StudyRun, ...]:
    """Returns every run of the study in order, without run ids. All values come once before any is repeated, so that
    whatever slows the machine down for a while does so to all of them. Of a sweep with a sampler none is known."""
    if study.sweep is not None:
        return tuple(run for seed in study.sweep.seeds or (None,) for run in _at(study, points(study.sweep), seed))
    if not study.axis:
        specs = zip(study.lanes, lane_specs(study), strict=True)
        return tuple(StudyRun(lane_title(lane), None, spec) for lane, spec in specs)
    return tuple(_axis_run(study, value, repeat) for repeat in range(study.repeats) for value in study.values)


def _at(study: StudySpec, chosen: Sequence[Point], seed: int | None) -> Iterator[StudyRun]:
    return (sweep_run(study, point, seed) for point in chosen)


def sweep_run(study: StudySpec, point: Point, seed: int | None = None) -> StudyRun:
    """The run of a sweep at this point; ``seed`` None: with the seed of the base."""
    title = point_title(point, seed)
    fields = {name: value for name, value in point.items() if name in FIELDS}
    params = {name: value for name, value in point.items() if name not in FIELDS}
    pruner = study.sweep.pruner if study.sweep is not None else ""
    spec = msgspec.structs.replace(
        study.base,
        run="",
        name=title[:MAX_NAME],
        study=study.study,
        preset="",
        seed=study.base.seed if seed is None else seed,
        params={**study.base.params, **params},
        pruning=Pruning(pruner, study.metric) if pruner else None,
        **fields,
    )
    return StudyRun(title, None, spec)


def sweep_study(base: RunSpec, sweep: Sweep, *, metric: str, title: str = "") -> StudySpec:
    """The study of a sweep with a name of its own."""
    return StudySpec(
        base=without_study(base, run="", name="", preset="", prediction=None, rate_range=None),
        sweep=sweep,
        study=new_name(SWEEP),
        format=SWEEP_FORMAT,
        title=title,
        metric=metric,
    )


def usual_metric(card: ExerciseCard) -> str:
    """Returns the metric by which runs of the exercise are ranked unless somebody says otherwise: on validation data if
    there are any, because test data that choose the hyperparameters flatter the winner; else on other held-out data,
    else at each step."""
    judged = [metric for metric in card.metrics if metric.better != "none"]
    held_out = [metric.name for metric in judged if not metric.per_step]
    for_choosing = [name for name in held_out if name.startswith("validation_")]
    return next(iter((for_choosing or held_out)[-1:]), next((metric.name for metric in judged), "loss"))


def number_of_runs(study: StudySpec) -> int:
    """Returns how many runs the study has, also where a sampler chooses them later."""
    sweep = study.sweep
    return len(study_runs(study)) if sweep is None else number_of_points(sweep) * max(1, len(sweep.seeds))


def _axis_run(study: StudySpec, value: Value, repeat: int) -> StudyRun:
    title = axis_words(study.axis, value) + (f", {repeat + 1} of {study.repeats}" if study.repeats > 1 else "")
    change = msgspec.structs.replace
    spec = change(study.base, run="", name=title[:MAX_NAME], study=study.study, preset="", timed=study.timed)
    if not study.timed:
        return StudyRun(title, value, change(spec, seed=spec.seed + repeat, params={**spec.params, study.axis: value}))
    batch = spec.params.get(BATCH_SIZE)
    grown = {BATCH_SIZE: batch * value} if study.weak and isinstance(batch, int) and isinstance(value, int) else {}
    spread = {study.axis: value, "params": {**spec.params, **grown}}
    return StudyRun(title, value, change(spec, **spread))


def axis_words(axis: str, value: Value) -> str:
    """A value on an axis: ``2 devices``, ``1 node``, ``batch size 64``."""
    if axis in PLACES:
        return f"{value} {axis if value != 1 else axis.removesuffix('s')}"
    return setting_words(axis, value)


def scaling_study(
    base: RunSpec,
    counts: Sequence[int],
    *,
    axis: str = "devices",
    repeats: int = 1,
    warm_up: int = 0,
    weak: bool = False,
    title: str = "",
) -> StudySpec:
    """The study that times ``base`` on these numbers of devices (or nodes)."""
    return StudySpec(
        base=without_study(base, run="", name="", preset="", **{axis: 1}),
        axis=axis,
        values=tuple(counts),
        repeats=repeats,
        warm_up=warm_up,
        weak=weak,
        study=new_name(SCALING),
        format=AXIS_FORMAT,
        title=title,
    )


def scaling_kind(specs: Sequence[RunSpec]) -> Literal["strong", "weak"] | None:
    """Returns what kind of scaling over devices or nodes the runs of one study time; None when they ask another
    question."""
    if not specs or not all(spec.timed for spec in specs):
        return None
    return "strong" if len({str(spec.params.get(BATCH_SIZE)) for spec in specs}) == 1 else "weak"


def largest(study: StudySpec) -> RunSpec:
    """The base on as many devices and nodes as any run of the study needs: what one job for all of them asks for."""
    specs = [run.spec for run in study_runs(study)]
    most = {place: max((getattr(spec, place) for spec in specs), default=1) for place in PLACES}
    return msgspec.structs.replace(study.base, **most)


def usual_warm_up(steps: Value) -> int:
    """Returns how many steps of a timed run do not count unless somebody says otherwise: 20, at most a quarter of
    them."""
    return min(20, steps // 4) if isinstance(steps, int) else 20


def lane_title(lane: Lane) -> str:
    """A lane's name with its learning rate: ``Adam 0.2``."""
    rate = lane.values.get(LEARNING_RATE)
    return lane.name if rate is None else f"{lane.name} {format_value(rate)}"


def race_of(card: ExerciseCard, study: str) -> RaceSpec | None:
    """The race of ``card`` from which a study was made, by its name; None for another kind of study."""
    return next((race for race in card.races if study.rpartition("-")[0] == race.id), None)


def find_race(card: ExerciseCard, name: str = "") -> RaceSpec:
    """The race with this id, the first one for an empty name. Raises ``ProblemError`` when there is none."""
    for race in card.races:
        if name in ("", race.id):
            return race
    if not card.races:
        hint = "Compare runs yourself: run it, then again with other values."
        raise problem("study.none", f"{card.id} has no race.", hint, card.id, run_exercise(card.id))
    known = ", ".join(race.id for race in card.races)
    raise problem("study.race", f"{card.id} has no race {name!r}.", f"Known: {known}.", "race")


def choose_lanes(race: RaceSpec, names: Sequence[str]) -> tuple[Lane, ...]:
    """The lanes with these names, in the race's order; capital letters and spaces do not matter.

    Raises ``ProblemError`` that names every unknown one, and every one that is there twice.
    """
    known = {_key(lane.name): lane for lane in race.lanes}
    wanted = {_key(name) for name in names}
    hint = f"Known: {', '.join(lane.name for lane in race.lanes)}."
    unknown = [name for name in names if _key(name) not in known]
    wrong = [Problem("study.lane", f"The race has no lane {name!r}.", hint, "lanes") for name in unknown]
    twice = [known[key].name for key in doubled(map(_key, names)) if key in known]
    wrong += [Problem("study.lane", f"The lane {name} is listed twice.", "Remove one.", "lanes") for name in twice]
    raise_all(wrong)
    return tuple(lane for key, lane in known.items() if key in wanted)


def _key(name: str) -> str:
    return name.casefold().replace(" ", "").replace("-", "").replace("_", "")


def check_study(study: StudySpec, card: ExerciseCard | None = None) -> list[Problem]:
    """Returns everything that is wrong with a study; with its exercise's ``card`` every run's values are checked as
    well."""
    known = (STUDY_FORMAT, AXIS_FORMAT, SWEEP_FORMAT)
    found = [] if study.format in known else [_wrong(f"It has format {study.format}, not 1, 2 or 3.")]
    found += check_spec(study.base, "the base of the study")
    if study.sweep is not None:
        found += _check_sweep(study, study.sweep, card)
    else:
        found += _check_axis(study, card) if study.axis else _check_lanes(study)
    if card is not None and study.timed and card.kind != "training":
        text = f"{card.id} measures by itself and has no training steps to time."
        found.append(Problem("study.kind", text, "Run it by itself.", "exercise", (run_exercise(card.id),)))
    if card is not None and study.timed and not found:
        found += dict.fromkeys(wrong for run in study_runs(study) for wrong in check_strategy(run.spec, card))
    if card is not None and not ((study.axis or study.sweep) and found):
        wrong = (one for run in study_runs(study) for one in check(card.params, run.spec.params)[1])
        found += [one for one in dict.fromkeys(wrong) if one not in found]
        found += [] if study.timed else _check_metric(study, card)
    return found


def _check_metric(study: StudySpec, card: ExerciseCard) -> Iterator[Problem]:
    known = [metric.name for metric in card.metrics]
    if study.metric not in known:
        text = f"{card.id} has no metric {study.metric!r}, by which its runs could be ranked."
        yield Problem("study.metric", text, f"Known: {', '.join(known) or 'none'}.", "metric")


def _check_lanes(study: StudySpec) -> Iterator[Problem]:
    if not 1 <= len(study.lanes) <= MAX_LANES:
        yield _wrong(f"A study has 1 to {MAX_LANES} lanes, this one has {len(study.lanes)}.", "lanes")
    names = [lane.name for lane in study.lanes]
    yield from (_wrong(f"Two lanes are called {name!r}.", name) for name in doubled(names))
    for lane in study.lanes:
        for key in EQUAL:
            if key in lane.values:
                text = f"The lane {lane.name!r} sets {key}, but a race gives every lane the same."
                yield Problem("study.unfair", text, "Set it for all lanes.", key)
    if study.values or study.repeats != 1 or study.warm_up or study.weak:
        yield _wrong("values, repeats, warm_up and weak need an axis.", "axis")


def _check_sweep(study: StudySpec, sweep: Sweep, card: ExerciseCard | None) -> Iterator[Problem]:
    if study.lanes or study.axis:
        yield _wrong("A study has lanes, an axis or a sweep, only one of them.", "sweep")
    wrong = list(check_sweep(sweep, card))
    yield from wrong
    if card is not None and not wrong:
        runs = study_runs(study)
        yield from dict.fromkeys(one for run in runs for one in check_strategy(run.spec, card))
        yield from dict.fromkeys(one for run in runs[:1] for one in check_extras(run.spec, card))


def _check_axis(study: StudySpec, card: ExerciseCard | None) -> Iterator[Problem]:
    if study.lanes:
        yield _wrong("A study has lanes or an axis, not both.", "axis")
    if not 1 <= len(study.values) <= MAX_LANES:
        yield _wrong(f"An axis has 1 to {MAX_LANES} values, this one has {len(study.values)}.", "values")
        return
    shown = [format_value(value) for value in study.values]
    yield from (_wrong(f"The value {value} is listed twice.", "values") for value in doubled(shown))
    if not 1 <= study.repeats <= MAX_REPEATS:
        yield _wrong(f"A study has 1 to {MAX_REPEATS} repeats, this one has {study.repeats}.", "repeats")
    if study.timed:
        yield from _check_counts(study)
    elif study.weak or study.warm_up:
        yield _wrong(f"weak and warm_up need the axis {' or '.join(PLACES)}.", "axis")
    elif card is not None and study.axis not in [param.name for param in card.params]:
        hint = f"One of: {', '.join([*PLACES, *(param.name for param in card.params)])}."
        yield Problem("study.axis", f"{card.id} has no hyperparameter {study.axis!r}.", hint, "axis")


def _check_counts(study: StudySpec) -> Iterator[Problem]:
    for value in study.values:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_DEVICES:
            text = f"The number of {study.axis} must be a whole number from 1 to {MOST_DEVICES:,}, got {value!r}."
            yield _wrong(text, "values")
    if study.warm_up < 0 or (study.steps and study.warm_up >= study.steps):
        text = f"The warm-up must be shorter than the run of {study.steps:,} steps, got {study.warm_up:,}."
        yield Problem("study.warm_up", text, "Take more steps, or a shorter warm-up.", "warm_up")
    if study.weak and not isinstance(study.base.params.get(BATCH_SIZE), int):
        hint = "Write batch_size into the base: it is the batch of each device."
        yield Problem("study.weak", "Weak scaling needs to know the batch size.", hint, BATCH_SIZE)


def _wrong(text: str, where: str = "") -> Problem:
    return Problem("study.fields", text, where=where)


# --- TOML -------------------------------------------------------------------------------------------------------------


def to_toml(study: StudySpec) -> str:
    """The study as TOML text that ``from_toml`` reads back; empty fields are left out, no value is written "none"."""
    import tomli_w

    usual = {field.name: field.default for field in msgspec.structs.fields(study)}
    table = {"study": study.study, "format": study.format, "title": study.title, "metric": study.metric}
    table = {key: value for key, value in table.items() if value != ""}
    for name in ("target", "axis", "values", "repeats", "warm_up", "weak"):
        value = getattr(study, name)
        if value != usual[name]:
            table[name] = value
    if study.values:
        table["values"] = ["none" if value is None else value for value in study.values]
    if study.sweep is not None:
        table["sweep"] = _sweep_table(study.sweep)
    if study.lanes:
        table["lanes"] = [{"name": lane.name, "values": without_null(lane.values)} for lane in study.lanes]
    return tomli_w.dumps({**table, "base": to_table(study.base)})


def _sweep_table(sweep: Sweep) -> dict[str, Any]:
    usual = {field.name: field.default for field in msgspec.structs.fields(sweep)}
    table = {name: value for name, value in msgspec.to_builtins(sweep).items() if value and value != usual[name]}
    over = {
        name: ["none" if value is None else value for value in values] if isinstance(values, list | tuple) else values
        for name, values in table.get("over", {}).items()
    }
    chosen = [without_null(point) for point in sweep.points]
    return {
        "method": sweep.method,
        **table,
        **({"over": over} if over else {}),
        **({"points": chosen} if chosen else {}),
    }


def from_toml(text: str, origin: str = "the study") -> StudySpec:
    """The study in ``text``. Raises ``ProblemError`` with what is wrong."""
    try:
        table: Mapping[str, object] = parse_toml(text)
        study = msgspec.convert(table, StudySpec)
    except ValueError as error:  # no TOML, or wrong fields
        raise problem("study.toml", f"{origin} cannot be read: {error}.", "Fix that line.", origin) from None
    raise_all(check_study(study))
    return study


def read_study(path: Path) -> StudySpec:
    """The study in the file ``path``. Raises ``ProblemError`` when it cannot be read or is none."""
    return from_toml(read_text(path, "study.read"), str(path))
