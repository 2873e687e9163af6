"""The form's fields for how a run spreads over devices, made from the strategies on the exercise's card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clew_shared.cards import ExerciseCard, StrategyCard
from clew_shared.params import Choice, Condition, ParamSpec, Value
from clew_shared.spec import PRECISIONS, SINGLE, USUAL_PRECISION, RunSpec

_GROUP = "Devices"


def spread_params(card: ExerciseCard) -> tuple[ParamSpec, ...]:
    """Strategy, devices, nodes, the strategies' own settings and the precision; nothing if there is no choice."""
    if len(card.strategies) < 2:
        return ()
    strategies = card.strategies
    many = tuple(one.id for one in strategies if max(one.devices) > 1)
    counts = sorted({count for one in strategies for count in one.devices if max(one.devices) > 1})
    nodes = tuple(one.id for one in strategies if one.nodes)
    choice = ParamSpec(
        name="strategy",
        kind="choice",
        label="Strategy",
        default=strategies[0].id,
        help="How a step uses several devices. " + " ".join(f"{one.title}: {one.help}" for one in strategies),
        group=_GROUP,
        choices=tuple(Choice(one.id, one.title) for one in strategies),
    )
    devices = ParamSpec(
        name="devices",
        kind="choice",
        label="Devices",
        default="1" if nodes else str(next((count for count in counts if count > 1), 1)),
        help="GPUs of each node. Where there are none, parts of the processor: those make nothing faster.",
        group=_GROUP,
        choices=tuple(Choice(str(count), str(count)) for count in counts),
        shown_when=Condition("strategy", many),
    )
    spread = ParamSpec(
        name="nodes",
        kind="int",
        label="Nodes",
        default=2,
        help="Processes that train together, one on each node.",
        group=_GROUP,
        ge=1,
        le=1024,
        shown_when=Condition("strategy", nodes),
    )
    precision = ParamSpec(
        name="precision",
        kind="choice",
        label="Precision",
        default=USUAL_PRECISION,
        help="The number format of the arithmetic. Weights are kept in 32 bits in any case.",
        group=_GROUP,
        choices=tuple(Choice(name, PRECISIONS[name]) for name in PRECISIONS),
    )
    trains = card.kind == "training"
    return (choice, devices, *((spread,) if nodes else ()), *_own(strategies), *((precision,) if trains else ()))


def _own(strategies: tuple[StrategyCard, ...]) -> list[ParamSpec]:
    """The strategies' own settings, each shown with those that have it."""
    names = dict.fromkeys(spec.name for one in strategies for spec in one.params)
    found = []
    for name in names:
        having = tuple(one.id for one in strategies if any(spec.name == name for spec in one.params))
        spec = next(spec for one in strategies for spec in one.params if spec.name == name)
        found.append(msgspec.structs.replace(spec, group=_GROUP, shown_when=Condition("strategy", having)))
    return found


def spread_fields(card: ExerciseCard, values: Mapping[str, Value]) -> dict[str, Any]:
    """Turns the form's shown ``values`` into fields of a run spec."""
    name = str(values.get("strategy", SINGLE.id))
    chosen = next((one for one in card.strategies if one.id == name), SINGLE)
    nodes = values.get("nodes")
    return {
        "strategy": name,
        "devices": int(str(values.get("devices", 1))),
        "nodes": nodes if isinstance(nodes, int) else 1,
        "precision": str(values.get("precision", USUAL_PRECISION)),
        "options": {spec.name: values[spec.name] for spec in chosen.params if spec.name in values},
    }


def spread_values(spec: RunSpec) -> dict[str, Value]:
    """The form's values for a run."""
    alone = spec.strategy == SINGLE.id
    return {
        "strategy": spec.strategy,
        **({} if alone else {"devices": str(spec.devices), "nodes": spec.nodes}),
        "precision": spec.precision,
        **spec.options,
    }
