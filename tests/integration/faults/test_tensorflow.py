"""The same with TensorFlow in the trainer: what a stand-in cannot show."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.params import Value
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec
from tests.integration.agent_runs import LIMIT_S, end, running, states, trained, wait_for, write_spec
from tests.integration.faults.lab import WAYS, Lab, Viewer
from tests.integration.faults.oracle import judge

BOTH_WAYS = pytest.mark.parametrize("way", WAYS)
LONG: dict[str, Value] = {"steps": 5_000_000, "evaluate_every": 5_000_000, "checkpoint_every": 500}


def start(viewer: Viewer, **params: Value) -> str:
    """Start a real run of softmax; its id."""
    return viewer.session.start_run(RunSpec(exercise="softmax", data="digits", params=params))


def test_a_nan_loss_reaches_the_viewer_and_training_goes_on(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.real_viewer()
    spec = RunSpec(exercise="linear-regression", params={"learning_rate": 1.0, "steps": 3000})
    run = viewer.session.start_run(spec)
    lab.ended(run)
    history = judge(lab, run, RunState.FINISHED, truth=False)
    shown = viewer.model(run).history
    assert shown.fold.step == 3000
    assert np.isnan(shown.column("loss").values[-1])
    assert 0 < shown.first_nonfinite["loss"] < 3000
    assert shown.first_nonfinite == history.first_nonfinite


HUNGRY = """
import dataclasses
import tensorflow as tf
from clew_agent.exercises.softmax import Softmax
from clew_agent.training.exercise import Loss

class Hungry(Softmax):
    id = "hungry"
    jit = False  # XLA wants shapes that are known beforehand

    def build(self, setup):
        model = super().build(setup)
        (part,) = model.parts

        def loss(batch, context):
            found = part.loss(batch, context)
            size = tf.where(context.step < 50, tf.constant(1, tf.int64), tf.constant(1 << 50, tf.int64))
            return Loss(tf.reduce_max(tf.random.stateless_uniform([size], [1, 2])) * found.value, found.metrics)

        return dataclasses.replace(model, parts=[dataclasses.replace(part, loss=loss)])

EXERCISE = Hungry()
"""


def test_tensorflow_without_memory_has_failed_and_says_what_to_do(tmp_path: Path) -> None:
    own, folder = tmp_path / "exercises", tmp_path / "run"
    own.mkdir()
    folder.mkdir()
    (own / "hungry.py").write_text(HUNGRY)
    write_spec(tmp_path, "hungry", data="digits", params={"steps": 200}).rename(folder / "spec.toml")
    with running("guard", folder, "--exercises", own) as process:
        assert end(process)[0] == 1
    history = read_run(folder)
    assert history.fold.state is RunState.FAILED
    assert history.fold.problem is not None
    assert history.fold.problem.code == "run.memory", history.fold.problem
    assert "smaller batch" in history.fold.problem.hint
    assert 0 < history.fold.step <= 50, "everything before it stands"
    assert verify_run(folder).findings == ()


@pytest.mark.usefixtures("light")
def test_a_frozen_clew_run_holds_nothing_up_and_tells_the_end_when_it_wakes(tmp_path: Path) -> None:
    words = ("run", "softmax", "--preset", "tiny", "--steps", "1000", "--out", str(tmp_path / "run"))
    command = [sys.executable, "-m", "clew_gui", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(tmp_path / "run", trained(1))
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(tmp_path / "run", lambda found: RunState.FINISHED in states(found))
        assert process.poll() is None
        os.kill(process.pid, signal.SIGCONT)
        output, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, errors) == (0, "")
    assert "Finished: 1,000 steps" in output
    assert verify_run(tmp_path / "run").findings == ()
