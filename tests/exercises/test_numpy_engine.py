"""The training loop trains with any engine: NumPy's gives the same run as TensorFlow's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from clew_agent.trainer.control import Command
from clew_shared.journal.events import Live, Matrix, State
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.wire.messages import Pause, Unpause
from tests.exercises.attempts import RUN, STOP, attempt, new_run, rate, tensorflow_engine
from tests.exercises.numpy_engine import METRICS, numpy_engine

PAUSED = (Pause(run=RUN), Unpause(run=RUN))
RESIDUAL = 1e-13
"""The root of the loss is the length of four residuals, differences of numbers up to 4. In float64 one operation on
such numbers is off by at most 4.4e-16, a step has about thirty, and below its largest rate gradient descent makes an
earlier error smaller: so two ways to add up the same step stay closer than this, in the residuals and in W and b."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same run by both engines: a pause, two other rates, a stop, and an attempt that goes on."""
    folder = tmp_path_factory.mktemp("runs")
    for name, engine_of in (("numpy", numpy_engine), ("tensorflow", tensorflow_engine)):
        run = new_run(folder / name, steps=400)
        commands: dict[int, Command | Sequence[Command]] = {100: PAUSED, 150: rate(0.02), 200: rate(0.005), 250: STOP}
        attempt(run, commands, engine_of=engine_of)
        attempt(run, engine_of=engine_of)
    return {name: folder / name for name in ("numpy", "tensorflow")}


def of_attempt(run: Path, number: int) -> list[object]:
    folder = read_journal(run / f"journal.{number:04d}")
    return [item.event for item in folder if isinstance(item, Record)]


def test_numpys_losses_are_tensorflows(runs: dict[str, Path]) -> None:
    ours, theirs = (read_run(path) for path in runs.values())
    for history in (ours, theirs):
        assert history.fold.state is RunState.FINISHED
        assert all(history.column(spec.name).steps.tolist() == list(range(400)) for spec in METRICS)

    def values(history: History, name: str) -> npt.NDArray[np.float64]:
        return np.asarray(history.column(name).values, np.float64)

    roots = [np.sqrt(values(history, "loss")) for history in (ours, theirs)]
    assert roots[0][0] > 4.8
    np.testing.assert_allclose(roots[0], roots[1], rtol=0, atol=RESIDUAL)
    for name in ("W", "b"):
        np.testing.assert_allclose(values(ours, name), values(theirs, name), rtol=0, atol=RESIDUAL)


def test_both_pause_change_the_rate_stop_and_go_on_at_the_same_steps(runs: dict[str, Path]) -> None:
    for path in runs.values():
        first, second = of_attempt(path, 1), of_attempt(path, 2)
        states = [(one.state, one.step) for one in first if isinstance(one, State)]
        assert states == [
            (RunState.RUNNING, 0),
            (RunState.PAUSED, 100),
            (RunState.RUNNING, 100),
            (RunState.STOPPED, 250),
        ]
        assert [(one.step, one.value) for one in first if isinstance(one, Live)] == [(150, 0.02), (200, 0.005)]
        assert [one.step for one in second if isinstance(one, State)] == [250, 400]
        assert sorted(read_run(path).checkpoints) == [100, 200, 250, 300, 400]
        assert verify_run(path).findings == ()


def test_its_pictures_show_the_line(runs: dict[str, Path]) -> None:
    pictures = [one for number in (1, 2) for one in of_attempt(runs["numpy"], number) if isinstance(one, Matrix)]
    history = read_run(runs["numpy"])
    assert {one.step for one in pictures} >= {250, 400}, "the last one of each attempt is always taken"
    for one in pictures[:-1]:
        shown = np.frombuffer(one.data, "<f8").tolist()
        assert shown == [history.column(name).values[one.step] for name in ("W", "b")]


def test_it_trains_in_a_process_without_tensorflow(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.exercises.numpy_engine", str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""
    assert read_run(tmp_path / "run").fold.state is RunState.FINISHED
