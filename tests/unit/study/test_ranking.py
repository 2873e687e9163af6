"""Who wins a race: fewest steps to the target, then the best value."""

from __future__ import annotations

import numpy as np
import pytest

from clew_gui.study.ranking import Standing, rank, stand
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Points, Schema
from clew_shared.journal.history import History


def history(*values: float) -> History:
    found = History()
    found.feed(1, Schema(id=1, metrics=(MetricSpec(name="loss", label="Loss", dtype="float64"),)))
    if values:
        data = np.array(values, "<f8").tobytes()
        found.feed(1, Points(schema=1, first=0, count=len(values), seconds=1.0, clock=1.0, values=(data,)))
    return found


def test_the_first_step_at_the_target_counts_and_the_best_value() -> None:
    one = stand("a", history(3.0, 0.5, np.nan, 2.0, 0.1), "loss", "lower", 0.5)
    assert (one.reached, one.best, one.step) == (1, 0.1, 5)
    two = stand("a", history(3.0, 0.5), "loss", "higher", 4.0)
    assert (two.reached, two.best) == (None, 3.0)


def test_a_run_without_values_has_no_place_yet() -> None:
    assert stand("a", history(), "loss", "lower", 1.0) == Standing("a", None, None, 0)
    assert stand("a", history(np.nan, np.inf), "loss", "lower", 1.0)[1:3] == (None, None)
    assert stand("a", history(1.0), "accuracy", "higher", None).best is None


@pytest.mark.parametrize(("better", "order"), [("lower", "cabde"), ("higher", "cbade")])
def test_the_winner_stands_first(better: str, order: str) -> None:
    standings = [
        Standing("d", None, None, 3),
        Standing("a", None, 0.1, 9),
        Standing("b", None, 0.2, 9),
        Standing("c", 7, 0.15, 9),
        Standing("e", None, None, 0),
    ]
    found = "".join(one.run for one in rank(standings, "lower" if better == "lower" else "higher"))
    assert found == order
