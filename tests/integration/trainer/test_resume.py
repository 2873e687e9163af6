"""A run that was stopped or killed goes on to the same bits as one that never was."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew_agent.processes.guard import seal
from clew_agent.processes.trainer_death import TrainerEnd
from clew_shared.journal.events import Attempt, Checkpoint, Live, Points, Schema
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.spec import read_spec
from clew_shared.wire.messages import Pause, SetLive
from tests.integration.agent_runs import (
    Remote,
    agent,
    end,
    events,
    json_line,
    last_checkpoint,
    listing,
    running,
    states,
    trained,
    trainer_of,
    wait_for,
    write_spec,
)
from tests.stand_in import FOLDER

pytestmark = pytest.mark.usefixtures("warm")


@contextmanager
def remote(run: str) -> Iterator[Remote]:
    """A client of the run's trainer."""
    client = Remote(run)
    try:
        yield client
    finally:
        client.close()


STEPS = 6000
"""Seconds of training, so that a signal at an early step comes before the end on the busiest machine."""
PARAMS: dict[str, Any] = {"learning_rate": 0.01, "steps": STEPS, "evaluate_every": 1000}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of all steps in one go."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_HOME", str(folder / "home"))
        patch.setenv("PYTHONPATH", str(FOLDER))
        done = agent("run", write_spec(folder, "softmax", data="digits", params=PARAMS), "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def assert_same_run(one: Path, other: Path) -> None:
    """Every weight and slot to the bit, every step's metrics, and every evaluation."""
    saved, same = (
        {name: data for name, data in last_checkpoint(folder).items() if "index" not in name} for folder in (one, other)
    )
    assert saved == same
    first, second = read_run(one), read_run(other)
    assert first.recorded() == second.recorded()
    for name in first.recorded():
        np.testing.assert_array_equal(first.column(name).steps, second.column(name).steps)
        np.testing.assert_array_equal(first.column(name).values, second.column(name).values)


@pytest.mark.usefixtures("light")
def test_stopped_at_a_random_step_and_resumed(tmp_path: Path, uninterrupted: Path) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", params=PARAMS)
    with running("run", spec, "--out", folder, fresh=True) as process:
        wait_for(folder, trained(random.randrange(1, 1000)))
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130
    stopped_at = read_run(folder).fold.step
    assert 0 < stopped_at < STEPS
    assert verify_run(folder).findings == ()

    done = agent("run", spec, "--resume", folder, "--json", fresh=True)
    assert done.returncode == 0, done.stderr
    assert json_line(done.stdout)["steps"] == STEPS
    first = events(folder, 2)[0]
    assert isinstance(first, Attempt)
    assert (first.attempt, first.resumes, first.start_step) == (2, 1, stopped_at)
    assert first.checkpoint == f"checkpoints/{stopped_at:08d}"
    assert first.earlier_size == (folder / "journal.0001").stat().st_size
    assert verify_run(folder).findings == ()
    assert_same_run(folder, uninterrupted)


def test_a_run_goes_on_on_more_devices_and_then_on_one(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    params = {"steps": 60_000, "checkpoint_every": 500, "evaluate_every": 60_000}
    with running("run", write_spec(tmp_path, "softmax", data="digits", params=params), "--out", folder) as process:
        wait_for(folder, trained(1))
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130
    refused = agent("run", "--resume", folder, "--devices", 3, "--json")
    assert refused.returncode == 2
    assert "not on 3" in refused.stdout
    for words, said in ((("--nodes", 0), "At least 1 node"), (("--nodes", 2, "--devices", 2), "Without 2 GPUs")):
        refused = agent("run", "--resume", folder, *words, "--json")
        assert (refused.returncode, said in refused.stdout) == (2, True), refused.stdout
    assert listing(folder) == [name for name in listing(folder) if not name.startswith(("journal.0002", "spec.0002"))]

    with running("run", "--resume", folder, "--devices", 2, "--strategy", "local-sgd") as process:
        wait_for(folder, lambda found: any(isinstance(event, Points) for event in found), attempt=2)
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130
    with running("run", "--resume", folder, "--devices", 1) as process:
        wait_for(folder, lambda found: any(isinstance(event, Points) for event in found), attempt=3)
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130
    schemas = [next(event for event in events(folder, number) if isinstance(event, Schema)) for number in (1, 2, 3)]
    assert [schema.replicas for schema in schemas] == [1, 2, 1]
    assert [read_spec(RunFolder(folder).spec_of(number)).strategy for number in (1, 2, 3)] == [
        "single",
        "local-sgd",
        "local-sgd",
    ]
    steps = read_run(folder).column("loss").steps
    assert steps.tolist() == list(range(len(steps))), "one curve without a gap"
    assert verify_run(folder).findings == ()


@pytest.mark.usefixtures("light")
def test_killed_and_resumed_from_its_last_checkpoint(tmp_path: Path, uninterrupted: Path) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", params=PARAMS | {"checkpoint_every": 700})
    with running("run", spec, "--out", folder) as process:
        trainer_of(wait_for(folder, trained(1000))).kill()
        assert end(process)[0] == 1
    killed_at = read_run(folder).fold.step

    done = agent("run", "--resume", folder, "--json")
    assert done.returncode == 0, done.stderr
    first = events(folder, 2)[0]
    assert isinstance(first, Attempt)
    assert first.start_step % 700 == 0
    assert 700 <= first.start_step <= killed_at
    assert verify_run(folder).findings == ()
    assert_same_run(folder, uninterrupted)


def test_a_new_process_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path: Path) -> None:
    """The run folder as a power cut behind the first checkpoint leaves it, and one that had no such accident."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    params = {
        "optimizer": "adamw",
        "schedule": "warmup-cosine",
        "order": "balanced",
        "steps": 24,
        "checkpoint_every": 9,
    }
    spec = write_spec(tmp_path, "softmax", data="digits", params=params)
    done = agent("run", spec, "--out", whole)
    assert done.returncode == 0, done.stderr
    first, *later = sorted((whole / "checkpoints").iterdir())
    assert later

    shutil.copytree(whole, cut, ignore=lambda _, names: {path.name for path in later} & {*names})
    journal = cut / "journal.0001"
    end_of_first = next(
        item.offset + item.size
        for item in read_journal(journal)
        if isinstance(item, Record) and isinstance(item.event, Checkpoint)
    )
    os.truncate(journal, end_of_first + 5)

    done = agent("run", "--resume", cut, "--json")
    assert done.returncode == 0, done.stderr
    start = events(cut, 2)[0]
    assert isinstance(start, Attempt)
    assert (start.start_step, start.checkpoint) == (int(first.name), f"checkpoints/{first.name}")
    assert_same_run(cut, whole)


@pytest.mark.usefixtures("light")
def test_killed_before_any_checkpoint_begins_again_and_says_so(tmp_path: Path, uninterrupted: Path) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", params=PARAMS)
    with running("run", spec, "--out", folder) as process:
        trainer_of(wait_for(folder, lambda found: RunState.PREPARING in states(found))).kill()
        assert end(process)[0] == 1
    done = agent("run", "--resume", folder)
    assert done.returncode == 0, done.stderr
    assert any("starts again at step 0" in log.text for log in read_run(folder).logs)
    assert verify_run(folder).findings == ()
    assert_same_run(folder, uninterrupted)


@pytest.mark.usefixtures("light")
def test_a_checkpoint_that_has_changed_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    params = PARAMS | {"checkpoint_every": 100, "steps": 2_000_000}
    with running("run", write_spec(tmp_path, "softmax", data="digits", params=params), "--out", folder) as process:
        wait_for(folder, lambda found: sum(isinstance(event, Checkpoint) for event in found) >= 3)
        process.send_signal(signal.SIGTERM)
        end(process)
    saved = [event for event in events(folder) if isinstance(event, Checkpoint)]
    damaged = folder / saved[-1].files[0].path
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with running("run", "--resume", folder) as process:
        found = wait_for(folder, trained(1), attempt=2)
        process.send_signal(signal.SIGTERM)
        end(process)
    first = found[0]
    assert isinstance(first, Attempt)
    assert first.start_step == saved[-2].step
    assert any(saved[-1].folder in log.text and log.level == "warning" for log in read_run(folder).logs)


@pytest.mark.usefixtures("light")
def test_what_cannot_be_resumed_is_refused_and_left_as_it_was(tmp_path: Path, uninterrupted: Path) -> None:
    before = listing(uninterrupted)
    finished = agent("run", "--resume", uninterrupted)
    assert finished.returncode == 2
    assert "has finished" in finished.stderr
    assert listing(uninterrupted) == before
    nothing = agent("run", "--resume", tmp_path)
    assert nothing.returncode == 2
    assert "not a run folder" in nothing.stderr


@pytest.mark.usefixtures("light")
def test_a_resume_that_is_refused_late_takes_its_journal_back(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    data = tmp_path / "mine.npz"
    images = {"x": np.zeros((60, 28, 28), np.uint8), "y": np.zeros(60, np.uint8)}
    np.savez(data, x_train=images["x"], y_train=images["y"], x_test=images["x"], y_test=images["y"])
    spec = write_spec(tmp_path, "softmax", data=str(data), params=PARAMS | {"steps": 5_000_000, "batch_size": 10})
    with running("run", spec, "--out", folder) as process:
        wait_for(folder, trained(10))
        process.send_signal(signal.SIGTERM)
        end(process)
    data.write_bytes(b"junk")
    before = listing(folder)
    done = agent("run", "--resume", folder)
    assert done.returncode == 2
    assert "mine.npz" in done.stderr
    assert listing(folder) == before
    assert verify_run(folder).findings == ()


@pytest.mark.usefixtures("light")
def test_a_run_that_still_goes_on_is_not_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", params=PARAMS | {"steps": 5_000_000})
    with running("run", spec, "--out", folder) as process:
        wait_for(folder, trained(1))
        done = agent("run", "--resume", folder)
        assert done.returncode == 2
        assert "still going on" in done.stderr
        process.send_signal(signal.SIGTERM)
        end(process)
    assert listing(folder).count("journal.0002") == 0


@pytest.mark.usefixtures("light")
@pytest.mark.timeout(300)
def test_a_changed_rate_and_every_step_survive_four_attempts(tmp_path: Path) -> None:
    """Killed while paused behind the change, killed again, dead before its first frame, and then to the end."""
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", run="changed", params=PARAMS | {"checkpoint_every": 700})
    with running("run", spec, "--out", folder) as process:
        trainer = trainer_of(wait_for(folder, trained(1)))
        with remote("changed") as client:
            wait_for(folder, trained(1000))
            client.ask(Pause(run="changed"))
            wait_for(folder, lambda found: states(found)[-1] is RunState.PAUSED)
            client.ask(SetLive(run="changed", name="learning_rate", value=0.003))
            wait_for(folder, lambda found: any(isinstance(event, Live) for event in found))
        trainer.kill()
        assert end(process)[0] == 1
    changed_at = read_run(folder).fold.step

    with running("run", "--resume", folder) as process:
        trainer_of(wait_for(folder, trained(changed_at + 100), attempt=2)).kill()
        end(process)
    repeated = [event.step for event in events(folder, 2) if isinstance(event, Live)]
    assert repeated == [changed_at]

    before = read_run(folder).column("loss").values.copy()
    seal(RunFolder(folder), 3, TrainerEnd(-9, out_of_memory=False))
    dead = read_run(folder)
    start = events(folder, 3)[0]
    assert isinstance(start, Attempt)
    np.testing.assert_array_equal(dead.column("loss").values, before[: start.start_step])
    assert start.start_step > changed_at - 700

    done = agent("run", "--resume", folder, "--json")
    assert done.returncode == 0, done.stderr
    history = read_run(folder)
    assert history.column("loss").steps.tolist() == list(range(STEPS))
    assert [(change.step, change.value) for change in history.live] == [(changed_at, 0.003)]
    for attempt in (1, 2):
        told = history.column("loss", attempt=attempt)
        np.testing.assert_array_equal(told.values, history.column("loss").values[told.steps])
    assert verify_run(folder).findings == ()
    assert listing(folder).count("journal.0005") == 0


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("where", ["middle", "first frame"])
def test_a_run_with_flipped_bits_goes_on_and_says_what_is_missing(where: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    params = PARAMS | {"checkpoint_every": 500, "evaluate_every": 500}
    spec = write_spec(tmp_path, "softmax", data="digits", params=params)
    with running("run", spec, "--out", folder) as process:
        wait_for(folder, trained(1200))
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130
    stopped_at = read_run(folder).fold.step
    journal = folder / "journal.0001"
    frames = [item for item in read_journal(journal) if isinstance(item, Record)]
    hurt, gone = frames[0], range(0)
    if where == "middle":
        hurt, points = next(
            (item, item.event) for item in frames if isinstance(item.event, Points) and item.event.first > 300
        )
        gone = range(points.first, points.first + points.count)
    data = bytearray(journal.read_bytes())
    data[hurt.offset + hurt.size // 2] ^= 0x10
    journal.write_bytes(data)

    done = agent("run", "--resume", folder, "--json")
    assert done.returncode == 0, done.stderr
    start = events(folder, 2)[0]
    assert isinstance(start, Attempt)
    assert start.start_step == stopped_at
    history = read_run(folder)
    assert history.column("loss").steps.tolist() == [step for step in range(PARAMS["steps"]) if step not in gone]
    assert [note.attempt for note in history.damages] == [1]
    assert any("damaged" in log.text and log.level == "warning" for log in history.logs)
    found = verify_run(folder).findings
    assert (found[0].file, found[0].offset) == ("journal.0001", hurt.offset)
