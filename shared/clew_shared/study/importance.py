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

from clew_shared.base.installation import how_to_install
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.params import Value
from clew_shared.run_settings import SEED, differences, inside, label_of

LEAST_RESULTS = 12
"""With fewer a forest finds patterns in chance."""
_LEAST_SCORE = 0.2
"""A forest that explains less of runs that it has not seen knows nothing of them."""
SHOWN = 0.005
"""The least share that is shown."""
_TREES, _SHUFFLES = 200, 10
_WIDE = 20.0
"""The span of positive results from which on their logarithms are explained."""


class Importance(NamedTuple):
    """``shares`` of the hyperparameters in what they explain together, the largest first; they add up to 1, and there
    are none where the forest found no pattern. ``score``: the share of the differences among ``results`` that a forest
    explains which has not seen them (R² out of the bag); None without a forest, and then ``why`` has the reason."""

    shares: dict[str, float]
    results: int
    score: float | None = None
    why: str = ""


def importance_of(settings: Sequence[Mapping[str, Value]], results: Sequence[float | None]) -> Importance:
    """Judges the hyperparameters that differ by their results: that of a run, or the mean of those that differ in the
    seed alone; None: there is none. The seed is none.

    There is no forest for fewer than ``LEAST_RESULTS``, for nothing that differs, and without scikit-learn.
    """
    known = [(one, result) for one, result in zip(settings, results, strict=True) if result is not None]
    known = [(one, result) for one, result in known if math.isfinite(result)]
    differ = [one for one in differences([one for one, _ in known]) if one.name != SEED]
    heights = np.array([result for _, result in known])
    if len(known) < LEAST_RESULTS:
        why = f"From {LEAST_RESULTS} results on, a random forest says which settings mattered; there are {len(known)}."
        return Importance({}, len(known), why=why)
    if not differ or not np.ptp(heights):
        what = "The results are all the same" if differ else "These runs differ in no setting"
        return Importance({}, len(known), why=f"{what}, so none mattered.")
    try:
        from sklearn.ensemble import RandomForestRegressor  # late: it takes a second, and a laptop may have none
        from sklearn.inspection import permutation_importance
    except ImportError:
        why = "Which settings mattered is judged with scikit-learn, which this Python does not have."
        return Importance({}, len(known), why=f"{why} {how_to_install('scikit-learn')}.")
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
    """What mattered, and how sure that is: ``What mattered for test accuracy, from 24 results: learning rate 71 %,
    …``."""
    if found.score is None or not found.shares:
        return "", found.why or f"A random forest cannot tell from {found.results} results which settings mattered."
    shares = [(inside(label_of(name, card)), share) for name, share in found.shares.items() if share >= SHOWN]
    shown = ", ".join(f"{name} {share_words(share)}" for name, share in shares)
    sure = (
        f"A random forest says so, which explains {share_words(found.score)} of the differences among results that it"
        " has not seen. It knows nothing of values that were not tried."
    )
    return f"What mattered for {inside(metric.label)}, from {found.results} results: {shown}.", sure
