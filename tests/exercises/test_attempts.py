"""A run of several attempts is one run: each step once, the same bits, and what somebody changed stays changed."""

from __future__ import annotations

import errno
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.training import state
from clew_shared.journal.events import Attempt, Diverged, Event, Live
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.wire.messages import SetLive
from tests.exercises.attempts import STOP, attempt, new_run, rate
from tests.exercises.training import assert_same_bits


def events(folder: RunFolder, number: int) -> list[Event]:
    found = read_journal(folder.journal(number))
    return [item.event for item in found if isinstance(item, Record) and item.event is not None]


def first(folder: RunFolder, number: int) -> Attempt:
    found = events(folder, number)[0]
    assert isinstance(found, Attempt)
    return found


def changes(history: History) -> list[tuple[int, float]]:
    return [(change.step, change.value) for change in history.live]


def assert_one_run(folder: RunFolder, whole: RunFolder) -> None:
    """Both show the same curves, changes and checkpoints, and end with the same weights."""
    shown, expected = read_run(folder.path), read_run(whole.path)
    assert shown.fold.state is RunState.FINISHED
    assert shown.recorded() == expected.recorded() != ()
    for name in expected.recorded():
        assert shown.column(name).steps.tolist() == list(range(expected.fold.steps))
        np.testing.assert_array_equal(shown.column(name).values, expected.column(name).values)
    assert changes(shown) == changes(expected)
    assert set(shown.checkpoints) == set(expected.checkpoints)
    assert_same_bits(*(last_state(run.path, expected.fold.steps) for run in (folder, whole)))
    assert verify_run(folder.path).findings == ()


def last_state(path: Path, step: int) -> dict[str, Any]:
    """All that the checkpoint holds, but for TensorFlow's own description of it."""
    reader = tf.train.load_checkpoint(path / f"checkpoints/{step:08d}/state")
    names = sorted(name for name in reader.get_variable_to_shape_map() if not name.startswith("_"))
    return {name: np.asarray(reader.get_tensor(name)) for name in names}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Without an accident; the rate was changed at three steps."""
    folder = new_run(tmp_path_factory.mktemp("whole") / "run")
    attempt(folder, {150: rate(0.004), 250: rate(0.002), 360: rate(0.001)})
    return folder


def test_five_attempts_are_one_run(tmp_path: Path, whole: RunFolder) -> None:
    """Crashes, a stop, a checkpoint that is lost, and an attempt that dies before it had one of its own."""
    folder = new_run(tmp_path / "run")
    attempt(folder, {150: rate(0.004), 250: rate(0.002)}, crash=280)
    attempt(folder, crash=240)  # before the change at 250, which nobody but the first attempt knows
    attempt(folder, {330: STOP})
    assert (first(folder, 2).start_step, first(folder, 3).start_step, first(folder, 3).resumes) == (200, 200, 1)
    damaged = folder.path / "checkpoints/00000330/state.data-00000-of-00001"
    sound = damaged.read_bytes()
    damaged.write_bytes(sound[:-1])
    attempt(folder, {360: rate(0.001)}, crash=390, seal=False)
    assert (first(folder, 4).resumes, first(folder, 4).start_step) == (3, 300)
    attempt(folder)
    assert (first(folder, 5).resumes, first(folder, 5).start_step) == (3, 300)
    assert_rates = [(event.step, event.value) for event in events(folder, 5) if isinstance(event, Live)]
    assert assert_rates == [(360, 0.001)]
    damaged.write_bytes(sound)
    assert_one_run(folder, whole)


def test_a_change_behind_the_last_checkpoint_survives_a_crash(tmp_path: Path, whole: RunFolder) -> None:
    folder = new_run(tmp_path / "run")
    attempt(folder, {150: rate(0.004), 250: rate(0.002), 360: rate(0.001)}, crash=370)
    attempt(folder)
    assert first(folder, 2).start_step == 300
    assert_one_run(folder, whole)


def test_a_change_at_the_very_step_of_the_checkpoint_survives_and_is_shown_once(tmp_path: Path) -> None:
    one, other = new_run(tmp_path / "one"), new_run(tmp_path / "other")
    attempt(one, {200: rate(0.001)})
    attempt(other, {200: rate(0.001)}, crash=230)
    attempt(other)
    assert_one_run(other, one)
    assert changes(read_run(other.path)) == [(200, 0.001)]


def test_without_a_checkpoint_the_changes_act_again_from_the_beginning(tmp_path: Path) -> None:
    one, other = (new_run(tmp_path / name, checkpoint_every=None, steps=80) for name in ("one", "other"))
    attempt(one, {20: rate(0.001), 40: rate(0.003)})
    attempt(other, {20: rate(0.001), 40: rate(0.003)}, crash=60)
    attempt(other)
    assert_one_run(other, one)


def test_a_new_word_counts_more_than_an_old_change_that_is_still_to_come(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run")
    attempt(folder, {150: rate(0.004), 250: rate(0.002)}, crash=280)
    attempt(folder, {220: rate(0.003)}, crash=270)
    attempt(folder)
    assert changes(read_run(folder.path)) == [(150, 0.004), (220, 0.003)]


@pytest.fixture
def diverging() -> dict[str, Any]:
    return {"learning_rate": 50.0, "steps": 400, "checkpoint_every": 20}


def told(folder: RunFolder, number: int) -> list[tuple[str, int]]:
    return [(event.metric, event.step) for event in events(folder, number) if isinstance(event, Diverged)]


def test_a_diverged_run_goes_on_and_says_once_when_it_happened(tmp_path: Path, diverging: dict[str, Any]) -> None:
    folder = new_run(tmp_path / "run", **diverging)
    attempt(folder, crash=380)
    found = told(folder, 1)
    assert "loss" in dict(found)
    column = read_run(folder.path).column("loss")
    assert int(column.steps[np.flatnonzero(~np.isfinite(column.values))[0]]) == dict(found)["loss"]
    attempt(folder)
    assert first(folder, 2).start_step == 380
    assert told(folder, 2) == []
    history = read_run(folder.path)
    assert history.fold.state is RunState.FINISHED
    assert history.first_nonfinite == dict(found)
    assert sum("became" in log.text for log in history.logs) == len(found)


def test_divergence_that_is_done_again_is_told_once(tmp_path: Path, diverging: dict[str, Any]) -> None:
    folder = new_run(tmp_path / "run", **diverging | {"checkpoint_every": None})
    attempt(folder, crash=390)
    attempt(folder)
    assert told(folder, 1) == told(folder, 2) != []
    history = read_run(folder.path)
    assert history.first_nonfinite == dict(told(folder, 1))
    assert sum("became" in log.text for log in history.logs) == len(told(folder, 1))


def test_a_change_that_prevents_the_divergence_takes_the_word_back(tmp_path: Path, diverging: dict[str, Any]) -> None:
    folder = new_run(tmp_path / "run", **diverging | {"checkpoint_every": None})
    attempt(folder, crash=390)
    attempt(folder, {0: SetLive(run="attempts", name="learning_rate", value=0.001)})
    history = read_run(folder.path)
    assert history.first_nonfinite == {}
    assert not any("became" in log.text for log in history.logs)
    assert math.isfinite(history.last("loss") or math.nan)


def test_a_batch_larger_than_the_set_is_told(tmp_path: Path, small_digits: DataSet) -> None:
    folder = new_run(tmp_path / "run", "softmax", steps=20, batch_size=60_000)
    attempt(folder, data=small_digits)
    told = [log.text for log in read_run(folder.path).logs if log.level == "warning"]
    assert len(told) == 1
    assert "60,000 is larger than the training set" in told[0]


def test_a_stop_while_the_disk_refuses_the_checkpoint_ends_stopped_and_says_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = new_run(tmp_path / "run")
    save = state.save

    def refuse(variables: Any, target: Path) -> None:
        if "00000100" not in target.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(variables, target)

    monkeypatch.setattr(state, "save", refuse)
    attempt(folder, {150: STOP})
    fold = read_run(folder.path).fold
    assert fold.state is RunState.STOPPED
    assert fold.problem is not None
    assert "No space left on device" in fold.reason
    assert "continue from step 100" in fold.reason
    monkeypatch.undo()
    attempt(folder)
    assert first(folder, 2).start_step == 100
    assert read_run(folder.path).column("loss").steps.tolist() == list(range(500))
