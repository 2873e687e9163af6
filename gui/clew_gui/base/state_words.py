"""States and settings of a run in the words that the window and the commands have in common."""

from __future__ import annotations

from clew_shared.base.number_words import counted, ordinal
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec

STATE_WORDS = {state: state.value.replace("_", " ").capitalize() for state in RunState}
NONE = "–"
"""The sign in a table for no value."""


def queue_place(place: int) -> str:
    """A place in the run queue in words: ``next in the queue``, ``2nd in the queue``; empty for 0, which is none."""
    if place < 1:
        return ""
    return "next in the queue" if place == 1 else f"{ordinal(place)} in the queue"


def spread_words(spec: RunSpec) -> str:
    """Says how a run spreads: "mirrored, 2 devices", "multi-worker, 2 nodes, bfloat16", "parameter-server, bounded 2, 4
    workers"; empty on one device in 32 bits."""
    usual = RunSpec(exercise="")
    parts = [
        spec.strategy if spec.strategy != usual.strategy else "",
        *_mode(spec),
        f"{spec.nodes} nodes" if spec.nodes > 1 else "",
        f"{spec.devices} devices" + (" each" if spec.nodes > 1 else "") if spec.devices > 1 else "",
        spec.precision if spec.precision != usual.precision else "",
    ]
    return ", ".join(part for part in parts if part)


def _mode(spec: RunSpec) -> list[str]:
    """The settings in which runs with parameter servers differ."""
    asked = spec.options
    bound = f" {asked['staleness']}" if asked.get("mode") == "bounded" and "staleness" in asked else ""
    mode = [f"{asked['mode']}{bound}"] if "mode" in asked else []
    return mode + ([counted(workers, "worker")] if isinstance(workers := asked.get("workers"), int) else [])
