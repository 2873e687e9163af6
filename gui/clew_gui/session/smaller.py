"""A short run of the same settings, for this computer, while the real one waits elsewhere."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clew_shared.cards import ExerciseCard
from clew_shared.spec import MAX_NAME, RunSpec

_SHARE = 10
_STEPS = 200
"""A few seconds on a laptop's processor with the built-in exercises."""
_ENDING = " (tried here)"


def smaller(spec: RunSpec, card: ExerciseCard) -> RunSpec:
    """``spec`` as a new run with a tenth of its steps, 200 at most, and one epoch; on one device, with data that are
    found here or the exercise's own."""
    values = {param.name: spec.params.get(param.name, param.default) for param in card.params}
    params = dict(spec.params)
    steps = values.get("steps")
    if isinstance(steps, int):
        params["steps"] = few = max(1, min(_STEPS, steps // _SHARE))
        every = values.get("evaluate_every")
        params |= {"evaluate_every": few} if isinstance(every, int) and every > few else {}
    if "epochs" in values:
        params["epochs"] = 1
    name = (spec.name or card.title)[: MAX_NAME - len(_ENDING)] + _ENDING
    known = spec.data in card.datasets or Path(spec.data).expanduser().exists()
    data = spec.data if known else ""
    return msgspec.structs.replace(
        spec, run="", name=name, study="", data=data, strategy="single", devices=1, params=params
    )
