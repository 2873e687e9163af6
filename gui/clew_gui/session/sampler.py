"""The next point of a sweep whose points depend on earlier results, as Optuna's TPE sampler proposes it.

The sampler is made again for each point, from the results so far and a seed. So a sweep that is continued proposes the
same points for the same results, and no state has to be kept beside the runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clew_shared.base.installation import how_to_install
from clew_shared.base.problem import problem
from clew_shared.cards import ExerciseCard
from clew_shared.study.ranking import Better
from clew_shared.study.sweep import Point, Range, Sweep, Values, draw, tidy, typed

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_TRIES = 20
"""A sampler may propose a point that was there before, which would give the same result."""


def next_point(sweep: Sweep, card: ExerciseCard, better: Better, tried: Sequence[tuple[Point, float | None]]) -> Point:
    """A point that is not among those of ``tried``, which have their results (None: no finite one).

    Raises ``ProblemError`` when Optuna is not installed, and when no other point is to be found.
    """
    known = [point for point, _ in tried]
    for again in range(_TRIES):
        found = _proposed(sweep, card, better, tried, sweep.draw + len(tried) + 100_003 * again)
        if found not in known:
            return found
    text = f"After {len(tried)} points the sampler proposes only points that were tried."
    raise problem("sweep.exhausted", text, "Take a smaller count, or a grid.", "count")


def _proposed(
    sweep: Sweep, card: ExerciseCard, better: Better, tried: Sequence[tuple[Point, float | None]], seed: int
) -> Point:
    try:
        import optuna
    except ImportError:
        hint = f"{how_to_install('optuna')}. Or take the method random."
        raise problem("sweep.optuna", "The method tpe needs Optuna, which is not installed.", hint, "method") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=len(sweep.over) > 1)
    study = optuna.create_study(sampler=sampler, direction="minimize" if better == "lower" else "maximize")
    whole = {param.name for param in card.params if param.type.python is int}
    space = {name: _distribution(values, name in whole) for name, values in sweep.over.items()}
    for point, value in tried:
        state = optuna.trial.TrialState.COMPLETE if value is not None else optuna.trial.TrialState.FAIL
        study.add_trial(optuna.create_trial(params=point, distributions=space, value=value, state=state))
    chosen: dict[str, Any] = study.ask(space).params
    return typed({name: tidy(value) if isinstance(value, float) else value for name, value in chosen.items()}, card)


def _distribution(values: Values, whole: bool) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(values, Range):
        return CategoricalDistribution(values)
    if whole:
        return IntDistribution(round(values.low), round(values.high), log=values.log)
    # Rounding to a few figures may leave the interval by a hair.
    low, high = (float(draw(values, share) or 0.0) for share in (0.0, 1.0))
    return FloatDistribution(min(low, values.low), max(high, values.high), log=values.log)
