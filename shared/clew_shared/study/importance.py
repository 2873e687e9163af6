"""How much each hyperparameter matters for the results of some runs, by a random forest.

L. Breiman, "Random forests", Machine Learning 45 (2001): a forest is fitted to the runs, then one hyperparameter after
the other is shuffled; the more the forest's prediction suffers, the more that hyperparameter matters. Two that always
changed together share what they do, and nothing is said of values that were not tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.params import Value
from clew_shared.run_settings import SEED, differences, inside, label_of

LEAST_RUNS = 12
"""With fewer runs a forest finds patterns in chance."""
_LEAST_SCORE = 0.2
"""A forest that explains less of runs that it has not seen knows nothing of them."""
SHOWN = 0.005
"""The least share that is shown."""
_TREES, _SHUFFLES = 200, 10
_WIDE = 20.0
"""The span of positive results from which on their logarithms are explained."""


class Importance(NamedTuple):
    """``shares`` of the hyperparameters in what they explain together, the largest first; they add up to 1, and there
    are none where the forest found no pattern. ``score``: the share of the differences among runs that a forest
    explains which has not seen them (R² out of the bag)."""

    shares: dict[str, float]
    runs: int
    score: float


def importance_of(settings: Sequence[Mapping[str, Value]], results: Sequence[float | None]) -> Importance | None:
    """Judges the hyperparameters that differ among runs by their results (one for each run; None: it has none). The
    seed is none.

    None where it is not asked: fewer than ``LEAST_RUNS`` results, nothing that differs, or no scikit-learn.
    """
    known = [(one, result) for one, result in zip(settings, results, strict=True) if result is not None]
    known = [(one, result) for one, result in known if math.isfinite(result)]
    differ = [one for one in differences([one for one, _ in known]) if one.name != SEED]
    heights = np.array([result for _, result in known])
    if len(known) < LEAST_RUNS or not differ or not np.ptp(heights):
        return None
    try:
        from sklearn.ensemble import RandomForestRegressor  # late: it takes a second, and a laptop may have none
        from sklearn.inspection import permutation_importance
    except ImportError:
        return None
    if heights.min() > 0 and heights.max() > _WIDE * heights.min():
        heights = np.log10(heights)
    features = np.array([_column(one.values) for one in differ]).T
    forest: Any = RandomForestRegressor(_TREES, oob_score=True, random_state=0)
    forest.fit(features, heights)
    score = float(forest.oob_score_)
    lost = permutation_importance(forest, features, heights, n_repeats=_SHUFFLES, random_state=0).importances_mean
    lost = np.maximum(lost, 0.0)
    told = score >= _LEAST_SCORE and lost.sum() > 0
    shares = {one.name: float(share) for one, share in zip(differ, lost / lost.sum(), strict=True)} if told else {}
    return Importance(dict(sorted(shares.items(), key=lambda one: -one[1])), len(known), score)


def _column(values: Sequence[Value]) -> list[float]:
    """Numbers as they are; of anything else the place of its kind."""
    if all(isinstance(value, int | float) for value in values):
        return [float(value) for value in values if value is not None]
    kinds = sorted({str(value) for value in values})
    return [float(kinds.index(str(value))) for value in values]


def share_words(share: float) -> str:
    """``71 %``: a forest does not know it better."""
    return f"{100 * share:.0f} %"


def importance_words(found: Importance, metric: MetricSpec, card: ExerciseCard | None) -> tuple[str, str]:
    """What mattered, and how sure that is: ``What mattered for test accuracy, from 24 runs: learning rate 71 %, …``."""
    if not found.shares:
        return "", f"A random forest cannot tell from these {found.runs} runs which settings mattered."
    shares = [(inside(label_of(name, card)), share) for name, share in found.shares.items() if share >= SHOWN]
    shown = ", ".join(f"{name} {share_words(share)}" for name, share in shares)
    sure = (
        f"A random forest says so, which explains {share_words(found.score)} of the differences among runs that it has "
        "not seen. It knows nothing of values that were not tried."
    )
    return f"What mattered for {inside(metric.label)}, from {found.runs} runs: {shown}.", sure
