"""A run whose job is over ends TIMED_OUT with a checkpoint, and goes on to the same bits in another job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clew_agent.trainer.control import ControlRequests
from clew_agent.trainer.recorder import Recorder
from clew_agent.trainer.time_limit import FORECAST, Deadline, Timekeeper
from clew_shared.journal.events import Checkpoint, Event, Log, State
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from tests.exercises.attempts import RUN, attempt, new_run


class JobOf:
    """A job that is over after so many looks of its trainer at the clock: each look takes a second."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._now = 0.0

    def clock(self) -> float:
        self._now += 1
        return self._now

    def __call__(self, commands: ControlRequests, recorder: Recorder) -> Timekeeper:
        deadline = Deadline(self._seconds, clock=self.clock)
        return Timekeeper(deadline, commands, RUN, recorder.put, self.clock)


def events(folder: RunFolder, number: int) -> list[Event]:
    found = read_journal(folder.journal(number))
    return [item.event for item in found if isinstance(item, Record) and item.event is not None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = new_run(tmp_path_factory.mktemp("whole") / "run")
    attempt(folder)
    return folder


def assert_one_curve(folder: RunFolder, whole: RunFolder) -> None:
    shown, expected = read_run(folder.path), read_run(whole.path)
    assert shown.fold.state is RunState.FINISHED
    for name in expected.recorded():
        assert shown.column(name).steps.tolist() == list(range(500))
        np.testing.assert_array_equal(shown.column(name).values, expected.column(name).values)
    assert verify_run(folder.path).findings == ()


def test_three_jobs_that_are_too_short_give_one_gap_free_curve(tmp_path: Path, whole: RunFolder) -> None:
    folder = new_run(tmp_path / "run", checkpoint_every=None)
    steps = [0]
    for number in (1, 2):
        attempt(folder, timekeeper=JobOf(50))
        fold = read_run(folder.path).fold
        assert (fold.attempt, fold.state) == (number, RunState.TIMED_OUT)
        assert steps[-1] < fold.step < 500
        saved = [event for event in events(folder, number) if isinstance(event, Checkpoint)]
        assert [event.step for event in saved] == [fold.step], "saved at its very last step: nothing is done again"
        steps.append(fold.step)
    attempt(folder)
    assert_one_curve(folder, whole)


def test_steps_that_are_done_again_have_equal_bits(tmp_path: Path, whole: RunFolder) -> None:
    """The job ended too suddenly for a checkpoint of the last step."""
    folder = new_run(tmp_path / "run")
    attempt(folder, crash=350)
    attempt(folder)
    assert_one_curve(folder, whole)
    redone = read_run(folder.path)
    first = redone.column("loss", attempt=1)
    assert first.steps.tolist()[-1] == 349
    np.testing.assert_array_equal(first.values, redone.column("loss").values[:350])


def test_a_run_that_will_not_be_done_says_so_in_its_journal(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run")
    attempt(folder, timekeeper=JobOf(120))
    told = [event for event in events(folder, 1) if isinstance(event, Log) and event.stage == FORECAST]
    assert len(told) == 1
    assert told[0].text.startswith("This run will need about ")
    assert 0 < told[0].step < 100
    assert told[0].seconds > 0


def test_a_trainer_whose_run_has_begun_again_elsewhere_ends_and_saves_nothing(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", checkpoint_every=None)

    def begins_again(commands: ControlRequests, recorder: Recorder) -> Timekeeper:
        folder.journal(2).touch()
        return Timekeeper(Deadline(), commands, RUN, recorder.put)

    attempt(folder, timekeeper=begins_again)
    last = next(event for event in reversed(events(folder, 1)) if isinstance(event, State))
    assert (last.state, last.reason) == (RunState.STOPPED, "A later attempt continues this run elsewhere.")
    assert not folder.checkpoints.exists()
