"""What goes wrong inside the trainer: a loss that is no number, memory that is used up."""

from __future__ import annotations

import math

from clew_shared.journal.lifecycle import RunState
from tests.integration.faults.lab import Lab
from tests.integration.faults.oracle import judge


def test_a_nan_loss_is_called_out_and_recorded_and_training_goes_on(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    at = lab.dice.randrange(1, 150)
    run = viewer.start(steps=200, fault="nan", at=at // 10 * 10)
    lab.ended(run)
    history = judge(lab, run, RunState.FINISHED, truth=False)
    column = viewer.model(run).history.column("loss")
    assert column.steps.size == 200
    assert [step for step in range(200) if math.isnan(column.values[step])] == list(range(at // 10 * 10, 200))
    assert history.first_nonfinite == {"loss": at // 10 * 10}


def test_a_trainer_that_runs_out_of_memory_has_failed_and_says_so(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    at = lab.dice.randrange(10, 150) // 10 * 10
    run = viewer.start(steps=200, fault="memory", at=at)
    lab.ended(run)
    history = judge(lab, run, RunState.FAILED, "MemoryError")
    problem = viewer.model(run).history.fold.problem
    assert problem is not None
    assert problem.code == "run.memory"
    assert "smaller batch" in problem.hint
    assert history.fold.step == at, "everything before it stands"
