"""How much each hyperparameter matters for the results of some runs, as Optuna judges it.

S. Watanabe, A. Bansal and F. Hutter, "PED-ANOVA", IJCAI 2023: a hyperparameter matters the more, the more its values in
the best results differ from those in all results.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from clew_shared.base.installation import how_to_install
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.params import Value
from clew_shared.run_settings import SEED, differences, inside, label_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_BEST = 0.25
"""The share of the results that count as the best."""
LEAST_RESULTS = 20
"""Optuna advises to have five of the best at least: with fewer it finds patterns in chance."""
SHOWN = 0.005
"""The least share that is shown."""
_WIDE = 20.0
"""The span of positive values from which on their logarithms count."""


class Importance(NamedTuple):
    """``shares`` of the hyperparameters, the largest first; they add up to 1. There are none where nothing can be said
    of ``results``, and then ``why`` has the reason."""

    shares: dict[str, float]
    results: int
    why: str = ""


def importance_of(settings: Sequence[Mapping[str, Value]], results: Sequence[float | None], higher: bool) -> Importance:
    """Judges the hyperparameters that differ by their results: that of a run, or the mean of those that differ in the
    seed alone; None: there is none. The seed is none. ``higher``: the best results are the highest.

    Nothing is said of fewer than ``LEAST_RESULTS``, of nothing that differs, and without Optuna.
    """
    known = [(one, value) for one, value in zip(settings, results, strict=True) if value is not None]
    known = [(one, value) for one, value in known if math.isfinite(value)]
    differ = [one for one in differences([one for one, _ in known]) if one.name != SEED]
    if len(known) < LEAST_RESULTS:
        why = f"From {LEAST_RESULTS} results on, Optuna says which settings mattered; there are {len(known)}."
        return Importance({}, len(known), why)
    if not differ or len({value for _, value in known}) == 1:
        what = "The results are all the same" if differ else "These runs differ in no setting"
        return Importance({}, len(known), f"{what}, so none mattered.")
    ranked = sorted((value for _, value in known), reverse=higher)
    if ranked[math.ceil(_BEST * len(ranked)) - 1] == ranked[len(ranked) // 2]:  # the best quarter is most of them
        return Importance({}, len(known), "Too many results are the same to say which settings mattered.")
    try:
        import optuna  # late: it takes a second, and a laptop may have none
    except ImportError:
        why = "Which settings mattered is judged with Optuna, which this Python does not have."
        return Importance({}, len(known), f"{why} {how_to_install('optuna')}.")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize" if higher else "minimize")
    columns = {one.name: _column(one.values) for one in differ}
    space = {name: _distribution(column) for name, column in columns.items()}
    for number, (_, value) in enumerate(known):
        point = {name: column[number] for name, column in columns.items()}
        study.add_trial(optuna.create_trial(params=point, distributions=space, value=value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Optuna says to a programmer is nothing for a terminal
        judge = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=_BEST)
        return Importance(optuna.importance.get_param_importances(study, evaluator=judge), len(known))


def _column(values: Sequence[Value]) -> list[float] | list[str]:
    """Numbers as they are; anything else as text."""
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return numbers if len(numbers) == len(values) else [str(value) for value in values]


def _distribution(column: list[float] | list[str]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    numbers = [value for value in column if isinstance(value, float)]
    if not numbers:
        return CategoricalDistribution(sorted(map(str, set(column))))
    low, high = min(numbers), max(numbers)
    return FloatDistribution(low, high, log=low > 0 and high > _WIDE * low)


def share_words(share: float) -> str:
    """``71 %``: it is not known better."""
    return f"{100 * share:.0f} %"


def importance_words(found: Importance, metric: MetricSpec, card: ExerciseCard | None) -> tuple[str, str]:
    """What mattered, and how sure that is: ``What mattered for test accuracy, from 24 results: learning rate 71 %,
    …``."""
    if not found.shares:
        return "", found.why
    shares = [(inside(label_of(name, card)), share) for name, share in found.shares.items() if share >= SHOWN]
    shown = ", ".join(f"{name} {share_words(share)}" for name, share in shares)
    sure = (
        "Optuna says so (PED-ANOVA), from how the best quarter differs from all. It does not know how much of that is"
        " chance, and knows nothing of values that were not tried."
    )
    return f"What mattered for {inside(metric.label)}, from {found.results} results: {shown}.", sure
