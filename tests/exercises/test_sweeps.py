"""A run of a sweep that does worse than the others ends early; a range test goes through the rates and says which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from clew_agent.trainer.endings import should_prune
from clew_gui.study.rate_range import rate_curve, rate_words
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import Pruning, RateRange, read_spec, to_toml
from tests.exercises.attempts import STOP, attempt, new_run

PRUNING = Pruning("median", "loss")
RANGE = RateRange(1e-6, 10.0)


def sweep_run(path: Path, **params: Any) -> RunFolder:
    folder = new_run(path, **params)
    spec = msgspec.structs.replace(read_spec(folder.spec), study="sweep-1", pruning=PRUNING)
    folder.spec.write_text(to_toml(spec), encoding="utf-8")
    return folder


def test_a_loser_ends_early_by_the_median_of_the_others_and_says_so(tmp_path: Path) -> None:
    for k in range(4):
        attempt(sweep_run(tmp_path / f"good{k}", learning_rate=0.01, steps=200))
    stranger = new_run(tmp_path / "stranger", learning_rate=0.01, steps=200)
    attempt(stranger)
    loser = sweep_run(tmp_path / "loser", learning_rate=0.0001, steps=200)
    attempt(loser)
    history = read_run(loser.path)
    assert history.fold.state is RunState.FINISHED
    assert 20 <= history.fold.step < 60, "after a tenth of the steps at the earliest"
    assert history.fold.reason.startswith(f"Stopped early after {history.fold.step} steps by the median pruner: loss ")
    assert "the median of 4 others 1." in history.fold.reason
    assert [read_run(tmp_path / f"good{k}").fold.step for k in range(4)] == [200] * 4


def test_halving_keeps_the_best_third_and_numbers_that_are_none_end_a_run() -> None:
    others = [dict.fromkeys((10, 30, 90), 1.0 + rank) for rank in range(6)]
    assert should_prune("halving", {10: 5.5, 30: 5.5}, others, False, 90)
    assert not should_prune("halving", {10: 0.5, 30: 0.5}, others, False, 90)
    assert should_prune("halving", {10: 0.5, 30: 0.5}, others, True, 90)
    assert should_prune("median", {10: float("nan")}, others, False, 90)


def test_a_range_test_raises_the_rate_the_same_way_over_a_break_and_ends_when_the_loss_explodes(tmp_path: Path) -> None:
    folders = [new_run(tmp_path / name, steps=300) for name in ("whole", "broken")]
    for folder in folders:
        spec = msgspec.structs.replace(read_spec(folder.spec), rate_range=RANGE)
        folder.spec.write_text(to_toml(spec), encoding="utf-8")
    attempt(folders[0])
    attempt(folders[1], {140: STOP})
    attempt(folders[1])
    whole, broken = (read_run(folder.path) for folder in folders)
    assert whole.fold.reason.endswith("the loss grew too far at the last learning rates.")
    assert 150 < whole.fold.step < 300
    np.testing.assert_array_equal(whole.column("loss").values, broken.column("loss").values)
    curve = rate_curve(whole, RANGE, 300)
    assert curve.rates[0] == 1e-6
    assert curve.steepest is not None
    assert 1e-4 < curve.steepest < 0.5
    assert rate_words(curve).startswith("The loss falls fastest at a learning rate of ")
