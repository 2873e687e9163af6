"""Studies: one base run and several lanes become runs that can be compared, because nothing else differs.

A race is the study whose lanes are optimizers. As TOML it is a file that a person can keep and hand on.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.cards import ExerciseCard, Lane, RaceSpec
from clew_shared.params import check, format_value
from clew_shared.spec import MAX_NAME, RunSpec, check_spec, read_text, to_table, without_null

STUDY_FORMAT = 1
MAX_LANES = 32
_IN_TITLES = {"optimizer", "learning_rate"}
EQUAL = ("steps", "batch_size", "order")
"""Hyperparameters that no lane may set: with them lanes would see other batches, or more of them."""


class StudySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``base`` says what all runs share, ``lanes`` in what each differs, ``study`` is the short name that all carry.

    ``metric`` and ``target`` decide the order of the lanes, as in ``RaceSpec``.
    """

    base: RunSpec
    lanes: tuple[Lane, ...]
    study: str = ""
    format: int = STUDY_FORMAT
    title: str = ""
    metric: str = "loss"
    target: float | None = None

    @property
    def steps(self) -> int:
        """The budget of each lane; 0 when the exercise's own default counts."""
        steps = self.base.params.get("steps")
        return steps if isinstance(steps, int) else 0


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
        base=msgspec.structs.replace(base, run="", name="", study="", preset="", params=shared),
        lanes=race.lanes if lanes is None else tuple(lanes),
        metric=race.metric,
        target=race.target,
    )


def lane_specs(study: StudySpec) -> tuple[RunSpec, ...]:
    """One run spec for each lane, without a run id: the same exercise, data, seed, order and budget.

    A run is called by its optimizer and rate everywhere; only a lane with more to it gives its name to its run.
    """
    return tuple(
        msgspec.structs.replace(
            study.base,
            name=lane.name[:MAX_NAME] if lane.values.keys() - _IN_TITLES else "",
            study=study.study,
            params={**study.base.params, **lane.values},
        )
        for lane in study.lanes
    )


def lane_title(lane: Lane) -> str:
    """A lane's name with its learning rate: ``Adam 0.2``."""
    rate = lane.values.get("learning_rate")
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
        hint = f"Compare runs yourself: clew run {card.id}, then again with other values."
        raise problem("study.none", f"{card.id} has no race.", hint, card.id)
    known = ", ".join(race.id for race in card.races)
    raise problem("study.race", f"{card.id} has no race {name!r}.", f"Known: {known}.", "race")


def choose_lanes(race: RaceSpec, names: Sequence[str]) -> tuple[Lane, ...]:
    """The lanes with these names, in the race's order; capital letters and spaces do not matter.

    Raises ``ProblemError`` that names every unknown one.
    """
    known = {_key(lane.name): lane for lane in race.lanes}
    wanted = {_key(name) for name in names}
    hint = f"Known: {', '.join(lane.name for lane in race.lanes)}."
    unknown = [name for name in names if _key(name) not in known]
    raise_all([Problem("study.lane", f"The race has no lane {name!r}.", hint, "lanes") for name in unknown])
    return tuple(lane for key, lane in known.items() if key in wanted)


def _key(name: str) -> str:
    return name.casefold().replace(" ", "").replace("-", "").replace("_", "")


def check_study(study: StudySpec, card: ExerciseCard | None = None) -> list[Problem]:
    """Everything that is wrong with a study; with its exercise's ``card`` every lane's values are checked as well."""
    found = [] if study.format == STUDY_FORMAT else [_wrong(f"It has format {study.format}, not {STUDY_FORMAT}.")]
    found += check_spec(study.base, "the base of the study")
    if not 1 <= len(study.lanes) <= MAX_LANES:
        found.append(_wrong(f"A study has 1 to {MAX_LANES} lanes, this one has {len(study.lanes)}.", "lanes"))
    names = [lane.name for lane in study.lanes]
    found += [_wrong(f"Two lanes are called {name!r}.", name) for name in dict.fromkeys(names) if names.count(name) > 1]
    for lane in study.lanes:
        for key in EQUAL:
            if key in lane.values:
                text = f"The lane {lane.name!r} sets {key}, but a race gives every lane the same."
                found.append(Problem("study.unfair", text, "Set it for all lanes.", key))
        if card is not None:
            _, wrong = check(card.params, {**study.base.params, **lane.values})
            found += [one for one in wrong if one not in found]
    return found


def _wrong(text: str, where: str = "") -> Problem:
    return Problem("study.fields", text, where=where)


# --- TOML -------------------------------------------------------------------------------------------------------------


def to_toml(study: StudySpec) -> str:
    """The study as TOML text that ``from_toml`` reads back; empty fields are left out, no value is written "none"."""
    lanes = [{"name": lane.name, "values": without_null(lane.values)} for lane in study.lanes]
    head = {"study": study.study, "format": study.format, "title": study.title, "metric": study.metric}
    target = {} if study.target is None else {"target": study.target}
    table = {key: value for key, value in head.items() if value != ""} | target
    import tomli_w

    return tomli_w.dumps({**table, "lanes": lanes, "base": to_table(study.base)})


def from_toml(text: str, origin: str = "the study") -> StudySpec:
    """The study in ``text``. Raises ``ProblemError`` with what is wrong."""
    import tomllib  # a window paints without either

    try:
        table: Mapping[str, object] = tomllib.loads(text)
        study = msgspec.convert(table, StudySpec)
    except (ValueError, RecursionError) as error:  # no TOML, or wrong fields
        raise problem("study.toml", f"{origin} cannot be read: {error}.", "Fix that line.", origin) from None
    raise_all(check_study(study))
    return study


def read_study(path: Path) -> StudySpec:
    """The study in the file ``path``. Raises ``ProblemError`` when it cannot be read or is none."""
    return from_toml(read_text(path, "study.read"), str(path))
